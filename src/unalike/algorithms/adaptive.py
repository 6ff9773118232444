"""What FedAdagrad, FedAdam and FedYogi share: an adaptive step on the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unalike.algorithms.contract import Algorithm, Replies, Vectors
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@dataclass(frozen=True)
class AdaptiveServer(Algorithm):
    """Reddi et al. 2021 (arXiv:2003.00295), Algorithm 2, whose lines 11 to 13 are the three algorithms.

    With Delta the mean of the parties' updates:

        m <- beta1 m + (1 - beta1) Delta,   v <- what the algorithm says,   w <- w + server_lr m / (sqrt(v) + tau)

    m starts at 0 and v at tau^2 (the paper: v_{-1} >= tau^2); nothing corrects their bias. The mean is weighted
    by size as in the paper's experiments; its listing has the plain one. ``tau`` is the degree of adaptivity:
    where it is large beside Delta, the step is FedAvg's, scaled by about server_lr / (2 tau) at first.
    """

    server_lr: float = 0.1
    beta1: float = 0.9
    tau: float = 1e-3

    def __post_init__(self) -> None:
        name = type(self).__name__
        for field, least in (("server_lr", 1e-12), ("tau", 1e-18)):
            if not getattr(self, field) >= least:
                raise UserError(f"{name}.{field} must be at least {least}, got {getattr(self, field)}.")
        for field in ("beta1", "beta2"):
            if not 0 <= getattr(self, field, 0) < 1:
                raise UserError(f"{name}.{field} must be at least 0 and below 1, got {getattr(self, field)}.")

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        """The new v from the old one and Delta squared."""
        raise NotImplementedError

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model, m = 0 and v = tau^2."""
        return {"w": w, "m": w.new_zeros(w.shape), "v": w.new_full(w.shape, self.tau**2)}

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """Lines 9 to 14 of the paper: both moments follow the mean update; m over the root of v is the step."""
        update = replies.mean["delta"]
        m = self.beta1 * server["m"] + (1 - self.beta1) * update
        v = self.second_moment(server["v"], update**2)
        return {"w": server["w"] + self.server_lr * m / (v.sqrt() + self.tau), "m": m, "v": v}
