"""q-FedAvg: averaging that is fair to parties which the model serves badly."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import TYPE_CHECKING, Literal

from unalike.algorithms.contract import Algorithm, Ask, Party, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task

_LEAST_LOSS = 1e-10
"""Added to F_k: F_k^(q-1) has no value at 0 where q < 1. (The authors' code adds the same.)"""


@algorithm("qfedavg", paper="Li et al. 2020 (arXiv:1905.10497), Algorithm 2")
class QFedAvg(Algorithm):
    """Fair averaging: parties with a larger loss count more, the more so the larger q.

    The objective is sum_k p_k F_k(w)^(q+1) / (q+1). With L = 1 / eta, eta the local learning rate, each party
    sends

        Delta_k = F_k^q dw_k,   h_k = q F_k^(q-1) ||dw_k||^2 + L F_k^q,   where dw_k = L (w - w_k)

    and F_k is its loss over all its rows at the received model; the server does w <- w - sum Delta_k / sum h_k.

    The paper samples parties with probability p_k and sums plainly; here, as everywhere in this library, they are
    sampled uniformly and the sums are weighted by size. With q = 0 that is FedAvg, whatever L.

    After many local steps, or with momentum, dw_k is many gradients long, and its square in h_k stops the
    server: q has to be small (0.01 and less for ten epochs), or the rounds short, as in the papers that use q =
    1 (five steps). ``length="round"`` departs from the paper: L = 1 / (eta ||a||_1), so that dw_k is a mean
    gradient of the round's steps (``party.step_sum``) and q means the same for long and short rounds.
    ``lipschitz``: a constant L in place of 1 / eta, as rFedAvg's authors play it (1); 0 leaves it as in the paper.
    """

    q: float = 1.0
    length: Literal["step", "round"] = "step"
    lipschitz: float = 0.0

    def __post_init__(self) -> None:
        if not self.q >= 0:
            raise UserError(f"QFedAvg.q must be >= 0, got {self.q}. Use 0 for FedAvg.")
        if not 0 <= self.lipschitz < math.inf:
            raise UserError(f"QFedAvg.lipschitz must be >= 0, got {self.lipschitz}. Use 0 for 1 / lr.")
        if self.lipschitz and self.length == "round":
            raise UserError("QFedAvg.lipschitz is L itself: length=round has no say then. Leave one of them out.")

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """The loss at the received model, then training."""
        replies = yield Ask("measure+train", self.send(task, server))
        return self.fold(task, server, replies)

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """F_k(w^t): the party's loss at the received model, before it trains."""
        return {"loss": party.task.loss(party.received["w"], batch)}

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """Delta_k and h_k of the paper's Algorithm 2: the scaled update, and what the server divides by."""
        steps = party.step_sum if self.length == "round" else 1
        lipschitz, loss = self.lipschitz or 1 / (party.lr * steps), party.measured["loss"] + _LEAST_LOSS
        change = lipschitz * (party.received["w"] - w)
        h = self.q * loss ** (self.q - 1) * change.dot(change) + lipschitz * loss**self.q
        return {"change": loss**self.q * change, "h": h}, party.state

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """Line 7; the cohort's weights cancel."""
        return {"w": server["w"] - replies.mean["change"] / replies.mean["h"]}
