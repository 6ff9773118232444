"""Engines made of engines: one that falls back to another, and one for parties whose nets differ."""

from __future__ import annotations

import re
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

_OF_VMAP = re.compile(
    r"vmap|functorch|batching rule|batched tensor|Tensor that doesn't have storage"
    # Of a tensor in the loss that is not stacked and is changed in place; of parts that differ in length.
    r"|doesn't match the broadcast shape|stack expects each tensor to be equal size"
    # Of a loss without a gradient: one by one, the algorithm is checked, and the line says what is wrong.
    r"|does not require grad",
    re.IGNORECASE,
)
"""What PyTorch says where a function of one party cannot be made a function of a stack of them."""


def is_of_vmap(error: Exception) -> bool:
    """Whether an error says that something cannot be stacked.

    Any other is a mistake: were tensors on two devices, say, a reason to go on one by one, runs would be slow for
    ever and nobody would look for it.
    """
    return _OF_VMAP.search(str(error)) is not None


class WithFallback:
    """The vectorised engine; where a layer or a loss turns out not to be vectorisable, the sequential one.

    It takes over for errors of vmap's own alone (:func:`is_of_vmap`); others are raised.
    Where it is only adapting that cannot be vectorised, training stays as it is: its bits must not depend on how
    often models are evaluated.
    """

    def __init__(self, engine: Engine, say: Say, threads: int = 1) -> None:
        self._engine = self._adapting = engine
        self._sequential = Sequential(threads)
        self.fell_back: str | None = None
        """Why the sequential engine took over, if it did."""
        self._say = say
        self._worked: set[tuple[str, str, tuple[Phase, ...]]] = set()

    @property
    def name(self) -> str:
        """The name of the engine that is in use by now."""
        return self._engine.name

    def answer(self, workers: Workers, orders: Sequence[Order]) -> list[Reply]:
        """The parties' replies to their orders, in any order."""

        def all_of(engine: Engine) -> list[Reply]:
            return list(engine.answer(workers, orders))

        made, problem = self._tried("answer", self._engine, orders, all_of)
        if problem:
            self._engine = self._adapting = self._sequential
            self.fell_back = f"cannot be vectorised: {problem}"
            self._say(f"Cannot be vectorised ({problem}): the run goes on on the sequential engine.")
        return made

    def adapt(self, workers: Workers, orders: Sequence[Order]) -> list[tuple[Tensor, Tensor]]:
        """Each party's personal model after the phases of its order, and its running statistics then."""
        made, problem = self._tried("adapt", self._adapting, orders, lambda engine: engine.adapt(workers, orders))
        if problem:
            self._adapting = self._sequential
            self._say(f"Cannot be vectorised ({problem}): models are adapted on the sequential engine.")
        return made

    def _tried(
        self, method: str, engine: Engine, orders: Sequence[Order], work: Callable[[Engine], T]
    ) -> tuple[T, str]:
        """What the engine makes; or what the sequential one makes, and the problem that the engine had."""
        what = {(method, order.kind, order.phases) for order in orders}
        try:
            made, problem = work(engine), ""
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            # What worked before, and what vmap does not say, is something else.
            if what <= self._worked or engine is self._sequential or not is_of_vmap(error):
                raise
            # Where the algorithm itself is wrong, the sequential engine raises the same, with a clearer trace.
            made = work(self._sequential)
            problem = str(error).strip().split("\n")[0] or type(error).__name__
        self._worked |= what
        return made, problem


class PerNet:
    """Parties whose nets differ: the orders of each net go to an engine of its own, and replies are joined."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines

    @property
    def name(self) -> str:
        """The name of the engine that all nets run on; where these differ, of each: ``compiled|vectorised``."""
        names = [engine.name for engine in self._engines]
        return names[0] if len(set(names)) == 1 else "|".join(names)

    @property
    def fell_back(self) -> str | None:
        """Why an engine fell back, if one did."""
        reasons = (getattr(engine, "fell_back", None) for engine in self._engines)
        return next((reason for reason in reasons if reason), None)

    def answer(self, workers: Workers, orders: Sequence[Order]) -> Iterator[Reply]:
        """The parties' replies to their orders, net by net."""
        for engine, own in self._cut(orders):
            yield from engine.answer(workers, own)

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
