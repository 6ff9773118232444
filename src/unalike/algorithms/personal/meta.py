"""Meta-learning: a shared start from which a step or a few make a good model for each party."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from unalike.algorithms.contract import Ahead, Algorithm, Party, Phase, Replies, Vectors, algorithm
from unalike.algorithms.personal.descent import equal_weight, pace
from unalike.algorithms.terms import dealt, steer
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@algorithm("per-fedavg", paper="Fallah et al. 2020 (arXiv:2002.07948), Algorithm 1")
class PerFedAvg(Algorithm):
    """A shared start from which one gradient step gives each party a good model of its own.

    It minimises the mean over parties of f_k(w - alpha grad f_k(w)). A local step of rate beta, the run's learning
    rate, goes along (I - alpha H(w; D'')) g(v; D'), where v = w - alpha g(w; D), g is a gradient, H the Hessian.

    ``order``: "fo" leaves H out; "hf" takes H u as the difference of the gradients at w + delta u and w - delta u,
    over 2 delta; "exact" differentiates twice. ``batches``: "apart" deals the rows of
    a batch out to D, D' and D'' (of "fo" to D and D'), so that they are independent as in the paper; a batch with
    fewer rows than that serves whole. "same": the whole batch is all three, with more rows in each, but biased.
    Parties count the same, as in the paper.

    Before a party uses its model, it passes ``adapt_epochs`` times over its training rows, each time as far as one
    step of rate alpha; the run's momentum and weight decay apply. (The paper takes one step on all rows: to first
    order in alpha, so is one pass.)
    """

    needs_sgd: ClassVar[bool] = True
    alpha: float = 0.1
    order: Literal["fo", "hf", "exact"] = "fo"
    batches: Literal["apart", "same"] = "apart"
    delta: float = 1e-3
    adapt_epochs: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < float("inf"):
            raise UserError(f"PerFedAvg.alpha must be a number >= 0, got {self.alpha}. Use 0 for FedAvg.")
        if not 0 < self.delta < float("inf"):
            raise UserError(f"PerFedAvg.delta must be above 0, got {self.delta}. Try 0.001.")
        if self.adapt_epochs < 1:
            raise UserError(f"PerFedAvg.adapt_epochs must be at least 1, got {self.adapt_epochs}. Use 1.")

    def adapt(self, task: Task) -> tuple[Phase, ...]:
        """Passes over the party's own training rows."""
        return (Phase("adapt", epochs=self.adapt_epochs),)

    def weight(self, party: Party) -> Tensor:
        """Parties count the same, whatever their rows."""
        return equal_weight(party)

    def pace(self, party: Party) -> Tensor | None:
        """Where the model is adapted, the rate of a pass is alpha in place of the run's."""
        return pace(party, self.alpha * self.adapt_epochs) if party.phase == "adapt" else None

    def ahead(self, party: Party) -> Ahead | None:
        """Without the Hessian a local step has its gradient where a step of rate alpha leads."""
        if party.phase == "adapt" or self.order != "fo":
            return None
        return Ahead(self.alpha, apart=self.batches == "apart")

    @property
    def all_declared(self) -> bool:
        """The Hessian is beyond what can be declared."""
        return self.order == "fo"

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """The loss after the step of rate alpha, with the gradient of its order."""
        if party.phase == "adapt" or self.order == "fo":
            return super().loss(party, w, batch)
        task, here = party.task, w.detach()
        first, second, third = [batch] * 3 if self.batches == "same" else dealt(party, batch, 3)
        moved = task.descend(here, first, self.alpha)
        gradient = task.gradient(moved, second)
        gradient = gradient - self.alpha * self._bend(task, here, gradient, third)
        return steer(w, task.loss(moved, second), gradient)

    def _bend(self, task: Task, w: Tensor, u: Tensor, batch: Batch) -> Tensor:
        """H(w) u: differentiated twice, or as a difference of gradients."""
        if self.order == "exact":
            return task.curvature(w, u, batch)
        step = self.delta * u
        return (task.gradient(w + step, batch) - task.gradient(w - step, batch)) / (2 * self.delta)


@algorithm(
    "reptile", paper="Nichol et al. 2018 (arXiv:1803.02999), Algorithm 2; Jiang et al. 2019 (arXiv:1909.12488)"
)
class Reptile(Algorithm):
    """FedAvg in which parties count the same, with a server rate; each trains its model further before use.

    Reptile in batches: w <- w + server_lr times the plain mean of (w_k - w) after local training. Its tasks are
    the parties, as in Jiang et al., who take it for the last rounds after FedAvg; here it is there from the first.
    Before a party uses its model, it trains it for ``adapt_epochs`` on its own rows as in any round.
    """

    server_lr: float = 1.0
    adapt_epochs: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.server_lr < float("inf"):
            raise UserError(f"Reptile.server_lr must be above 0, got {self.server_lr}. Use 1 for plain means.")
        if self.adapt_epochs < 1:
            raise UserError(f"Reptile.adapt_epochs must be at least 1, got {self.adapt_epochs}. Use 1.")

    def adapt(self, task: Task) -> tuple[Phase, ...]:
        """Plain training on the party's own rows."""
        return (Phase("adapt", epochs=self.adapt_epochs),)

    def weight(self, party: Party) -> Tensor:
        """Parties count the same, whatever their rows."""
        return equal_weight(party)

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """The server goes a part of the way to the mean, or beyond it."""
        return {"w": server["w"] + self.server_lr * replies.mean["delta"]}
