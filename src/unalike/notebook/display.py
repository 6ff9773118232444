"""Progress for Python programs: a bar in a notebook, a bar on a terminal, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import TracebackType
from typing import Any

from unalike.errors import UserError, shown
from unalike.notebook.progress import Bar, Follower
from unalike.quantities import duration
from unalike.report.page.markup import Html, tag
from unalike.runs.headline import headline
from unalike.runs.loggers import Watchers
from unalike.runs.playable import Playable
from unalike.runs.watcher import Watcher
from unalike.scores import Figures

SECONDS_BETWEEN = 0.2
"""A notebook's page is drawn anew at most this often: rounds may take a millisecond."""


@contextmanager
def following(watcher: Watcher | None, progress: bool | None) -> Iterator[Watcher | None]:
    """What follows a run: the caller's watcher, a bar, or both; by default a bar where a person looks on."""
    if not isinstance(progress, bool | None):
        raise UserError(f"progress must be True, False or None, got {shown(progress)}. Leave it out.")
    if not (watcher is None and _looked_at() if progress is None else progress):
        yield watcher
        return
    with NotebookBar() if in_notebook() else Bar() as bar:
        yield bar if watcher is None else Watchers([watcher, bar])


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook, which can show HTML; IPython on a terminal cannot."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _looked_at() -> bool:
    return in_notebook() or sys.stderr.isatty()


class NotebookBar(Follower):
    """A bar in a notebook: one output that is drawn anew, so that a saved notebook has the last state only."""

    def __init__(self) -> None:
        super().__init__()
        self._handle: Any = None
        self._said: list[str] = []
        self._figures, self._left = "", ""
        self._done, self._opened, self._drawn = 0, 0.0, 0.0

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        """Leave the last state; of a run that did not end, say that it stopped."""
        self._left = "" if kind is None else "stopped"
        if self.simulation is not None:
            self._done = self.simulation.state.round
        if self._handle is not None:
            self._draw()

    def say(self, message: str) -> None:
        """Show the message below the bar, where it stays."""
        self._said.append(message)
        self._draw()

    def started(self, simulation: Playable) -> None:
        """Begin at the right round."""
        super().started(simulation)
        self._done, self._opened = simulation.state.round, time.monotonic()
        self._draw()

    def round_done(self, row: Figures) -> None:
        """Move on; a round without evaluation leaves the last figures standing."""
        assert self.simulation is not None
        self._done = row["round"]
        if "loss" in row:
            self._figures = " · ".join(headline(row, loss=False))
        self._left = f"{self.remaining(self._done, self.simulation.spec.rounds)} to go"
        if time.monotonic() - self._drawn >= SECONDS_BETWEEN:
            self._draw()

    def _draw(self) -> None:
        display: Any = import_module("IPython.display").display
        self._drawn = time.monotonic()
        shown = {"text/plain": self.text, "text/html": str(self.html)}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    @property
    def text(self) -> str:
        """The state in one line, and the messages below it."""
        return "\n".join([" · ".join(self._words()), *self._said])

    @property
    def html(self) -> Html:
        """The state as a bar with words beside it, and the messages below it; no script, no colour of the page."""
        rounds = self.simulation.spec.rounds if self.simulation else 1
        bar = tag("progress", value=self._done, max=rounds, style="width:11em;vertical-align:-.1em")
        words = tag("span", " · ".join(self._words()), style="margin-left:.7em")
        said = [tag("div", message, style="opacity:.75") for message in self._said]
        line = tag("div", bar, words) if self.simulation else ""
        return tag("div", line, *said, style="font-size:.92em;line-height:1.6;font-variant-numeric:tabular-nums")

    def _words(self) -> list[str]:
        if self.simulation is None:
            return []
        place = f"round {self._done} of {self.simulation.spec.rounds}"
        took = duration(time.monotonic() - self._opened)
        return [each for each in (place, self._figures, took, self._left) if each]
