"""FedDyn: local objectives that are bent each round so that their optima become that of all parties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from unalike.algorithms.contract import Algorithm, Party, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@algorithm("feddyn", paper="Acar et al. 2021 (arXiv:2111.04263), Algorithm 1")
class FedDyn(Algorithm):
    """FedAvg with a memory of each party's gradient, so that parties which differ still reach a common optimum.

    Party k trains L_k(theta) - g_k . theta + alpha/2 ||theta - w||^2 from the received w, to theta_k, and keeps
    g_k <- g_k - alpha (theta_k - w); where training comes to its end, that is its gradient at theta_k. With P the
    parties of the round and m all of them, the server keeps h <- h - alpha/m sum over P of (theta_k - w), which is
    the mean of all g_k, absent parties' too, and w <- mean over P of theta_k - h / alpha. All start at 0. Where w
    rests, every theta_k is w and h is 0: the gradients add up to 0, which is the optimum, after any local work.

    Small alphas lead nowhere near FedAvg: h / alpha stays as it is, so with everybody there round 1 goes twice as
    far as FedProx with mu = alpha. Large ones hold the parties at w; alpha times the learning rate stays below 2.

    ``weights``: "uniform" is the paper's; with "size" parties count by their rows in all means, h's too, as in
    FedAvg's objective. (The authors' code divides alpha by a party's share instead.) The model that is tried is w,
    as it is sent; the authors' code tries the mean over P, which is w + h / alpha.
    """

    alpha: float = 0.01
    weights: Literal["uniform", "size"] = "uniform"

    def __post_init__(self) -> None:
        if not 0 < self.alpha < float("inf"):
            raise UserError(f"FedDyn.alpha must be above 0, got {self.alpha}. Try 0.01.")

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model and the mean of the parties' gradients, 0."""
        return {"w": w, "h": w.new_zeros(w.shape)}

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The party's gradient, which is 0 at first."""
        return {"gradient": w.new_zeros(w.shape)}

    def weight(self, party: Party) -> Tensor:
        """One, or the party's number of rows."""
        return party.size if self.weights == "size" else party.size / party.size

    def proximal(self, party: Party) -> tuple[float, Tensor]:
        """The parties are held near the received model."""
        return self.alpha, party.received["w"]

    def linear(self, party: Party) -> Tensor:
        """What the linear term adds to every local gradient, -g_k."""
        return -party.state["gradient"]

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The update; the party's gradient stays here."""
        delta = w - party.received["w"]
        return {"delta": delta}, {"gradient": party.state["gradient"] - self.alpha * delta}

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """The mean over all parties, of which the cohort is a share, and the cohort's model, corrected by it."""
        share = replies.share if self.weights == "size" else replies.size / replies.population
        h = server["h"] - self.alpha * share * replies.mean["delta"]
        return {"w": server["w"] + replies.mean["delta"] - h / self.alpha, "h": h}
