"""Engines made of engines: one that falls back to another, and one for parties whose nets differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from torch import Tensor

from unalike.algorithms.contract import Phase
from unalike.engines.job import Say
from unalike.engines.sequential import Sequential
from unalike.rounds.gather import Engine
from unalike.rounds.order import Order, Reply
from unalike.rounds.worker import Workers

T = TypeVar("T")


class WithFallback:
    """The vectorised engine; where a layer or a loss turns out not to be vectorisable, the sequential one."""

    def __init__(self, engine: Engine, say: Say, threads: int = 1) -> None:
        self._engine = engine
        self._threads = threads
        self.fell_back: str | None = None
        """Why the sequential engine took over, if it did."""
        self._say = say
        self._worked: set[tuple[str, tuple[Phase, ...]]] = set()

    @property
    def name(self) -> str:
        """The name of the engine that is in use by now."""
        return self._engine.name

    def answer(self, workers: Workers, orders: Sequence[Order]) -> list[Reply]:
        """The parties' replies to their orders, in any order."""
        return self._tried(orders, lambda engine: engine.answer(workers, orders))

    def adapt(self, workers: Workers, orders: Sequence[Order]) -> list[tuple[Tensor, Tensor]]:
        """Each party's personal model after the phases of its order, and its running statistics then."""
        return self._tried(orders, lambda engine: engine.adapt(workers, orders))

    def _tried(self, orders: Sequence[Order], work: Callable[[Engine], T]) -> T:
        what = {(order.kind, order.phases) for order in orders}
        try:
            made = work(self._engine)
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            if what <= self._worked:  # it worked before: this is something else
                raise
            # Where the algorithm itself is wrong, the sequential engine raises the same, with a clearer trace.
            sequential = Sequential(self._threads)
            made = work(sequential)
            self._engine = sequential
            first = str(error).strip().split("\n")[0]
            self.fell_back = f"cannot be vectorised: {first}"
            self._say(f"Cannot be vectorised ({first}): the run goes on on the sequential engine.")
        self._worked |= what
        return made


class PerNet:
    """Parties whose nets differ: the orders of each net go to an engine of its own, and replies are joined."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines

    @property
    def name(self) -> str:
        """The name of the engine that the first net runs on."""
        return self._engines[0].name

    @property
    def fell_back(self) -> str | None:
        """Why an engine fell back, if one did."""
        reasons = (getattr(engine, "fell_back", None) for engine in self._engines)
        return next((reason for reason in reasons if reason), None)

    def answer(self, workers: Workers, orders: Sequence[Order]) -> list[Reply]:
        """The parties' replies to their orders, in any order."""
        return [reply for engine, own in self._cut(orders) for reply in engine.answer(workers, own)]

    def adapt(self, workers: Workers, orders: Sequence[Order]) -> list[tuple[Tensor, Tensor]]:
        """Each party's personal model after the phases of its order, and its running statistics then."""
        found: dict[int, tuple[Tensor, Tensor]] = {}
        for engine, own in self._cut(orders):
            made = engine.adapt(workers, own)
            found |= {order.party: one for order, one in zip(own, made, strict=True)}
        return [found[order.party] for order in orders]

    def _cut(self, orders: Sequence[Order]) -> Iterator[tuple[Engine, list[Order]]]:
        for which, engine in enumerate(self._engines):
            own = [order for order in orders if order.party % len(self._engines) == which]
            if own:
                yield engine, own
