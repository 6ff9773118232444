"""The model that each party would deploy: its personal one, trained a little further where the run says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from unalike.algorithms.contract import Algorithm, Party, Phase, Vectors
from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.rounds.gather import Engine
from unalike.rounds.local import measure
from unalike.rounds.order import Order
from unalike.rounds.worker import Workers

MOST_KEPT = 2**28
"""Numbers of adapted models that are kept between two looks at them; beyond, they are trained again."""
MOST_REMEMBERED = 2**25
"""Numbers of models that are not adapted and kept between two looks; beyond, they are made again."""
ADAPTING = 10**6
"""The turn of an order that adapts: no exchange has its random streams."""


@dataclass(frozen=True)
class FineTuned(Algorithm):
    """Plain training from the personal model of another algorithm, as in fine-tuned FedAvg (arXiv:1910.10252)."""

    base: Algorithm

    def personal(self, party: Party) -> Tensor:
        """The model that the base would deploy."""
        w = self.base.personal(party)
        if w.dim() > 1:
            raise UserError("An ensemble is several nets, which cannot be trained as one. Leave --fine-tune out.")
        return w

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """What the base looks at before it chooses a model."""
        return self.base.measure(party, batch)


class PersonalModels:
    """Weights and running statistics by party; adapted ones are trained in blocks when first asked for.

    ``numbers`` are those that blocks are made of.
    """

    def __init__(
        self,
        engine: Engine,
        workers: Workers,
        numbers: Sequence[int],
        order_of: Callable[[int], Order],
        phases_of: Callable[[int], tuple[Phase, ...]],
    ) -> None:
        self._engine, self._workers, self._numbers = engine, workers, list(numbers)
        self._places = {number: place for place, number in enumerate(self._numbers)}
        self._order_of, self._phases_of = order_of, phases_of
        self._measured: dict[int, Vectors] = {}
        self._known: dict[int, tuple[Tensor, Tensor]] = {}
        self._made: dict[int, tuple[Tensor, Tensor]] = {}
        self._one_at_a_time = threading.Lock()

    def __call__(self, number: int) -> tuple[Tensor, Tensor]:
        """The party's weights, and the running statistics that go with them."""
        if number in self._made:
            return self._made[number]
        if not self._phases_of(number):
            order, worker = self._order_of(number), self._workers.worker(number)
            own = worker.own(order)
            if order.measures:
                own["measured"] = self._measured_by(number, order)
            made = worker.recipe.algorithm.personal(worker.party(order, own, "")), order.own_statistics
            if len(self._made) * made[0].numel() < MOST_REMEMBERED:
                self._made[number] = made
            return made
        with self._one_at_a_time:
            if number not in self._known:
                self._adapt(number)
            return self._known[number]

    def _measured_by(self, number: int, order: Order) -> Vectors:
        """What the party's pass over its training rows gave, which is made once."""
        if number not in self._measured:
            worker = self._workers.worker(number)
            me = worker.party(order, worker.own(order), "")
            self._measured[number] = measure(worker, order, me, order.buffers)
        return self._measured[number]

    def _adapt(self, number: int) -> None:
        """Train the block of parties that this one is in; forget others where they take too much memory."""
        size = self._workers.worker(number).task.size
        width = max(1, MOST_KEPT // max(1, size))
        if len(self._numbers) > width:
            self._known = {}
        at = self._places.get(number, -1) // width * width
        together = [number] if at < 0 else self._numbers[at : at + width]  # who is not tried comes alone
        block = [k for k in together if self._phases_of(k)]
        orders = [replace(self._order_of(k), turn=ADAPTING, phases=self._phases_of(k)) for k in block]
        self._known |= dict(zip(block, self._engine.adapt(self._workers, orders), strict=True))
