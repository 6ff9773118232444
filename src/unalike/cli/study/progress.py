"""How a study is followed: a bar over all of its runs on a terminal, a line a run elsewhere. All on stderr."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from unalike.cli.show import console, duration, say
from unalike.runs.results import Record
from unalike.scores import shown, value_of
from unalike.studies.schedule import Progress as StudyProgress
from unalike.studies.workers import StudyWatcher


class StudyFollower(StudyWatcher):
    """Knows how far a study is, and draws nothing."""

    now: StudyProgress | None = None
    tuning = False
    """Whether all runs are there to choose parameters."""

    def __enter__(self) -> StudyFollower:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        """The study has ended, one way or another."""

    def progress(self, now: StudyProgress) -> None:
        """Remember how far the study is, for whoever asks."""
        self.now = now

    @property
    def where(self) -> str:
        """How far the study is, to follow the word "Stopped"."""
        if self.now is None:
            return ""
        return f" with {self.now.done} of {self.now.total} runs done; those that were under way are saved"

    @property
    def eta(self) -> str:
        """The time that is left, where it is known."""
        if self.now is None or self.now.seconds_left is None or self.now.done + self.now.failed == self.now.total:
            return ""
        return f"ETA {duration(self.now.seconds_left)}"


class StudyLines(StudyFollower):
    """Plain lines, for logs and pipes."""

    def say(self, message: str) -> None:
        """Print the message on a line of its own, on stderr."""
        say(message)

    def run_ended(self, record: Record) -> None:
        """Print a line about the run: which one of how many, what came of it, and the time that is left."""
        # The count that is known is of before this run.
        count = 0 if self.now is None else self.now.done + self.now.failed + 1
        total = "?" if self.now is None else self.now.total
        say("  ".join(filter(None, [f"{count}/{total}", describe(record, tuning=self.tuning), self.eta])))

    def run_stopped(self, record: Record) -> None:
        """Print a line about a run that tuning compares with others before it may go on."""
        count = "?" if self.now is None else f"{self.now.done + 1}/{self.now.total}"
        say("  ".join(filter(None, [count, describe(record), self.eta])))


class StudyBar(StudyFollower):
    """A bar, for a person."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[eta]}"),
            console=console(),
            refresh_per_second=4,
        )

    def __enter__(self) -> StudyFollower:
        self._progress.start()
        self._task = self._progress.add_task("Preparing", total=None, state="", eta="")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        self._progress.stop()

    def say(self, message: str) -> None:
        """Print the message above the bar, which stays at the bottom."""
        self._progress.console.print(message, markup=False, soft_wrap=True)

    def run_ended(self, record: Record) -> None:
        """What failed is said at once; what went well moves the bar."""
        if record.state == "failed":
            self.say(describe(record))

    def progress(self, now: StudyProgress) -> None:
        """Draw the bar anew: runs that are done, running and failed, and the time that is left."""
        super().progress(now)
        state = f"{now.running} running" + (f", {now.failed} failed" if now.failed else "")
        self._progress.update(
            self._task,
            description=f"{now.done + now.failed}/{now.total} runs",
            completed=now.part,
            total=1.0,
            state=state,
            eta=self.eta,
        )


def describe(record: Record, *, tuning: bool = False) -> str:
    """A run and what came of it, in one line; of one that chooses parameters, without figures of test rows."""
    what = f"{record.algorithm} on {record.dataset}, {record.partition}, seed {record.seed}"
    if record.state == "failed":
        return f"{what}: failed: {record.problem}"
    scale, value = record.scale, value_of(record.figures)
    if tuning or record.state == "unfinished":
        recorded = record.rounds[-1].get(f"validation_{scale.score.key}")
        return f"{what}: validation {scale.words} {shown(scale.name, recorded)} after round {len(record.rounds)}"
    if value is None:
        personal = (record.figures.get("personal") or {}).get("mean")
        return f"{what}: personal {scale.words} {shown(scale.name, personal)}"
    return f"{what}: {scale.words} {shown(scale.name, value)}"


def study_follower(*, quiet: bool) -> StudyFollower:
    """The one that suits where stderr goes."""
    if quiet:
        return StudyFollower()
    return StudyBar() if sys.stderr.isatty() else StudyLines()
