"""LG-FedAvg with the paper's rule for a new device: an ensemble of everybody's own layers."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Ask, Party, Payload, Phase, Replies, Vectors, algorithm
from unalike.algorithms.personal.partial import LgFedAvg
from unalike.algorithms.personal.related import MOST_NUMBERS
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@algorithm("lg-fedavg-ensemble", paper="Liang et al. 2020 (arXiv:2001.01523)")
class LgFedAvgEnsemble(LgFedAvg):
    """LG-FedAvg whose newcomers use the first layers of all others: the mean of what these nets predict.

    A new device has no local model, so the paper lets all local models, each below the shared layers, answer and
    averages their outputs: here the probabilities of the classes, or the numbers of a regression. They are the
    last own layers of every party that was ever asked. Those who were asked use their own, as in ``lg-fedavg``,
    and nobody adapts. Training has the bits of ``lg-fedavg``.

    What it shows: nothing stays at home. Every party uploads its own layers beside its update, the server must see
    them single and keeps those of all, and a newcomer is sent all of them: whole nets, each fitted to one party's
    rows. In a round a party sends as many numbers as its net has. The own layers of all parties go to a newcomer
    before it uses them, and in a federation to every site that is asked to evaluate. Own layers with running
    statistics are refused: those stay with their parties.
    """

    needs_each: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adapt_epochs is not None or self.adapt_all:
            raise UserError(
                "LgFedAvgEnsemble lends newcomers the layers of others as they are, and nobody adapts, got "
                f"adapt_epochs={self.adapt_epochs}, adapt_all={self.adapt_all}. Leave them out, or use lg-fedavg."
            )

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The base's state, own layers of everybody, all as at the start, and that nobody was seen."""
        server, own = super().init_server(task, w), self.split(task).own(w)
        if task.parts.have_statistics(*self.own_parts(task)):
            raise UserError(
                "LgFedAvgEnsemble lends own layers to newcomers, but here these have running statistics, which "
                "stay at home. Use lg-fedavg, or a --model without batch norm."
            )
        if task.population * len(own) > MOST_NUMBERS:
            raise UserError(
                f"LgFedAvgEnsemble keeps all own layers at the server, at most {MOST_NUMBERS:,} numbers, got "
                f"{task.population:,} parties x {len(own):,}. Use lg-fedavg."
            )
        return {**server, "lent": own.repeat(task.population, 1), "seen": own.new_zeros(task.population)}

    def send(self, task: Task, server: Vectors) -> Payload:
        """What a party needs to use its model: the shared layers, and for a newcomer everybody's own ones."""
        return {**super().send(task, server), "lent": server["lent"], "seen": server["seen"]}

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """A round of the base, which sends nobody the layers of others; those that come replace what was there."""
        lent, seen = server["lent"].clone(), server["seen"].clone()
        asks = super().round(task, server)
        try:
            ask = next(asks)
            while True:
                replies = yield ask
                for number, upload in replies.each.items():
                    lent[number], seen[number] = upload["own"], 1
                ask = asks.send(replies)
        except StopIteration as end:
            return {**end.value, "lent": lent, "seen": seen}

    def adapt(self, task: Task) -> tuple[Phase, ...]:
        """Nobody does: newcomers use the layers of others."""
        return ()

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """As in LG-FedAvg, and that the party was never asked."""
        return {**super().init_party(task, w), "asked": w.new_zeros(())}

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """What the base uploads of the shared part, and the own one."""
        upload, state = super().upload(party, w)
        return {**upload, "own": state["own"]}, {**state, "asked": party.state["asked"] * 0 + 1}

    def personal(self, party: Party) -> Tensor:
        """The party's own model; of a newcomer one for each party that was seen, [k, d], as an ensemble."""
        import torch

        seen = party.received["seen"] > 0
        # A number is looked at: nobody adapts, so no engine asks a stack of parties.
        if party.state["asked"] > 0 or not seen.any():
            return super().personal(party)
        split, shared = self.split(party.task), party.received["w"]
        return torch.stack([split.join(shared, own) for own in party.received["lent"][seen]])
