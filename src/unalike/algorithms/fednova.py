"""FedNova: FedAvg in which a party that takes more local steps does not count for more."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, Party, Replies, Vectors, algorithm

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@algorithm("fednova", paper="Wang et al. 2020 (arXiv:2007.07481), equations 8 and 9")
class FedNova(Algorithm):
    """FedAvg of updates normalised by how far each party's steps went.

    With d_i = (x - y_i) / (eta ||a_i||_1), the server does x <- x - tau_eff eta sum_i p_i d_i, p_i by size and
    tau_eff = sum_i p_i ||a_i||_1: a party that takes more steps no longer counts more. Parties that take the same
    steps give FedAvg.

    a_i holds how often each local gradient enters the update, ||a_i||_1 is its sum (``party.step_sum``). Plain
    SGD: tau_i steps, a_i = (1, ..., 1), ||a_i||_1 = tau_i. With momentum rho the velocity after step t of unit
    gradients is 1 + rho + ... + rho^(t-1) = (1 - rho^t) / (1 - rho), and the sum over t = 1..tau_i is

        ||a_i||_1 = (tau_i - rho (1 - rho^tau_i) / (1 - rho)) / (1 - rho)      (section 4 of the paper)

    NIID-Bench's Algorithm 1 writes tau_i, which is right without momentum only. The learning rate is the same
    for all parties and cancels.
    """

    needs_sgd: ClassVar[bool] = True

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The normalised update -eta d_i, and ||a_i||_1."""
        steps = party.step_sum
        return {"direction": (w - party.received["w"]) / steps, "steps": steps}, party.state

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """Equation 8 of the paper: the mean direction, times the mean number of effective steps."""
        return {"w": server["w"] + replies.mean["steps"] * replies.mean["direction"]}
