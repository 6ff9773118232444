"""Ditto: a personal model beside the shared one, held near it."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from unalike.algorithms.contract import Algorithm, Ask, Party, Payload, Phase, Replies, Vectors, algorithm
from unalike.algorithms.fedavg import FedAvg
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task

_NEVER = ("loss", "correct", "phases", "adapt", "prepare", "keep", "personal")
"""What a base may not bring: Ditto trains a model of its own between, whose objective it must know."""


@algorithm("ditto", paper="Li et al. 2021 (arXiv:2012.04221), Algorithm 1")
class Ditto(Algorithm):
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
        if self.base.overrides(*_NEVER):
            raise UserError(
                f"Ditto.base must train one model by FedAvg's loss, got {type(self.base).__name__}. "
                "Try base=scaffold."
            )
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

    # --- all else is the base's ---
    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The base's state, which knows of no personal model."""
        return self.base.init_server(task, w)

    def send(self, task: Task, server: Vectors) -> Payload:
        """What the base sends, and nothing beside it."""
        return self.base.send(task, server)

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """A round of the base."""
        return self.base.round(task, server)

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """What the base makes of the replies."""
        return self.base.fold(task, server, replies)

    def weight(self, party: Party) -> Tensor:
        """The party's weight by the base."""
        return self.base.weight(party)

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """What the base measures of the shared model."""
        return self.base.measure(party, batch)

    def global_model(self, task: Task, server: Vectors) -> Tensor | None:
        """The shared model is the global one."""
        return self.base.global_model(task, server)
