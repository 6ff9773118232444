"""The runs in a folder, read without disturbing those that are going on."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from unalike.cli.program import program
from unalike.errors import UserError
from unalike.runs.by_name import run_by_name
from unalike.runs.files import list_folder
from unalike.runs.record import RunRecord, read_failure, read_run
from unalike.runs.spec import RunSpec
from unalike.scores import SCORES, key_of, score_of, value_of
from unalike.toml import read_toml

# What tells a run's folder from any other; a run that was killed at once may have only one of them.
_FILES = ("spec.toml", "rounds.jsonl", "result.json", "lock")
_REMEDY = "Run the command that made it again; if it refuses, remove the folder first."


@dataclass(frozen=True)
class StoredRun:
    """One run's folder as it is now. Of a damaged one, what could be read."""

    path: Path
    state: str
    changed: float
    spec: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    result: dict[str, Any] | None = None
    problem: str | None = None

    @property
    def key(self) -> str:
        """The hash at the end of the folder's name."""
        return self.path.name.rsplit("-", 1)[-1]

    @property
    def rounds_done(self) -> int:
        """The last round that was recorded."""
        return int(self.rows[-1]["round"]) if self.rows else 0

    @property
    def figures(self) -> dict[str, Any]:
        """The result; of an unfinished run, the last round that was evaluated."""
        if self.result is not None:
            return self.result
        return next((row for row in reversed(self.rows) if key_of(score_of(row)) in row), {})

    @property
    def score(self) -> str:
        """The name of the score that it goes by."""
        return score_of(self.figures)

    @property
    def value(self) -> float | None:
        """The score on the global test set, as it is recorded."""
        return value_of(self.figures)

    @property
    def curve(self) -> list[tuple[int, float]]:
        """The score on the global test set by round, where it is known."""
        return [(row["round"], value) for row in self.rows if (value := value_of(row)) is not None]

    def mean_party(self) -> float | None:
        """The mean score of the parties, each under the model that it would use."""
        return self._by_party("mean")

    def worst_party(self) -> float | None:
        """The worst score among the parties, under the model that they would use."""
        return self._by_party("worst")

    def _by_party(self, figure: str) -> float | None:
        by_party = self.figures.get("personal") or self.figures.get("parties") or {}
        value: float | None = by_party.get(figure)
        return value

    def total(self, key: str) -> float:
        """How much of a figure that is counted by round (bytes, seconds) the run has used so far."""
        return float(sum(row.get(key) or 0 for row in self.rows))


def read_runs(folder: Path) -> list[StoredRun]:
    """All runs in ``folder``, newest first; a damaged one is marked, never an error."""
    found = [_read(path) for path in list_folder(folder) if any(_exists(path / name) for name in _FILES)]
    return sorted(found, key=lambda run: run.changed, reverse=True)


def find_run(runs: list[StoredRun], text: str, folder: Path) -> StoredRun:
    """The run whose key or folder name begins with ``text``."""
    by_path = {run.path: run for run in runs}
    see = f"{program()} {shlex.join(['runs', 'list', '--runs', str(folder)])}"
    return by_path[run_by_name(by_path, text, folder, see)]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # no permission to look: a run or not, nothing can be said about it
        return False


def _read(path: Path) -> StoredRun:
    changed, running, found = _changed(path), _locked(path), read_run(path)
    try:
        spec = _spec(path, found)
    except UserError as error:
        state = "running" if running else "damaged"  # a run that has just begun has not written its spec yet
        return StoredRun(path, state, changed, problem=f"{error} {_REMEDY}")
    named = [row for row in (found.result or {}, *found.rounds) if score_of(row) not in SCORES]
    if named:  # by a newer version
        unknown = f"{path}: its score {score_of(named[0])!r} is not known here."
        return StoredRun(path, "running" if running else "damaged", changed, spec, problem=unknown)
    state, problem = "stopped", None
    if running:
        state = "running"
    elif found.damage is not None:
        state, problem = "damaged", f"{path}: {found.damage} {_REMEDY}"
    elif found.result is not None:
        state = "finished"
    elif (reason := read_failure(path)) is not None:
        state, problem = "failed", reason
    return StoredRun(path, state, changed, spec, found.rounds, found.result, problem)


def _changed(path: Path) -> float:
    """When the run last got further. A look at a finished run touches the other files, not its result."""
    for name in ("result.json", "rounds.jsonl", "spec.toml", "lock"):
        with suppress(OSError):
            return (path / name).stat().st_mtime
    return 0.0


def _spec(path: Path, found: RunRecord) -> dict[str, Any]:
    text = found.spec
    if text is None:
        problem = found.damage or "There is no spec.toml."
        raise UserError(f"{path}: {problem}")
    spec = read_toml(text, path / "spec.toml")
    if not isinstance(spec.get("rounds"), int):
        raise UserError(f"{path / 'spec.toml'} has no rounds. It is not the spec of a run.")
    return RunSpec.complete(spec)


def _locked(path: Path) -> bool:
    """Whether a process is at work in the folder. Its lock is only tried where it left its number."""
    if not _exists(path / "lock.pid"):
        return False
    try:
        with FileLock(path / "lock", timeout=0):
            return False
    except Timeout:
        return True
    except (OSError, NotImplementedError):
        return False
