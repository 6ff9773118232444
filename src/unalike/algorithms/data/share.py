"""Data sharing: parties train on their own rows and on some that everybody may have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from unalike.algorithms.around import AroundBase
from unalike.algorithms.contract import Algorithm, Party, Phase, Vectors, algorithm
from unalike.algorithms.data.at_server import ServerWork
from unalike.algorithms.fedavg import FedAvg
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@algorithm("share", paper="Zhao et al. 2018 (arXiv:1806.00582), section 4.1")
class SharedRows(AroundBase):
    """Each party trains on its own rows and a fraction of the public ones; the model is warmed up on all of these.

    The public rows G (``--public``) are taken from the training rows before these are split between parties, so
    never from test, validation or held-out rows. The server first trains the initial model on G: ``warm`` epochs
    of SGD with learning rate ``rate`` on batches of ``batch`` rows (0: no warm-up). Each party is given a random
    fraction ``alpha`` of G once, and in every round trains on batches of D_k and G_k together.

    The paper leaves open whether shared rows count in a party's weight. Here they do, n_k = |D_k| + |G_k|: it is
    then ``base``, FedAvg without another, on enlarged parties, and no row counts more than another at one party.
    What a base measures (SCAFFOLD's option i, say) it measures on the party's own rows alone.
    """

    base: Algorithm = FedAvg()
    alpha: float = 1.0
    warm: int = 10
    rate: float = 0.01
    batch: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.alpha <= 1:
            raise UserError(f"SharedRows.alpha must be from 0 to 1, got {self.alpha}. Use 1 for all public rows.")
        self._work.check("SharedRows")

    @property
    def _work(self) -> ServerWork:
        return ServerWork(self.warm, self.rate, self.batch)

    def _enlarged(self, party: Party) -> Party:
        """The party with the shared rows among its own, as its base sees it."""
        if not self.alpha:
            return party
        return replace(party, size=party.size + round(self.alpha * len(party.task.public.y)))

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The base's state, of the model after its warm-up."""
        if self.warm:
            w = self._work.trained(task, w, task.public.x, task.public.y)
        return super().init_server(task, w)

    def phases(self, task: Task, round: int) -> tuple[Phase, ...]:
        """Batches of own and shared rows together; where nothing is shared, of own ones."""
        return (Phase(rows="own+public", share=self.alpha) if self.alpha else Phase(),)

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """What the base keeps at a party between rounds."""
        return self.base.init_party(task, w)

    def weight(self, party: Party) -> Tensor:
        """The party's weight by the base, with the shared rows counted."""
        return self.base.weight(self._enlarged(party))

    def start(self, party: Party) -> Tensor:
        """Where the base starts, on the enlarged party."""
        return self.base.start(self._enlarged(party))

    def proximal(self, party: Party) -> tuple[float | Tensor, Tensor] | None:
        """The base's proximal term, on the enlarged party."""
        return self.base.proximal(self._enlarged(party))

    def linear(self, party: Party) -> Tensor | None:
        """What the base adds to gradients."""
        return self.base.linear(self._enlarged(party))

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """What the base uploads of the enlarged party."""
        return self.base.upload(self._enlarged(party), w)

    def report(self, party: Party) -> tuple[Vectors, Vectors]:
        """What the base reports of the enlarged party."""
        return self.base.report(self._enlarged(party))
