"""Seconds of each step of a protocol."""

from __future__ import annotations

import time


class Clock:
    """A stopwatch with named laps."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._since = time.perf_counter()

    def lap(self, name: str) -> None:
        """The time since the last lap is this step's."""
        now = time.perf_counter()
        self.laps[str(name)] = now - self._since
        self._since = now

    def skip(self) -> None:
        """The time since the last lap is nobody's."""
        self._since = time.perf_counter()
