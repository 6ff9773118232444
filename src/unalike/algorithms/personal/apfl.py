"""APFL: a model of one's own that is mixed with the shared one."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from unalike.algorithms.contract import Algorithm, Ask, Party, Phase, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@algorithm("apfl", paper="Deng et al. 2020 (arXiv:2003.13461), Algorithm 1")
class Apfl(Algorithm):
    """FedAvg, and beside it a model of one's own; a party uses a mixture of both, whose share it learns.

    w is trained and averaged as by FedAvg, and is FedAvg's to the bit whatever the share a. In the same steps
    and on the same batches v <- v - eta a grad f(a v + (1-a) w): the gradient is taken at the mixture of the
    *weights*, with w as the step found it. v stays at home. The party evaluates and deploys a v + (1-a) w.

    ``alpha`` is the share that all parties begin with; 0 is FedAvg, 1 is training alone. ``learn``: it is moved
    once a round, before training, by its own gradient, a <- a - eta <v - w, grad f(a v + (1-a) w)>, and clipped
    to [0, 1]. This gradient is over all training rows, where the paper takes a batch; momentum and weight decay
    do not apply. (FedTorch, the authors' code, mixes outputs in place of weights, takes a mixture of two
    gradients for this one, and adds 0.02 a to it; none of it is done here.)

    v begins at the model that the party first received. A party that never took part, such as a newcomer, has a
    share of 0, that is w, and trains it for the run's local work before it uses it. The paper averages the
    sampled parties plainly; here they count by their rows, as in FedAvg. The run's momentum and weight decay
    apply to v as to w, and the running statistics of batch norm are those of w.
    """

    alpha: float = 0.5
    learn: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise UserError(f"Apfl.alpha must be from 0 to 1, got {self.alpha}. Use 0 for FedAvg, 1 for alone.")

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The own model, its share, and whether it was ever trained."""
        return {"v": w, "a": w.new_tensor(self.alpha), "known": w.new_zeros(())}

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """One exchange; where shares are learnt, a pass over all rows comes first."""
        replies = yield Ask("measure+train" if self.learn else "train", self.send(task, server))
        return self.fold(task, server, replies)

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """How the loss of the mixture changes with the share: <v - w, grad f>."""
        own, shared, share = self._own(party), party.received["w"], party.state["a"]
        gradient = party.task.gradient(share * own + (1 - share) * shared, batch)
        return {"slope": (own - shared).dot(gradient)}

    def start(self, party: Party) -> Tensor:
        """Both models in one vector: the shared one, then the own."""
        import torch

        return torch.cat([party.received["w"], self._own(party)])

    def adapt(self, task: Task) -> tuple[Phase, ...]:
        """A newcomer trains the shared model for the run's local work."""
        return (Phase("adapt"),)

    def adapts(self, known: bool) -> bool:
        """Newcomers alone do: all others have a mixture."""
        return not known

    def beside(self, party: Party) -> Tensor | None:
        """The share in this round's training; a newcomer that adapts has no second model."""
        return None if party.phase == "adapt" else self._share(party)

    def _share(self, party: Party) -> Tensor:
        """The share after this round's move."""
        share = party.state["a"]
        return (share - party.lr * party.measured["slope"]).clamp(0, 1) if self.learn else share

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """FedAvg's update; the own model and its share stay."""
        shared, own = w.chunk(2)
        state = {"v": own, "a": self._share(party), "known": party.state["known"] * 0 + 1}
        return {"delta": shared - party.received["w"]}, state

    def personal(self, party: Party) -> Tensor:
        """The mixture; the shared model where the party never trained."""
        import torch

        share, shared = party.state["a"], party.received["w"]
        mixture = share * party.state["v"] + (1 - share) * shared
        return torch.where(party.state["known"] > 0, mixture, shared)

    def _own(self, party: Party) -> Tensor:
        """The own model: where it was never trained, the shared one."""
        import torch

        return torch.where(party.state["known"] > 0, party.state["v"], party.received["w"])
