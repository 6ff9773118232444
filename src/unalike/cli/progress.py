"""How a run is followed: a bar on a terminal, lines elsewhere, or nothing. All of it on stderr."""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from unalike.cli.show import console, duration, number, say
from unalike.rounds.evaluation import Figures
from unalike.runs.run import Watcher
from unalike.runs.simulation import Simulation
from unalike.scores import score_of, shown, value_of

EACH_ROUND_UP_TO = 40
"""Runs with more rounds than this get about ``LINES`` lines instead of one per round."""
LINES = 20


class Follower(Watcher):
    """Knows how far a run is, and draws nothing."""

    def __init__(self) -> None:
        self.simulation: Simulation | None = None
        self._first = 0
        self._began = 0.0

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        """The run has ended, one way or another."""

    def started(self, simulation: Simulation) -> None:
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


class Lines(Follower):
    """Plain lines, for logs and pipes."""

    def say(self, message: str) -> None:
        """Print the message on a line of its own, on stderr."""
        say(message)

    def round_done(self, row: Figures) -> None:
        """One line, or none where there are many rounds."""
        assert self.simulation is not None
        done, rounds = row["round"], self.simulation.spec.rounds
        every = 1 if rounds <= EACH_ROUND_UP_TO else math.ceil(rounds / LINES)
        if done % every and done != rounds:
            return
        place = f"round {done:>{len(str(rounds))}}/{rounds}"
        left = [f"ETA {self.remaining(done, rounds)}"] if done < rounds else []
        say("  ".join([place, *headline(row), *left]))


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
            console=console(),
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

    def started(self, simulation: Simulation) -> None:
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


def headline(row: Figures, *, loss: bool = True) -> list[str]:
    """A round's main figures; those of parties' own rows without a global model, or without test rows."""
    if "loss" not in row:
        return [f"train loss {number(row['train_loss'])}"]
    personal, parties = row.get("personal") or {}, row.get("parties") or {}
    score = score_of(row)
    if row["loss"] is None:
        whose, parties = ("personal", personal) if personal else ("parties'", parties)
        told = [f"{whose} {score} {shown(score, parties.get('mean'))}"]
    else:
        told = [f"{score} {shown(score, value_of(row))}"]
        if loss:
            told.append(f"loss {number(row['loss'])}")
    if parties.get("worst") is not None:
        told.append(f"worst party {shown(score, parties['worst'])}")
    return told


def follower(*, quiet: bool) -> Follower:
    """The one that suits where stderr goes."""
    if quiet:
        return Follower()
    return Bar() if sys.stderr.isatty() else Lines()
