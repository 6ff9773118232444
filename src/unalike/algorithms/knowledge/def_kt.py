"""Def-KT: half of the parties hand their models to the other half, which learn from them and teach them."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, Ask, ByParty, Party, Payload, Replies, Vectors, algorithm
from unalike.algorithms.fedrs import check_classes
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@algorithm("def-kt", paper="Li et al. 2020 (arXiv:2012.13063)")
class DefKt(Algorithm):
    """Some parties train and hand their models to as many others; there is no common model.

    In each round the parties are drawn into ``pairs`` of a sender and a receiver (the paper's Q; 0: as many as
    there are). A sender trains its model on its rows and sends it. The receiver then trains the received model and
    its own on its rows, both at once: each minimises its cross-entropy + ``beta`` times the Kullback-Leibler
    divergence of its own scores from the other's, which stand still. It goes on with the received model; its old
    one is gone.

    The paper's text could not be read again for this: that a sender keeps the model that it has trained, and a
    receiver the received one, is so in a public implementation. ``beta`` is ours; the paper has 1. Senders and
    receivers have the same local work, the run's (the paper: M1 and M2 steps). Models go by way of the server,
    which sees each of them. A receiver whose sender is absent rests.
    """

    needs_each: ClassVar[bool] = True
    beta: float = 1.0
    pairs: int = 0

    def __post_init__(self) -> None:
        if not self.beta >= 0:
            raise UserError(f"DefKt.beta must be at least 0, got {self.beta}. Use 1.")
        if not self.pairs >= 0:
            raise UserError(f"DefKt.pairs must be at least 0, got {self.pairs}. Leave it out for all parties.")

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The number of rounds so far, which the pairs are drawn from."""
        check_classes(task, "DefKt")
        if task.population < 2 * max(1, self.pairs):
            raise UserError(
                f"DefKt needs two parties a pair, got {task.population} for {max(1, self.pairs)}. "
                "Use more parties, or fewer pairs."
            )
        return {"rounds": w.new_zeros(())}

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The model that the party itself has."""
        return {"w": w}

    def drawn(self, task: Task, server: Vectors) -> dict[int, int]:
        """By sender, its receiver in the next round."""
        import torch

        order = torch.randperm(task.population, generator=task.generator(int(server["rounds"]))).tolist()
        count = self.pairs or task.population // 2
        return dict(zip(order[:count], order[count : 2 * count], strict=True))

    def send(self, task: Task, server: Vectors) -> Payload:
        """Nothing: a party's model is its own."""
        return {}

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """Senders train and send; their receivers train the received models and their own."""
        import torch

        receivers = self.drawn(task, server)
        sent = yield Ask("train", {}, phase="send", to=tuple(receivers))
        models = torch.stack([upload["w"] for upload in sent.each.values()])
        row = torch.zeros(task.population, dtype=torch.int64)
        asked = [receivers[sender] for sender in sent.each]
        row[asked] = torch.arange(len(asked))
        yield Ask("train", {"w": ByParty(models, row)}, phase="receive", to=tuple(asked))
        return {"rounds": server["rounds"] + 1}

    def start(self, party: Party) -> Tensor:
        """A sender's own model; a receiver's two, the received one first."""
        import torch

        if party.phase != "receive":
            return party.state["w"]
        return torch.cat([party.received["w"], party.state["w"]])

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """Of a receiver: both models on the labels, and each towards the other."""
        if party.phase != "receive":
            return party.task.loss(w, batch)
        logits = [party.task.logits(model, batch) for model in w.chunk(2)]
        scores = [each.log_softmax(dim=-1) for each in logits]
        loss = party.task.loss_of(logits[0], batch) + party.task.loss_of(logits[1], batch)
        for mine, others in (scores, scores[::-1]):
            fixed = others.detach()
            loss = loss + self.beta * batch.mean((fixed.exp() * (fixed - mine)).sum(dim=-1))
        return loss

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """A sender's model, which it keeps too; a receiver sends nothing, and keeps the received one."""
        if party.phase != "receive":
            return {"w": w}, {"w": w}
        return {}, {"w": w[: party.task.size]}

    def global_model(self, task: Task, server: Vectors) -> Tensor | None:
        """None: every party has a model of its own."""
        return None

    def personal(self, party: Party) -> Tensor:
        """The model that the party itself has."""
        return party.state["w"]
