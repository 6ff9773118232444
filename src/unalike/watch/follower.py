"""One run, followed: what is new in its folder since the last look. Nothing is locked or written."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from unalike.errors import UserError
from unalike.randomness import stream
from unalike.runs.files import read_bytes
from unalike.runs.parts import registry
from unalike.runs.record import FAILURE, RESULT, ROUNDS, SPEC, read_failure, read_run, read_spec
from unalike.runs.results import brief as brief_part
from unalike.runs.scales import is_number, scale_of
from unalike.runs.seals import FIRST, read_chain
from unalike.scores import SCORES, key_of, score_of
from unalike.toml import read_toml
from unalike.watch.locks import Held

FILES = (SPEC, ROUNDS, RESULT, "lock")
"""What tells a run's folder from any other; a run that has just begun may have only one of them."""
FIGURES = ("score", "loss", "train_loss", "parties_mean", "parties_worst", "personal_mean", "personal_worst")
"""What a point of a curve has after its round, in this order."""
MOST_POINTS = 600
"""Points of a curve beyond which every second one is left out."""
_LAST = 5
"""So many of the last rounds tell how long the next ones take."""
_DIGITS = 5
_MOST_MEMBERS = 60
_MOST = 1e18
_LONGEST = 200
"""Characters of a name in a spec, which anybody may have written."""
Sign = tuple[int, int, int] | None


