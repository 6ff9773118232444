"""How a run is followed on a terminal: how far it is, how long it will take, and a bar on stderr."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from unalike.quantities import duration
from unalike.runs.headline import headline
from unalike.runs.playable import Playable
from unalike.runs.watcher import Watcher
from unalike.scores import Figures


class Follower(Watcher):
    """Knows how far a run is, and draws nothing."""

    def __init__(self) -> None:
        self.simulation: Playable | None = None
        self._first = 0
        self._began = 0.0

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        """The run has ended, one way or another."""

    def started(self, simulation: Playable) -> None:
        """Rounds that an earlier process played say nothing about this one's speed."""
        self.simulation = simulation
        self._first, self._began = simulation.state.round, time.monotonic()
        self._warm = False

    @property
    def where(self) -> str:
        """How far the run is, to follow the word "Stopped"."""
        if self.simulation is None or not self.simulation.state.round:
            return " before the first round"
        return f" after round {self.simulation.state.round} of {self.simulation.spec.rounds}"

    def remaining(self, done: int, rounds: int) -> str:
        """The time that the other rounds will take."""
        now = time.monotonic()
        pace = (now - self._began) / max(1, done - self._first)
        if not self._warm:  # the first round also loads and compiles: it says little about the others
            self._first, self._began, self._warm = done, now, True
        return duration(pace * (rounds - done))


class Bar(Follower):
    """A progress bar, for a person."""

    def __init__(self) -> None:
        super().__init__()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[eta]}"),
            console=Console(stderr=True, highlight=False),
            refresh_per_second=4,
        )

    def __enter__(self) -> Follower:
        self._progress.start()
        self._task = self._progress.add_task("Preparing", total=None, figures="", eta="")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        """Leave the last picture of a run that was played; one that was only looked up has none."""
        if self.simulation is None:
            self._progress.update(self._task, visible=False)
        self._progress.stop()

    def say(self, message: str) -> None:
        """Print the message above the bar, which stays at the bottom."""
        self._progress.console.print(message, markup=False, soft_wrap=True)

    def started(self, simulation: Playable) -> None:
        """Begin at the right round."""
        super().started(simulation)
        self._show(simulation.state.round, "")

    def round_done(self, row: Figures) -> None:
        """Move on; a round without evaluation leaves the last figures standing."""
        assert self.simulation is not None
        done = row["round"]
        if "loss" in row:
            self._progress.update(self._task, figures="  ".join(headline(row, loss=False)))
        left = self.remaining(done, self.simulation.spec.rounds)
        self._show(done, f"ETA {left}" if done < self.simulation.spec.rounds else "")

    def _show(self, done: int, eta: str) -> None:
        assert self.simulation is not None
        rounds = self.simulation.spec.rounds
        self._progress.update(
            self._task, description=f"Round {done}/{rounds}", completed=done, total=rounds, eta=eta
        )
