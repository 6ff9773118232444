"""SCAFFOLD: FedAvg whose local steps are corrected for how a party's gradient differs from that of all."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, ClassVar, Literal

from unalike.algorithms.contract import Algorithm, Ask, Party, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@algorithm("scaffold", paper="Karimireddy et al. 2020 (arXiv:1910.06378), Algorithm 1")
class Scaffold(Algorithm):
    """FedAvg whose local steps are corrected by control variates: c_i for each party, c for all; both start at 0.

    Every local step uses g_i(y) - c_i + c (line 10). After training, c_i becomes (line 12)

    - option i: g_i(x), the gradient of all local rows at the received model x: one more pass over them;
    - option ii: c_i - c + (x - y) / (K eta), made from what the steps did anyway.

    Option ii in the paper assumes K steps of plain SGD. With momentum rho, step t's corrected gradient moves the
    weights by eta times a_t = 1 + rho + ... + rho^(K-t) in all, so that x - y = eta sum_t a_t (g_t - c_i + c).
    Divided by eta ||a||_1, with ||a||_1 = sum_t a_t = (K - rho (1 - rho^K) / (1 - rho)) / (1 - rho), the second
    term is again a mean of corrected gradients, and c_i a mean of the g_t: ``party.step_sum`` is ||a||_1. (Divided
    by K, c_i would be too large by up to 1 / (1 - rho).)

    ``weights``: by "size" the parties count by their rows, as in FedAvg and NIID-Bench's objective; "uniform" is
    the paper's: they all count the same. It holds for x *and* for c, which stays the mean of all c_i, absent ones
    included, with these weights: the fixed point is the optimum of the objective with these weights. (NIID-Bench's
    Algorithm 2 weighs x by size and c uniformly, which ends in the optimum of the uniform objective.)
    Where a party's rows change with time (``temporal``), so does its weight, and c is that mean only in between.

    The correction c - c_i is the same in every step of a round, so many or large steps carry the model away where
    FedAvg is still fine; option i, whose c_i is right at x only, wants a few steps.
    """

    needs_sgd: ClassVar[bool] = True
    option: Literal["i", "ii"] = "ii"
    server_lr: float = 1.0
    weights: Literal["size", "uniform"] = "size"

    def __post_init__(self) -> None:
        if not self.server_lr > 0:
            raise UserError(f"Scaffold.server_lr must be above 0, got {self.server_lr}. The paper uses 1.")

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model and the server's control variate, 0."""
        return {"w": w, "c": w.new_zeros(w.shape)}

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The party's control variate, 0."""
        return {"c": w.new_zeros(w.shape)}

    def send(self, task: Task, server: Vectors) -> Vectors:
        """The model and the server's control variate."""
        return server

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """One exchange; option i looks at all local rows first."""
        replies = yield Ask("measure+train" if self.option == "i" else "train", self.send(task, server))
        return self.fold(task, server, replies)

    def weight(self, party: Party) -> Tensor:
        """The party's number of rows, or 1 where all parties count the same."""
        return party.size if self.weights == "size" else party.size / party.size

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """Option i: the gradient at the received model."""
        from torch.func import grad

        return {"gradient": grad(lambda w: party.task.loss(w, batch))(party.received["w"])}

    def linear(self, party: Party) -> Tensor:
        """Line 10: what every gradient is corrected by, c - c_i."""
        return party.received["c"] - party.state["c"]

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """Lines 12 to 14 of the paper: the update and the change of c_i are sent, the new c_i stays here."""
        x, c_i = party.received["w"], party.state["c"]
        new = party.measured["gradient"] if self.option == "i" else self._mean_gradient(party, w)
        return {"delta": w - x, "dc": new - c_i}, {"c": new}

    def _mean_gradient(self, party: Party, w: Tensor) -> Tensor:
        """Option ii: of the gradients that the local steps took."""
        return party.state["c"] - party.received["c"] + (party.received["w"] - w) / (party.step_sum * party.lr)

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """Lines 16 and 17. The cohort's share of all weights keeps c the mean over all parties."""
        share = replies.share if self.weights == "size" else replies.size / replies.population
        return {
            "w": server["w"] + self.server_lr * replies.mean["delta"],
            "c": server["c"] + share * replies.mean["dc"],
        }
