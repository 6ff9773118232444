"""FedRS: a softmax that holds the classes back which a party does not have."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from unalike.algorithms.contract import Algorithm, Ask, Party, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@algorithm("fedrs", paper="Li and Zhan 2021 (KDD, doi:10.1145/3447548.3467254), equation 8")
class FedRs(Algorithm):
    """FedAvg whose local softmax scales the logits of the classes that a party has no rows of by ``alpha``.

    Under a plain softmax every step pushes the class rows of absent labels away from the party's features, and the
    rows of other parties' classes are spoilt so. With the restricted softmax (equation 8) a row's loss is

        -log( exp(z_y) / sum_c exp(a_c z_c) ),   a_c = 1 where the party has rows of class c, else alpha

    with the logits z, and the push on the row of an absent class is alpha times as strong. alpha = 1 is FedAvg, to
    the bit; alpha = 0 leaves the rows of absent classes as they are. Nothing is sent beside the update.

    With one label for each party no gain was seen: the model ends in answering one class (docs/data-methods.md).

    Departures: z has the head's bias in it, where the paper's classifier has none. Which labels a party has, it
    counts over its training rows in every round, since rows may change with time. The authors' public code
    scales by the *share* of a class (a_c = alpha + (1 - alpha) n_c / max n) and applies that again in each step to
    what the step before made of it, until all a_c are 1; here is what the paper says.
    """

    alpha: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise UserError(f"FedRs.alpha must be from 0 to 1, got {self.alpha}. Use 1 for FedAvg.")

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model; a task without classes is refused."""
        check_classes(task, "fedrs")
        return {"w": w}

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """A round of FedAvg in which parties count their labels before they train."""
        replies = yield Ask("measure+train", self.send(task, server))
        return self.fold(task, server, replies)

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """The share of each label; it stays with the party."""
        return {"labels": label_shares(party, batch)}

    def scales(self, party: Party) -> Tensor:
        """Equation 8: 1 for the classes that are there, alpha for the others."""
        there = (party.measured["labels"] > 0).to(party.task.dtype)
        return there + self.alpha * (1 - there)


def label_shares(party: Party, batch: Batch) -> Tensor:
    """How large a part of a batch each class is."""
    from torch.nn import functional

    hot: torch.Tensor = functional.one_hot(batch.y, party.task.classes)
    return batch.mean(hot.to(party.task.dtype))


def check_classes(task: Task, name: str) -> None:
    """Refuse a task that predicts numbers."""
    if not task.classes:
        raise UserError(f"{name} is for classes, but this task predicts numbers. Use fedavg.")
