"""FedCurv: FedAvg whose parties do not unlearn what the others have learnt."""

from __future__ import annotations

import copy
from collections.abc import Generator
from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, Ask, Party, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task

BLOCK_NUMBERS = 2**20
"""How many numbers of single rows' gradients a party has in memory at once."""


@algorithm("fedcurv", paper="Shoham et al. 2019 (arXiv:1910.07796)")
class FedCurv(Algorithm):
    """FedAvg that holds each weight where it matters to the other parties (elastic weight consolidation).

    Party k minimises f_k(w) + lam sum_{j != k} (w - w_j)^T F_j (w - w_j), where w_j is where party j's last
    training ended and F_j the diagonal of the Fisher information there: the mean over party j's rows of each row's
    squared gradient, with the labels that it has. (The square of a batch's gradient is something else: in it rows
    cancel each other out.)

    Sums are enough: with S1 = sum_j F_j and S2 = sum_j F_j w_j, a party takes its own part out, A = S1 - F_k and
    B = S2 - F_k w_k, and trains with the gradient 2 lam (A w - B) on top. That is 2 lam A (w - x), a pull with a
    strength for each weight towards the received model x, and the constant 2 lam (A x - B). Absent parties keep
    their part of both sums; one that never took part has none.

    ``lam`` is of the sum, as in the paper, so it means more with more parties; steps are stable where lr lam A is
    below 1. Three vectors travel each way, and a party looks at each of its rows once more in a round. Departure:
    parties are averaged by size, so that lam = 0 is FedAvg.
    """

    plain: ClassVar[frozenset[str]] = frozenset({"fisher", "anchor"})
    lam: float = 0.1

    def __post_init__(self) -> None:
        if not self.lam >= 0:
            raise UserError(f"FedCurv.lam must be >= 0, got {self.lam}. Use 0 for FedAvg.")

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model, and sums to which nobody has added anything."""
        if not task.rows_are_apart:
            raise UserError(
                "FedCurv looks at rows one by one, which batch norm without running statistics cannot. "
                "Use --batch-norm average or local, or another --model."
            )
        return {"w": w, **self.init_party(task, w)}

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The party's part of both sums, S1 and S2."""
        return {"fisher": w.new_zeros(w.shape), "anchor": w.new_zeros(w.shape)}

    def send(self, task: Task, server: Vectors) -> Vectors:
        """The model and both sums."""
        return server

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """Train, then look at the curvature where that ended."""
        replies = yield Ask("train+measure", self.send(task, server))
        return self.fold(task, server, replies)

    def _others(self, party: Party) -> tuple[Tensor, Tensor]:
        """A and B: both sums without the party's own part."""
        sums, own = party.received, party.state
        return (sums["fisher"] - own["fisher"]).clamp(min=0), sums["anchor"] - own["anchor"]

    def proximal(self, party: Party) -> tuple[Tensor, Tensor]:
        """The curved part of the penalty: a strength for each weight, centred at the received model."""
        curvature, _ = self._others(party)
        return 2 * self.lam * curvature, party.received["w"]

    def linear(self, party: Party) -> Tensor:
        """The gradient of the penalty at the received model."""
        curvature, anchor = self._others(party)
        return 2 * self.lam * (curvature * party.received["w"] - anchor)

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """The mean of the rows' squared gradients at the trained model, some rows at a time."""
        from torch.func import grad, vmap

        from unalike.models.batch import Batch

        w, task = party.trained, copy.copy(party.task)
        task.operation = None  # the net itself: a compiled one takes rows one after the other
        assert w is not None

        def squared(x: Tensor, y: Tensor) -> Tensor:
            row = Batch(x[None], y[None], buffers=batch.buffers)
            gradient: Tensor = grad(lambda v: task.loss(v, row))(w)
            return gradient**2

        count, block = len(batch.y), max(1, BLOCK_NUMBERS // task.size)
        real = party.size.new_ones(count) if batch.mask is None else batch.mask
        total = w.new_zeros(w.shape)
        for rows in (slice(first, first + block) for first in range(0, count, block)):
            part = Batch(batch.x[rows], batch.y[rows], real[rows])
            total = total + part.mean(vmap(squared)(part.x, part.y)) * real[rows].sum()
        return {"fisher": total / real.sum()}

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The update, and how the party's part of both sums has changed."""
        now = {"fisher": party.measured["fisher"], "anchor": party.measured["fisher"] * w}
        changes = {key: value - party.state[key] for key, value in now.items()}
        return {"delta": w - party.received["w"], **changes}, now

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """Models are averaged, changes are added to both sums."""
        sums = {key: server[key] + replies.sum[key] for key in self.plain}
        return {"w": server["w"] + replies.mean["delta"], **sums}
