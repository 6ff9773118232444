"""FedAwS: parties draw features to their own classes' rows, and the server keeps the rows apart."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, ClassVar, Literal

from unalike.algorithms.contract import Algorithm, Ask, Party, Replies, Vectors, algorithm
from unalike.algorithms.fedrs import check_classes, label_shares
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task

HALVINGS = 8
"""How often a step that would bring rows closer is halved before it is left out."""


@algorithm("fedaws", paper="Yu et al. 2020 (arXiv:2004.10342), Algorithm 1")
class FedAws(Algorithm):
    """For parties with one label or few: a local loss without other classes, and a server that spreads the rows.

    A net's score for class c is the cosine of the features g(x) and the head's row w_c. A party minimises the
    mean of

        l(x, y) = max(0, close - cos(g(x), w_y))^2      (the positive part of the contrastive loss)

    in which no other class occurs: their rows have no gradient and stay fixed. Alone it would draw all to one
    point. So the server, after each round, moves the rows (each of length 1) against the gradient of

        reg(W) = sum_c sum_{c' != c} max(0, margin - d(w_c, w_c'))^2,   d(u, v) = 1 - u . v

    in ``steps`` steps of the length ``rate`` (lambda eta in the paper, which makes one step). A step is halved
    until the least distance of two rows does not fall, up to the margin, and left out if that is in vain; the
    paper takes it as it is. A class's row becomes the mean of what the parties with rows of it made of it, weighed
    by their sizes (in the paper one party has each class): parties tell which labels they have. ``rows=fixed``: a
    party does not move its own class's row either, only the features.

    So that the net's own scores are cosines but for the features' length, which changes no prediction, the server
    keeps the rows at length 1 and the head's bias at 0. Left out: the margin by stochastic negative mining, for
    very many classes. close=0.9 is the paper's, as a public summary of it says; the margin, the rate and the
    number of steps are ours.
    """

    needs_features: ClassVar[bool] = True
    needs_exact: ClassVar[bool] = True
    margin: float = 1.0
    rate: float = 0.1
    steps: int = 10
    close: float = 0.9
    rows: Literal["trained", "fixed"] = "trained"

    def __post_init__(self) -> None:
        if not 0 <= self.margin <= 2:
            raise UserError(f"FedAws.margin must be from 0 to 2, got {self.margin}. At 1 rows become orthogonal.")
        if not self.rate >= 0 or self.steps < 0:
            raise UserError(f"FedAws.rate and steps must be 0 or more, got {self.rate} and {self.steps}.")
        if not -1 < self.close <= 1:
            raise UserError(f"FedAws.close must be above -1 and at most 1, got {self.close}. The paper has 0.9.")

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model, its class rows of length 1 and without a bias."""
        check_classes(task, "fedaws")
        return {"w": with_rows(task, w, unit(class_rows(task, w)))}

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """One exchange, in which parties look at their labels before they train."""
        replies = yield Ask("measure+train", self.send(task, server))
        return self.fold(task, server, replies)

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """The share of each label."""
        return {"labels": label_shares(party, batch)}

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """The positive part of the contrastive loss."""
        rows = class_rows(party.task, w if self.rows == "trained" else w.detach())
        features = party.task.features(w, batch)
        likeness = (unit(features) * unit(rows)[batch.y]).sum(dim=-1)
        return batch.mean((self.close - likeness).clamp(min=0) ** 2)

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The update, and which labels the party has."""
        there = (party.measured["labels"] > 0).to(w.dtype)
        return {"delta": w - party.received["w"], "labels": there}, party.state

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """FedAvg for the body; each class's row from those who have the class; then the rows are spread."""
        share = replies.mean["labels"]
        step = class_rows(task, replies.mean["delta"]) / share.where(share > 0, 1)[:, None]
        rows = unit(class_rows(task, server["w"]) + step)
        for _ in range(self.steps):
            rows = spread(rows, self.margin, self.rate)
        return {"w": with_rows(task, server["w"] + replies.mean["delta"], rows)}


def class_rows(task: Task, w: Tensor) -> Tensor:
    """The head's rows [classes, features]."""
    place = task.slices.get("head.weight", slice(0, 0))
    if place.stop - place.start != task.classes * task.feature_size:
        raise UserError("fedaws needs a head that is one linear layer and is trained. Choose another --model.")
    return w[place].reshape(task.classes, task.feature_size)


def with_rows(task: Task, w: Tensor, rows: Tensor) -> Tensor:
    """The weights with other class rows, and the head's bias at 0."""
    w = w.clone()
    w[task.slices["head"]] = 0
    w[task.slices["head.weight"]] = rows.reshape(-1)
    return w


def unit(rows: Tensor) -> Tensor:
    """Each row divided by its length, so that their products are cosines."""
    from torch.nn import functional

    return functional.normalize(rows, dim=-1)


def least_distance(rows: Tensor, most: float) -> Tensor:
    """The least cosine distance of two rows of length 1, or ``most`` where it is more."""
    import torch

    itself = 3 * torch.eye(len(rows), dtype=rows.dtype, device=rows.device)
    return (1 - rows @ rows.T + itself).amin().clamp(max=most)


def spread(rows: Tensor, margin: float, rate: float) -> Tensor:
    """A step of rows away from each other: the longest of rate, rate / 2, ... that brings none closer."""
    import torch

    gap = (margin - 1 + rows @ rows.T).clamp(min=0)
    gradient = 4 * (gap - torch.diag(gap.diagonal())) @ rows
    found, least = rows, least_distance(rows, margin)
    for halved in reversed(range(HALVINGS + 1)):
        moved = unit(rows - rate / 2**halved * gradient)
        found = torch.where(least_distance(moved, margin) >= least, moved, found)
    return found