class FollowedRun:
    """A run's folder as it was at the last look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = path / "lock"
        self._places = {name: str(path / name) for name in (*FILES, FAILURE)}
        self.spec: dict[str, Any] = {}
        self.state = "waiting"
        self.problem = ""
        self.points: list[list[float | None]] = []
        self.start = 0
        """From which point on the last look has changed the curve."""
        self._signs: dict[str, Sign] = {}
        self._damage: str | None = None
        self._spec_problem = "There is no spec.toml."
        self._failure: str | None = None
        self._finished = False
        self._forget()

    def _forget(self) -> None:
        self.points, self.start = [], 0
        self._offset, self._before, self._seal, self._step = 0, FIRST, FIRST, 1
        self._score: str | None = None
        self._unknown = ""
        self._recent: list[float] = []
        self._totals = {"seconds": 0.0, "bytes_up": 0.0, "bytes_down": 0.0}
        self._last: dict[str, Any] = {}
        self._values: dict[str, float | None] = {}

    @property
    def done(self) -> int:
        """The last round that is recorded."""
        return int(self._last.get("round", 0))

    @property
    def seconds_a_round(self) -> float | None:
        """How long the last rounds took; None before the first."""
        return sum(self._recent) / len(self._recent) if self._recent else None

    @property
    def rounds(self) -> int:
        """How many rounds the run is to have."""
        value = self.spec.get("rounds")
        return value if isinstance(value, int) else 0

    def look(self, held: Held) -> bool:
        """Read what is new; whether anything has changed."""
        self.start = len(self.points)
        before = (self.state, self.problem)
        running = held(self._lock)  # before the files: a run that ends writes its result first
        try:
            changed = {name for name in (*FILES, FAILURE) if self._is_new(name)}
            if SPEC in changed:
                self._read_spec()
            if FAILURE in changed:
                self._failure = read_failure(self.path)
            if changed & {ROUNDS, RESULT}:
                self._read(anew=RESULT in changed)
        except UserError as error:
            self._damage, changed = str(error), {ROUNDS}
            self._signs.clear()  # so that it is tried again
        self._decide(running)
        return before != (self.state, self.problem) or bool(changed & {SPEC, ROUNDS, RESULT})

    def _is_new(self, name: str) -> bool:
        try:
            state = os.stat(self._places[name])  # noqa: PTH116
            sign: Sign = (state.st_size, state.st_mtime_ns, state.st_ino)
        except OSError:
            sign = None
        old, self._signs[name] = self._signs.get(name), sign
        return sign != old

    def _read_spec(self) -> None:
        text = read_spec(self.path)
        self.spec, self._spec_problem = {}, "There is no spec.toml."
        if text is None:
            return
        try:
            self.spec = read_toml(text, self.path / SPEC)
            self._spec_problem = "" if self.rounds else f"{self.path / SPEC} has no rounds."
        except UserError as error:
            self._spec_problem = str(error)

    def _read(self, *, anew: bool) -> None:
        """Read on in the rounds; where a result appeared or went, all of the folder, as all who read runs do."""
        self._damage, self._finished = None, False
        if self._signs[RESULT] is not None:
            found = read_run(self.path)
            self._forget()
            self._take(found.rounds)
            self._finished, self._damage = found.result is not None, found.damage
        else:
            if anew:
                self._forget()
            self._read_on()
        if self._unknown:
            self._damage = f"its score {self._unknown!r} is not known here."

    def _read_on(self) -> None:
        """Read from the last line that is known: if its seal is still there, all before it is as it was."""
        known, found = self._seal != FIRST, read_chain(self._bytes(), self._before)
        if known and (len(found.ends) < 2 or found.ends[1][1] != self._seal):  # cut, and grown again since
            self._forget()
            known, found = False, read_chain(self._bytes())
        if found.rows:
            (size, self._before), (_, self._seal) = found.ends[-2:]
            self._offset += size
        self._take(found.rows[known:])
        if found.damage is not None:
            self._damage = f"{ROUNDS}: {found.damage}."

    def _bytes(self) -> bytes:
        return read_bytes(self.path / ROUNDS, self._offset) or b""

    def _take(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            if not isinstance(row.get("round"), int):
                continue
            self._last = {name: row.get(name) for name in ("round", "cohort", "epsilon")}
            for name in self._totals:
                self._totals[name] += row[name] if _can_be_added(row.get(name)) else 0.0
            if _can_be_added(row.get("seconds")):
                self._recent = [*self._recent, float(row["seconds"])][-_LAST:]
            self._add(row)

    def _add(self, row: Mapping[str, Any]) -> None:
        score = score_of(row)
        if score not in SCORES:
            self._unknown = score[:_LONGEST]
            return
        if self._score is None and key_of(score) in row:
            self._score = score
        factor = scale_of(score).factor
        values = [short(row.get(key_of(score)), factor), short(row.get("loss")), short(row.get("train_loss"))]
        for who in ("parties", "personal"):
            inner = row.get(who)
            known = inner if isinstance(inner, Mapping) else {}
            values += [short(known.get("mean"), factor), short(known.get("worst"), factor)]
        self._values |= {name: value for name, value in zip(FIGURES, values, strict=True) if value is not None}
        if row["round"] % self._step:
            return
        self.points.append([row["round"], *values])
        if len(self.points) > MOST_POINTS:
            self.points, self._step, self.start = self.points[1::2], 2 * self._step, 0

    def _decide(self, running: bool) -> None:
        self.problem = ""
        if running:
            self.state = "running"
        elif self._signs and all(self._signs.get(name) is None for name in FILES):
            self.state = "waiting"
        elif damage := self._damage or self._spec_problem:
            self.state, self.problem = "damaged", damage
        elif self._finished:
            self.state = "finished"
        elif self._failure is not None:
            self.state, self.problem = "failed", self._failure
        else:
            self.state = "stopped"

    def _changed(self) -> int:
        """When the run last got further, in seconds."""
        times = [sign[1] for name in (RESULT, ROUNDS, SPEC) if (sign := self._signs.get(name)) is not None]
        return max(times, default=0) // 10**9

    def head(self) -> dict[str, Any]:
        """All but the curve, ready for JSON: texts are as they were found, and whoever shows them escapes them."""
        left, each = self.rounds - self.done, self.seconds_a_round
        eta = each * left if each is not None and self.state == "running" and left > 0 else None
        cohort = self._last.get("cohort")
        cohort = cohort if isinstance(cohort, int) else None
        return {
            "key": self.path.name.rsplit("-", 1)[-1][:16],
            **{name: told(name, self.spec.get(name)) for name in ("algorithm", "dataset", "partition")},
            "seed": self.spec.get("seed") if isinstance(self.spec.get("seed"), int) else None,
            "state": self.state,
            "problem": self.problem,
            "rounds": self.rounds,
            "done": self.done,
            "scale": self._score or _named(self.spec.get("score")) or score_of({}),
            "values": dict(self._values),
            **{name: round(value, 3) for name, value in self._totals.items()},
            "epsilon": short(self._last.get("epsilon")),
            "eta": None if eta is None else round(eta, 1),
            "cohort": cohort,
            "members": members(self.spec, cohort, self.done + (self.state == "running" and left > 0)),
            "changed": self._changed(),
        }


def members(spec: Mapping[str, Any], cohort: int | None, number: int) -> list[int] | None:
    """Who of the parties takes part in a round, as follows from the seed; None where all do, or it is not known.

    ``cohort`` is how many took part in the round before. Newcomers are told apart by the data, and a natural split
    has as many parties as the data: both are not known here.
    """
    parties, seed = spec.get("parties"), spec.get("seed")
    if not (isinstance(parties, int) and isinstance(seed, int) and cohort and cohort > 0 and number > 0):
        return None
    if (
        spec.get("cohort", "uniform") != "uniform"
        or spec.get("newcomers", 0.0)
        or not 0 <= seed < 2**63
        or not cohort < parties <= 10**6
    ):
        return None
    if cohort > _MOST_MEMBERS:
        return None
    return sorted(stream(seed, "cohort", number).choice(parties, cohort, replace=False).tolist())


@lru_cache(maxsize=4096)
def _brief(name: str, value: str) -> str:
    return brief_part(registry(name), value)


def told(name: str, value: Any) -> str:
    """A part of a spec as tables name it, without what is as by default, and not longer than a line."""
    if not isinstance(value, str):
        return "?"
    made = _brief(name, value) if len(value) <= _LONGEST else value
    return made if len(made) <= _LONGEST else f"{made[: _LONGEST - 1]}…"


def _named(score: Any) -> str | None:
    return score if isinstance(score, str) and score in SCORES else None


def _can_be_added(value: Any) -> bool:
    """Whether a figure is a number of seconds or bytes; the sum of many such is finite, whoever wrote them."""
    return is_number(value) and 0 <= value <= _MOST


def short(value: Any, factor: float = 1.0) -> float | None:
    """A number times a factor, with as many digits as a curve needs; None of what is no number."""
    if not isinstance(value, float | int) or isinstance(value, bool) or not math.isfinite(value):
        return None
    made = float(f"{factor * value:.{_DIGITS}g}")
    return made if math.isfinite(made) else None
