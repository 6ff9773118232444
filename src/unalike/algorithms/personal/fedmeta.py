"""FedMeta: parties send meta-gradients, and the server learns a start, or also how fast to go from it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from unalike.algorithms.contract import Algorithm, Ask, Party, Phase, Replies, Vectors, algorithm
from unalike.algorithms.personal.descent import equal_weight, pace
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's constants, as in its paper (arXiv:1412.6980)."""


@dataclass(frozen=True)
class FedMeta(Algorithm):
    """What MAML and Meta-SGD share (Chen et al. 2018, arXiv:1802.07876, Algorithm 1).

    Each party's training rows are split once: every (1 / support)-th of them is a support row, all others are
    query rows. With theta = w - alpha grad L_S(w) on the support rows, the party sends the gradient of L_Q(theta)
    in what is learnt, by which the server takes a step of rate ``server_lr``, the paper's beta, along the plain
    mean: Adam's, which the paper's experiments use, or "sgd" as in its listing. ``order``: "exact" differentiates
    through the step of alpha; "fo" leaves that second derivative out.

    A round is one step on all rows (in parts of 1,024, whose gradients are averaged), so the run's learning rate,
    batches and epochs have no say in it. A party without a support row takes all its rows for both. Before a party
    uses its model, it passes ``adapt_epochs`` times over all its training rows, each time as far as one step of
    rate alpha (the paper's takes one step on the support rows).
    """

    needs_sgd: ClassVar[bool] = True
    alpha: float = 0.1
    server_lr: float = 0.01
    server: Literal["adam", "sgd"] = "adam"
    order: Literal["exact", "fo"] = "exact"
    support: float = 0.2
    adapt_epochs: int = 1

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not 0 <= self.alpha < float("inf"):
            raise UserError(f"{name}.alpha must be a number >= 0, got {self.alpha}. Use 0 for one model for all.")
        if not 0 < self.server_lr < float("inf"):
            raise UserError(f"{name}.server_lr must be above 0, got {self.server_lr}. Try 0.01.")
        if not 0 < self.support < 1:
            raise UserError(f"{name}.support must be above 0 and below 1, got {self.support}. Try 0.2.")
        if self.adapt_epochs < 1:
            raise UserError(f"{name}.adapt_epochs must be at least 1, got {self.adapt_epochs}. Use 1.")

    def rates(self) -> dict[str, float]:
        """What the server learns, by name, and at which rate."""
        return {"w": self.server_lr}

    def alpha_of(self, party: Party) -> float | Tensor:
        """The rate of the party's own step: one number, or one for each weight."""
        return self.alpha

    # --- server ---
    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """What is learnt, and Adam's moments of it."""
        learnt = {"w": w, "alpha": w.new_full(w.shape, self.alpha)}
        state = {"steps": w.new_zeros(())}
        for key in self.rates():
            zeros = w.new_zeros(w.shape)
            state |= {key: learnt[key], f"{key} first": zeros, f"{key} second": zeros}
        return state

    def send(self, task: Task, server: Vectors) -> Vectors:
        """What is learnt, without the moments."""
        return {key: server[key] for key in self.rates()}

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """One exchange, in which parties measure the meta-gradient."""
        replies = yield Ask("measure", self.send(task, server))
        return self.fold(task, server, replies)

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """One step of the server's optimiser along the mean of the parties' gradients."""
        steps = server["steps"] + 1
        state = {"steps": steps}
        for key, lr in self.rates().items():
            gradient = replies.mean[key]
            first = BETA1 * server[f"{key} first"] + (1 - BETA1) * gradient
            second = BETA2 * server[f"{key} second"] + (1 - BETA2) * gradient**2
            way = first / (1 - BETA1**steps) / ((second / (1 - BETA2**steps)).sqrt() + EPSILON)
            step = way if self.server == "adam" else gradient
            state |= {key: server[key] - lr * step, f"{key} first": first, f"{key} second": second}
        return state

    # --- party ---
    def weight(self, party: Party) -> Tensor:
        """Parties count the same, whatever their rows."""
        return equal_weight(party)

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """The gradient of the query rows' loss after a step on the support rows, in what is learnt."""
        task, w, alpha = party.task, party.received["w"], self.alpha_of(party)
        support, query = self._split(party, batch)
        inner = task.gradient(w, support)
        outer = task.gradient(w - alpha * inner, query)
        through = task.curvature(w, alpha * outer, support) if self.order == "exact" else 0
        every = {"w": outer - through, "alpha": -inner * outer}
        return {key: every[key] for key in self.rates()}

    def _split(self, party: Party, batch: Batch) -> tuple[Batch, Batch]:
        """The support and the query rows, by their places among the party's rows: the same in every round."""
        import torch

        assert batch.index is not None
        place = batch.index.to(party.size)
        real = torch.ones_like(place) if batch.mask is None else batch.mask
        chosen = real * ((place + 1) * self.support).floor().gt((place * self.support).floor())
        support = torch.where(chosen.sum() > 0, chosen, real)
        query = torch.where(chosen.sum() > 0, real - chosen, real)
        return replace(batch, mask=support), replace(batch, mask=query)

    def adapt(self, task: Task) -> tuple[Phase, ...]:
        """Passes over the party's own training rows."""
        return (Phase("adapt", epochs=self.adapt_epochs),)

    def correct(self, party: Party, w: Tensor, grad: Tensor) -> Tensor:
        """Where the model is adapted, the rate of a pass is alpha in place of the run's."""
        return grad * self.alpha_of(party) * pace(party, self.adapt_epochs)


@algorithm("fedmeta-maml", paper="Chen et al. 2018 (arXiv:1802.07876), Algorithm 1 with MAML")
class FedMetaMaml(FedMeta):
    """A shared start from which one step of a fixed rate suits each party; the server steps by Adam."""


@algorithm("fedmeta-sgd", paper="Chen et al. 2018 (arXiv:1802.07876), Algorithm 1 with Meta-SGD")
class FedMetaSgd(FedMeta):
    """A shared start, and a rate for each weight that is learnt too, so that one step suits each party.

    theta = w - alpha * grad L_S(w), weight by weight, with ``alpha`` the rates at first. Both w and the rates
    travel, 2 d numbers each way. ``alpha_lr`` is the server's rate for the rates: 0 keeps them, which is MAML.
    """

    alpha_lr: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.alpha_lr < float("inf"):
            raise UserError(f"FedMetaSgd.alpha_lr must be >= 0, got {self.alpha_lr}. Use 0 for MAML.")

    def rates(self) -> dict[str, float]:
        """The start and the rates of the weights."""
        return {"w": self.server_lr, "alpha": self.alpha_lr}

    def alpha_of(self, party: Party) -> Tensor:
        """The learnt rates, as they were received."""
        return party.received["alpha"]
