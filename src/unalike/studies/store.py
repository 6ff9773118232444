"""The result store: one SQLite file with a row a run and a row a round, for questions in SQL and for export.

Everything in it is read from the run folders, so it may be deleted at any time; ``Store.sync`` makes it anew.
Several processes may write at once (WAL).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock

from unalike.errors import UserError
from unalike.runs.files import list_folder, make_folder, storage_error
from unalike.runs.results import Record, read_record
from unalike.scores import key_of

FILE = "results.sqlite"
BUSY_SECONDS = 60.0

MIGRATIONS = (
    """
    CREATE TABLE runs (
        key TEXT PRIMARY KEY, folder TEXT NOT NULL, stamp TEXT NOT NULL, state TEXT NOT NULL, problem TEXT,
        dataset TEXT, partition TEXT, algorithm TEXT, model TEXT, parties INTEGER, seed INTEGER,
        rounds_done INTEGER NOT NULL, accuracy REAL, loss REAL, validation_accuracy REAL,
        bytes_up INTEGER, bytes_down INTEGER, seconds REAL, weights_sha256 TEXT,
        spec TEXT NOT NULL, figures TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE rounds (
        key TEXT NOT NULL REFERENCES runs(key) ON DELETE CASCADE, round INTEGER NOT NULL,
        accuracy REAL, loss REAL, train_loss REAL, validation_accuracy REAL,
        bytes_up INTEGER, bytes_down INTEGER, seconds REAL, figures TEXT NOT NULL,
        PRIMARY KEY (key, round)
    ) WITHOUT ROWID;
    """,
    """
    ALTER TABLE runs ADD COLUMN worst_party REAL;
    CREATE INDEX runs_by_place ON runs (dataset, partition, algorithm, seed);
    UPDATE runs SET stamp = '';
    """,
    """
    ALTER TABLE runs ADD COLUMN score TEXT;
    ALTER TABLE runs ADD COLUMN value REAL;
    ALTER TABLE runs ADD COLUMN validation_value REAL;
    ALTER TABLE rounds ADD COLUMN value REAL;
    ALTER TABLE rounds ADD COLUMN validation_value REAL;
    UPDATE runs SET stamp = '';
    """,
)
"""The schema's versions, each made from the one before; what a new column holds is read from the folders again."""

_RUN = ("dataset", "partition", "algorithm", "model", "parties", "seed")
_RESULT = ("accuracy", "loss", "validation_accuracy", "bytes_up", "bytes_down", "seconds", "weights_sha256")
_ROUND = ("accuracy", "loss", "train_loss", "validation_accuracy", "bytes_up", "bytes_down", "seconds")


class Store:
    """The store of a folder of runs. An old one is brought up to date, a damaged one is made anew."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.path = runs / FILE
        make_folder(runs)
        try:
            # Two processes must not both replace a damaged file.
            with FileLock(runs / f".{FILE}.lock", timeout=BUSY_SECONDS):
                self._base = self._open()
        except OSError as error:
            raise storage_error(self.path, error) from error

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._base.close()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and not _torn(error):
                raise UserError(f"Cannot open {self.path} ({error}): close what holds it, or delete it.") from None
            with suppress(FileNotFoundError):  # it may be somebody else's
                self.path.replace(self.runs / f"{FILE}.damaged")
            for name in (f"{FILE}-wal", f"{FILE}-shm"):
                with suppress(FileNotFoundError):
                    (self.runs / name).unlink()
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        base = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            version = base.execute("PRAGMA user_version").fetchone()[0]
            if version > len(MIGRATIONS):
                raise UserError(
                    f"{self.path} was written by a newer unalike (schema {version}, this one knows "
                    f"{len(MIGRATIONS)}). Update unalike, or delete the file: it is made anew from the runs."
                )
            if base.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise sqlite3.DatabaseError("damaged")
            if version == 0 and base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise sqlite3.DatabaseError("of another program")
            base.execute("PRAGMA journal_mode = WAL")
            base.execute("PRAGMA synchronous = NORMAL")
            base.execute("PRAGMA foreign_keys = ON")
            for number in range(version, len(MIGRATIONS)):
                base.executescript(
                    f"BEGIN IMMEDIATE; {MIGRATIONS[number]} PRAGMA user_version = {number + 1}; COMMIT;"
                )
            base.execute("SELECT score FROM runs LIMIT 1")  # a file of another program has no such table
        except BaseException:
            base.close()
            raise
        return base

    def sync(self) -> int:
        """Bring the store to what the folders hold; how many runs were new, changed or gone."""
        known = dict(self._base.execute("SELECT folder, stamp FROM runs"))
        changed = 0
        for folder in list_folder(self.runs):
            stamp = _stamp(folder)
            if stamp is None:
                continue
            if known.pop(folder.name, None) != stamp and (record := read_record(folder)) is not None:
                self.put(record)
                changed += 1
        with self._writing():
            for name in known:
                self._base.execute("DELETE FROM runs WHERE folder = ?", (name,))
        return changed + len(known)

    def put(self, record: Record) -> None:
        """Write a run and its rounds, in place of what there was."""
        if record.folder is None:
            return
        figures = record.figures
        by_party = figures.get("personal") or figures.get("parties")
        row = {
            "key": record.key,
            "folder": record.folder.name,
            "stamp": _stamp(record.folder) or "",
            "state": record.state,
            "problem": record.problem,
            **{name: record.spec.get(name) for name in _RUN},
            "rounds_done": len(record.rounds),
            **{name: _plain(figures.get(name)) for name in _RESULT},
            "worst_party": _plain(by_party.get("worst")) if isinstance(by_party, Mapping) else None,
            "score": record.score,
            **_values(record.score, figures),
            "spec": json.dumps(dict(record.spec)),
            "figures": json.dumps(dict(figures)),
        }
        rounds = [
            {
                "key": record.key,
                "round": one["round"],
                **{name: _plain(one.get(name)) for name in _ROUND},
                **_values(record.score, one),
                "figures": json.dumps(one),
            }
            for one in record.rounds
        ]
        with self._writing():
            self._base.execute("DELETE FROM runs WHERE key = ? OR folder = ?", (record.key, record.folder.name))
            self._base.execute(_insert("runs", row), row)
            if rounds:
                self._base.executemany(_insert("rounds", rounds[0]), rounds)

    def rows(self, *, rounds: bool = False) -> list[dict[str, Any]]:
        """For export, a row a run (all fields of its spec, its figures) or a row a round."""
        made = []
        for key, folder, state, problem, done, spec, figures in self._base.execute(
            "SELECT key, folder, state, problem, rounds_done, spec, figures FROM runs ORDER BY key"
        ):
            head = {"key": key, "folder": folder, **json.loads(spec)}
            if not rounds:
                flat = dict(_flat(json.loads(figures), head.keys()))
                made.append({**head, "state": state, "problem": problem, "rounds_done": done, **flat})
                continue
            for (text,) in self._base.execute("SELECT figures FROM rounds WHERE key = ? ORDER BY round", (key,)):
                made.append({**head, **dict(_flat(json.loads(text), head.keys()))})
        return made

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction; others wait for it."""
        try:
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._base.execute("ROLLBACK")
                raise
            self._base.execute("COMMIT")
        except sqlite3.Error as error:
            raise UserError(
                f"Cannot write {self.path} ({error}): mend that, or delete it; it is made anew from the runs."
            ) from None


def _insert(table: str, row: Mapping[str, Any]) -> str:
    return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(f':{name}' for name in row)})"


