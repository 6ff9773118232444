"""Party by party, one batch after the other: the reference. With several threads, parties at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor

from unalike.engines.job import Job, Say
from unalike.models.streams import kept_streams, own_torch_stream
from unalike.randomness import stream
from unalike.rounds import local
from unalike.rounds.gather import Engine
from unalike.rounds.local import Trainer
from unalike.rounds.order import Order, Reply
from unalike.rounds.threads import on_threads
from unalike.rounds.worker import Worker, Workers

T = TypeVar("T")


class Sequential:
    """Lets one party after the other work. ``trainer`` runs a phase of its local training."""

    name = "sequential"
    trainer: Trainer = staticmethod(local.descend)

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self._draws = False

    @classmethod
    def of(cls, job: Job, say: Say) -> Engine:
        """The engine for a job: it can do all."""
        return cls(job.threads)

    def answer(self, workers: Workers, orders: Sequence[Order]) -> Iterator[Reply]:
        """The parties' replies, each made when it is asked for; the same bits with any number of threads."""
        return self._each(workers, orders, local.answer)

    def adapt(self, workers: Workers, orders: Sequence[Order]) -> list[tuple[Tensor, Tensor]]:
        """Each party's personal model after the phases of its order, and its running statistics then."""
        return list(self._each(workers, orders, local.adapt))

    def _each(
        self, workers: Workers, orders: Sequence[Order], work: Callable[[Worker, Order, Trainer], T]
    ) -> Iterator[T]:
        def alone(order: Order) -> T:
            worker = workers.worker(order.party)
            # Layers that draw, such as dropout, have a stream of their own in each exchange.
            with _own_stream(worker, order, len(order.phases) - 1):
                return work(worker, order, self._alone)

        if not self._draws and min(self.threads, len(orders)) >= 2:
            made = self._at_once(workers, orders, work)
            if made is not None:
                yield from made
                return
        for order in orders:
            yield alone(order)

    def _alone(self, worker: Worker, order: Order, number: int, *given: Any) -> tuple[Tensor, Tensor]:
        """A phase, with a stream of its own where another follows: the last has that of the exchange."""
        with _own_stream(worker, order, number) if order.later(number) else nullcontext():
            return self.trainer(worker, order, number, *given)

    def _at_once(
        self, workers: Workers, orders: Sequence[Order], work: Callable[[Worker, Order, Trainer], T]
    ) -> list[T] | None:
        """What they make on threads; None where a layer drew random numbers.

        Layers draw from the one global stream of their device, where parties on threads would take each other's
        numbers. As whoever draws moves that stream, it is noticed, and all is done again one after the other.
        """
        crew = [workers.worker(order.party) for order in orders]
        crew[0].size(orders[0])  # the split of the rows is made once, not by every thread
        with kept_streams(crew[0].task.device) as streams:
            before = [each.get_state() for each in streams]
            pairs = list(zip(crew, orders, strict=True))
            made = on_threads(self.threads, lambda pair: work(*pair, self.trainer), pairs)
            now = [each.get_state() for each in streams]
            self._draws = not all(map(torch.equal, before, now))
        return None if self._draws else made


def _own_stream(worker: Worker, order: Order, number: int) -> AbstractContextManager[None]:
    rng = stream(worker.recipe.seed, "layers", *order.place(number))
    return own_torch_stream(rng, worker.task.device)
