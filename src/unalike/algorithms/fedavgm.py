"""FedAvgM: FedAvg in which the server's updates have momentum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.algorithms.contract import Algorithm, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@algorithm("fedavgm", paper="Hsu et al. 2019 (arXiv:1909.06335), section 4.3")
class FedAvgM(Algorithm):
    """FedAvg with momentum on the server: v <- momentum v + delta, w <- w + server_lr v.

    (The paper's delta has the opposite sign.) Momentum 0 and rate 1 are FedAvg.
    """

    momentum: float = 0.9
    server_lr: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise UserError(f"FedAvgM.momentum must be at least 0 and below 1, got {self.momentum}.")
        if not self.server_lr > 0:
            raise UserError(f"FedAvgM.server_lr must be above 0, got {self.server_lr}. Use 1 for FedAvg's.")

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model, and a velocity of 0: the first round is FedAvg's, scaled by the server's rate."""
        return {"w": w, "velocity": w.new_zeros(w.shape)}

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """The mean update is added to the velocity, and the model moves by the velocity."""
        velocity = self.momentum * server["velocity"] + replies.mean["delta"]
        return {"w": server["w"] + self.server_lr * velocity, "velocity": velocity}