def _plain(value: Any) -> Any:
    """What a column can hold: a file that another program wrote may have anything."""
    return value if isinstance(value, str | float) or (isinstance(value, int) and abs(value) < 2**63) else None


def _values(score: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """The run's own score, as it is recorded, on the test rows and on the validation rows."""
    key = key_of(score)
    return {"value": _plain(figures.get(key)), "validation_value": _plain(figures.get(f"validation_{key}"))}


def _torn(error: sqlite3.Error) -> bool:
    return any(word in str(error) for word in ("malformed", "not a database", "no such", "already exists"))


def _stamp(folder: Path) -> str | None:
    """What changes when a run does; None where there is no run."""
    found = []
    for name in ("spec.toml", "rounds.jsonl", "result.json", "failure.json"):
        try:
            status = (folder / name).stat()
        except OSError:
            if name == "spec.toml":
                return None
            continue
        found.append(f"{name}:{status.st_mtime_ns}:{status.st_size}")
    return " ".join(found)


def _flat(values: Mapping[str, Any], taken: Any = (), before: str = "") -> Iterator[tuple[str, Any]]:
    """Nested tables as columns ``parties_worst``; lists, such as each party's score, are left out."""
    for name, value in values.items():
        title = f"{before}{name}"
        if isinstance(value, Mapping):
            yield from _flat(value, taken, f"{title}_")
        elif not isinstance(value, list) and title != "key":
            same = title in ("round", "score")  # what the spec says of it is the same
            yield (f"result_{title}" if title in taken and not same else title), value
