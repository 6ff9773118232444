"""pFedMe: each party has a model of its own, held near a shared one that follows all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from unalike.algorithms.contract import Ahead, Algorithm, Party, Phase, Replies, Vectors, algorithm
from unalike.algorithms.personal.descent import equal_weight, pace
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@algorithm("pfedme", paper="Dinh et al. 2020 (arXiv:2006.08848), Algorithm 1")
class PFedMe(Algorithm):
    """A personal model near the shared one, which moves towards where the personal ones are.

    It minimises the mean over parties of the Moreau envelopes F_k(w) = min over theta of f_k(theta) +
    lam/2 ||theta - w||^2, whose gradient is lam (w - theta). A local step takes one batch: from theta = w,
    ``inner_steps`` (the paper's K) steps of rate ``inner_lr`` on that batch for f_k(theta) +
    lam/2 ||theta - w||^2; then w <- w - eta lam (w - theta), where eta is the run's learning rate. The run's local
    steps are the paper's R. Server: w <- (1 - beta) w + beta times the mean of the parties, who count the same.

    The run's momentum, if any, acts on the steps of w, and so does its weight decay; steps of theta are plain.
    (The authors' code decays theta by 0.001 without a word; this does not.)

    What a party uses is theta(w), computed when it is needed: ``inner_steps`` passes over all its training rows,
    each as far as one step of ``inner_lr``; the run's momentum and weight decay apply to them. (The authors' code
    uses what the last batch of a party's last round left.) ``around``: theta is held near the "shared" w, as in
    the paper's problem, or near the "local" w that the party's own last round came to, as in the authors' code,
    which is more personal; a party that never took part has the shared one alone. In every local step theta starts
    anew from w; the authors' code goes on from the batch before.
    """

    needs_sgd: ClassVar[bool] = True
    lam: float = 15.0
    inner_steps: int = 5
    inner_lr: float = 0.05
    beta: float = 1.0
    around: Literal["shared", "local"] = "shared"

    def __post_init__(self) -> None:
        for field in ("lam", "inner_lr", "beta"):
            if not 0 < getattr(self, field) < float("inf"):
                raise UserError(f"PFedMe.{field} must be above 0, got {getattr(self, field)}. Leave it out.")
        if self.inner_steps < 1:
            raise UserError(f"PFedMe.inner_steps must be at least 1, got {self.inner_steps}. The paper uses 5.")
        if self.lam * self.inner_lr >= 2:
            raise UserError(
                f"PFedMe.inner_lr times lam must be below 2, or theta runs away, got {self.inner_lr} x "
                f"{self.lam}. Lower inner_lr."
            )

    def adapt(self, task: Task) -> tuple[Phase, ...]:
        """The personal model is computed on all of the party's own training rows."""
        return (Phase("theta", epochs=self.inner_steps),)

    def weight(self, party: Party) -> Tensor:
        """Parties count the same, whatever their rows."""
        return equal_weight(party)

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """Where theta is held near it, the party's own w; none of it counts before the party has trained."""
        return {"w": w, "trained": w.new_zeros(())} if self.around == "local" else {}

    def personal(self, party: Party) -> Tensor:
        """What theta starts from and is held near."""
        shared = party.received["w"]
        if self.around == "shared":
            return shared
        return shared + party.state["trained"] * (party.state["w"] - shared)

    def proximal(self, party: Party) -> tuple[float, Tensor] | None:
        """The personal model is held near the one that it starts from."""
        return (self.lam, self.personal(party)) if party.phase == "theta" else None

    def pace(self, party: Party) -> Tensor | None:
        """Where theta is computed before use, the rate of a pass is ``inner_lr``."""
        return pace(party, self.inner_lr * self.inner_steps) if party.phase == "theta" else None

    def ahead(self, party: Party) -> Ahead | None:
        """A local step goes along the gradient of the Moreau envelope, lam (w - theta)."""
        return None if party.phase == "theta" else Ahead(self.inner_lr, self.inner_steps, self.lam)

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The update leaves; the party's own w stays where theta needs it."""
        kept = {"w": w, "trained": party.size / party.size} if self.around == "local" else party.state
        return {"delta": w - party.received["w"]}, kept

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """The server goes beta of the way to the mean, and beyond it where beta is above 1."""
        return {"w": server["w"] + self.beta * replies.mean["delta"]}
