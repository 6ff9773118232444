"""Hybrid-FL: some parties give rows to the server, which trains on them as one more party."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, Ask, Party, Payload, Replies, Sends, Vectors, algorithm
from unalike.algorithms.data.at_server import ServerWork
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@algorithm("hybrid-fl", paper="Yoshida et al. 2019 (arXiv:1905.07210)")
class HybridFl(Algorithm):
    """FedAvg with the server as one more party, which trains on rows that some parties have given it.

    Before round 1 each of the parties ``givers`` (their numbers) uploads up to ``rows`` of its training rows:
    labels in turn, so that they are as even as its rows allow. In every round the server trains the model on all
    of these, ``epochs`` of SGD with learning rate ``rate`` on batches of ``batch`` rows, and its model joins the
    mean with the number of these rows as its weight. Nobody else ever sees them.

    The paper chooses who uploads what by a heuristic for the time and bandwidth of a wireless network; here who
    gives is said, and how much. What is known of the paper here is its abstract: the weight of the server's model
    is our reading.
    """

    needs_each: ClassVar[bool] = True
    needs_whole: ClassVar[bool] = True
    sends: ClassVar[Sends] = "rows"
    givers: tuple[int, ...] = (0,)
    rows: int = 100
    epochs: int = 1
    rate: float = 0.01
    batch: int = 32

    def __post_init__(self) -> None:
        if any(type(giver) is not int or giver < 0 for giver in self.givers) or self.rows < 1:
            raise UserError(
                f"HybridFl needs parties' numbers from 0, and a row of each or more, got givers={self.givers}, "
                f"rows={self.rows}. Use givers=(0, 1)."
            )
        self._work.check("HybridFl")

    @property
    def _work(self) -> ServerWork:
        return ServerWork(self.epochs, self.rate, self.batch)

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model, and room for the rows that are given."""
        if not task.classes:
            raise UserError("HybridFl is for classes: rows of each are given; this task has numbers. Use fedavg.")
        if unknown := [giver for giver in self.givers if giver >= task.population]:
            raise UserError(f"HybridFl.givers has {unknown[0]}, but parties are 0 to {task.population - 1}.")
        count = len(set(self.givers)) * self.rows
        kept = {"x": w.new_zeros(count, *task.shape), "y": w.new_zeros(count), "there": w.new_zeros(count)}
        return {"w": w, "rounds": w.new_zeros(()), **kept}

    def prepare(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """The rows of those who give some."""
        givers = tuple(sorted(set(self.givers)))
        if not givers:
            return server
        replies = yield Ask("offer", {}, to=givers)
        kept = {key: server[key].clone() for key in ("x", "y", "there")}
        for number, told in replies.each.items():
            place = slice(givers.index(number) * self.rows, (givers.index(number) + 1) * self.rows)
            for key, value in kept.items():
                value[place] = told[key]
        return server | kept

    def offer(self, party: Party, batch: Batch) -> tuple[Vectors, Vectors]:
        """Rows of the labels in turn, at random within a label."""
        import torch
        from torch.nn import functional

        from unalike.models import noise

        order = noise.uniform(party.key, len(batch.y), 0, torch.float64).argsort()
        turn = functional.one_hot(batch.y[order]).cumsum(dim=0).gather(1, batch.y[order][:, None])[:, 0]
        chosen = order[turn.argsort(stable=True)][: self.rows]
        upload = {"x": batch.x, "y": batch.y, "there": torch.ones(len(batch.y), device=batch.y.device)}
        return {key: _padded(value[chosen].to(party.task.dtype), self.rows) for key, value in upload.items()}, {}

    def send(self, task: Task, server: Vectors) -> Payload:
        """The model, and none of the rows that were given."""
        return {"w": server["w"]}

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """The mean with the server's own update in it."""
        w, there, after = server["w"], server["there"] > 0, server | {"rounds": server["rounds"] + 1}
        mine, total = int(there.sum()), replies.weight
        if not mine:
            return after | {"w": w + replies.mean["delta"]}
        x, y = server["x"][there].to(task.dtype), server["y"][there].long()
        own = self._work.trained(task, w, x, y, int(server["rounds"])) - w
        return after | {"w": w + (total * replies.mean["delta"] + mine * own) / (total + mine)}


def _padded(values: Tensor, rows: int) -> Tensor:
    """The values, and zeros until there are so many rows."""
    import torch

    return torch.cat([values, values.new_zeros(rows - len(values), *values.shape[1:])])
