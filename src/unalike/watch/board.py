"""All that the page shows, looked at again and again; what has changed since the last look is told apart."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from unalike.errors import UserError
from unalike.runs.differences import differences, field_told
from unalike.runs.results import APART
from unalike.runs.scales import scale_of
from unalike.scores import SCORES
from unalike.watch.follower import FIGURES, FollowedRun
from unalike.watch.locks import Held, held_now

LOOK = 0.5
"""Seconds between looks."""
_KEPT = 64
"""Changes that are kept for pages that are slow to fetch them; a slower one gets all anew."""
_NAMED = frozenset({"algorithm", "dataset", "partition", "seed", "rounds", "score"}) | APART
"""Fields that are shown anyway, or say nothing about a run's outcome."""
_MOST_FIELDS = 4


class Source(Protocol):
    """What is followed: where its runs are, and what there is to say beside them."""

    def runs(self) -> Iterable[Path]:
        """The folders of its runs as they are now, whether they are there yet or not."""
        ...

    def planned(self, path: Path) -> Mapping[str, Any]:
        """The spec of a run that has not begun; empty where it is not known."""
        ...

    def about(self, runs: Mapping[str, FollowedRun], held: Held) -> dict[str, Any]:
        """Title, kind, and what else is shown beside the runs; ready for JSON."""
        ...


class Board:
    """The state of all that is followed, with a number that counts up with every change."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._runs: dict[str, FollowedRun] = {}
        self._heads: dict[str, dict[str, Any]] = {}
        self._about: dict[str, Any] = {}
        self._apart: tuple[str, ...] = ()
        self._number = 0
        self._looked = -LOOK
        self._changes: deque[tuple[int, str]] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()

    def look(self) -> None:
        """Read what is new, and keep it for those who ask; several who ask at the same time share a look."""
        with self._lock:
            if time.monotonic() - self._looked < LOOK / 2:
                return
            made = self._look()
            self._looked = time.monotonic()
            if made:
                self._number += 1
                self._changes.append((self._number, _json(made)))

    def _look(self) -> dict[str, Any]:
        held, changed = held_now(), set[str]()
        paths = {path.name: path for path in self._source.runs()}
        gone = [name for name in self._runs if name not in paths]
        for name in gone:
            del self._runs[name], self._heads[name]
        for name, path in paths.items():
            if name not in self._runs:
                self._runs[name] = FollowedRun(path)
                changed.add(name)
            if self._runs[name].look(held):
                changed.add(name)
            if not self._runs[name].spec:
                self._runs[name].spec = dict(self._source.planned(path))
        entries = self._entries(changed, told_apart=bool(changed or gone))
        try:
            about = {**self._source.about(self._runs, held), "trouble": ""}
        except UserError as error:  # a folder that may not be read any more
            about = {**self._about, "trouble": str(error)}
        made: dict[str, Any] = {"runs": entries} if entries else {}
        if gone:
            made["gone"] = gone
        if about != self._about:
            made["about"] = {name: value for name, value in about.items() if self._about.get(name) != value}
            self._about = about
        return made

    def _entries(self, changed: set[str], *, told_apart: bool) -> list[dict[str, Any]]:
        """What is new about runs: of the changed ones, and of those that are to be named in another way now."""
        if told_apart:
            before, self._apart = self._apart, self._differing()
            if before != self._apart:
                changed = set(self._runs)
        entries = []
        for name in changed:
            run = self._runs[name]
            head = {**run.head(), "more": self._more(run)}
            rows = run.points[run.start :]
            if head == self._heads.get(name) and not rows and run.start == len(run.points):
                continue
            self._heads[name] = head
            entries.append({"id": name, "head": head, "from": run.start, "rows": rows})
        return entries

    def _differing(self) -> tuple[str, ...]:
        """The fields in which runs differ beside those that every run is named by."""
        specs = [run.spec for run in self._runs.values() if run.spec]
        return tuple(name for name in differences(specs)[0] if name not in _NAMED)

    def _more(self, run: FollowedRun) -> str:
        own = [field_told(name, run.spec[name])[:80] for name in self._apart if name in run.spec]
        return ", ".join(own[:_MOST_FIELDS])

    def whole(self) -> tuple[int, str]:
        """Everything, and the number of the last change that is in it."""
        self.look()
        with self._lock:
            runs = [
                {"id": name, "head": self._heads[name], "from": 0, "rows": run.points}
                for name, run in self._runs.items()
            ]
            scales = {name: _scale(name) for name in SCORES}
            state = {"figures": FIGURES, "scales": scales, "about": self._about, "runs": runs, "gone": []}
            return self._number, _json(state)

    def since(self, number: int) -> Iterator[tuple[int, str]] | None:
        """The changes after that one; None where some of them are not kept any more."""
        with self._lock:
            if number < self._number and (not self._changes or self._changes[0][0] > number + 1):
                return None
            return iter([each for each in self._changes if each[0] > number])


def _scale(name: str) -> dict[str, Any]:
    """What a chart must know of a score."""
    scale = scale_of(name)
    low, high = scale.bounds
    return {
        "name": scale.words,
        "unit": scale.unit,
        "digits": 1 if scale.is_percent else 3,
        "up": scale.sign,
        "low": low,
        "high": high,
    }


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
