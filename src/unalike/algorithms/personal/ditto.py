"""Ditto: a personal model beside the shared one, held near it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.algorithms.around import AroundBase
from unalike.algorithms.contract import Algorithm, Party, Phase, Vectors, algorithm
from unalike.algorithms.fedavg import FedAvg
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@algorithm("ditto", paper="Li et al. 2021 (arXiv:2012.04221), Algorithm 1")
class Ditto(AroundBase):
    """A personal model for each party, held near the shared one that any other algorithm trains.

    Party k's own model v_k minimises f_k(v) + lam/2 ||v - w||^2. In a round it takes ``steps`` local steps
    (without a number: the run's local work) towards that, with w as it was received; then ``base`` trains w as if
    there were no v_k, to the bit. v_k starts as the run's initial weights and never leaves the party.

    Departures: the authors' code trains both models step by step on the same batches, here each has its own order
    of the rows. A party that has never been asked, a newcomer, uses w after one such training of v from w.
    ``base`` must declare its local objective by ``proximal`` and ``linear``. Under batch norm each model has
    running statistics of its own: v_k's stay at home.
    """

    base: Algorithm = FedAvg()
    lam: float = 0.1
    steps: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.lam < float("inf"):
            raise UserError(f"Ditto.lam must be >= 0, got {self.lam}. Use 0 for training alone.")
        if self.steps is not None and self.steps < 1:
            raise UserError(f"Ditto.steps must be at least 1, got {self.steps}. Leave it out for the run's work.")

    def phases(self, task: Task, round: int) -> tuple[Phase, ...]:
        """The personal model first: the shared one is then still as it was received."""
        return Phase("personal", steps=self.steps, own_statistics=True), Phase("shared")

    def adapt(self, task: Task) -> tuple[Phase, ...]:
        """A newcomer trains its personal model from the shared one, held near it."""
        return (Phase("personal", steps=self.steps),)

    def adapts(self, known: bool) -> bool:
        """Newcomers alone do: all others have a personal model."""
        return not known

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The personal model, which is not trained yet, and what the base keeps."""
        return {**self.base.init_party(task, w), "personal": w, "known": w.new_zeros(())}

    def start(self, party: Party) -> Tensor:
        """The personal model, or where the base starts."""
        return party.state["personal"] if party.phase == "personal" else self.base.start(party)

    def proximal(self, party: Party) -> tuple[float | Tensor, Tensor] | None:
        """The pull to the model as it was received, or the base's term."""
        return (self.lam, party.received["w"]) if party.phase == "personal" else self.base.proximal(party)

    def linear(self, party: Party) -> Tensor | None:
        """What the base adds to the gradients of the shared model alone."""
        return None if party.phase == "personal" else self.base.linear(party)

    def keep(self, party: Party, w: Tensor) -> Vectors:
        """The personal model after its training."""
        return {**party.state, "personal": w, "known": party.state["known"].new_ones(())}

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """What the base uploads; the personal model stays."""
        upload, state = self.base.upload(party, w)
        return upload, self._with_own(party, state)

    def report(self, party: Party) -> tuple[Vectors, Vectors]:
        """What the base reports; the personal model stays."""
        upload, state = self.base.report(party)
        return upload, self._with_own(party, state)

    def _with_own(self, party: Party, state: Vectors) -> Vectors:
        return {**state, "personal": party.state["personal"], "known": party.state["known"]}

    def personal(self, party: Party) -> Tensor:
        """The personal model; before there is one, the shared model."""
        import torch

        return torch.where(party.state["known"] > 0, party.state["personal"], party.received["w"])
