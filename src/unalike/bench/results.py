"""Runs as results: read from their folders, and gathered into settings, algorithms and seeds.

A :class:`Record` is one run, a :class:`Line` one algorithm in one setting over seeds, a :class:`Setting` all lines
that differ in the algorithm alone. Studies, the leaderboard and the report all speak in these.
"""

from __future__ import annotations

import math
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from unalike.algorithms import ALGORITHMS
from unalike.data import DATASETS
from unalike.engine.files import list_folder
from unalike.engine.rundir import read_failure, read_result, read_rounds, read_spec
from unalike.errors import UserError
from unalike.partition import PARTITIONS
from unalike.registry import Registry

APART = frozenset({"algorithm", "seed", "code", "engine", "device", "threads"})
"""Fields of a spec in which the runs of one setting may differ."""

State = Literal["finished", "failed", "unfinished"]


class Spread(NamedTuple):
    """Mean and standard deviation (over ``seeds`` seeds, n - 1 in the denominator; 0 of one seed)."""

    mean: float
    std: float
    seeds: int

    def __str__(self) -> str:
        return f"{self.mean:.1f}±{self.std:.1f}" if self.seeds > 1 else f"{self.mean:.1f}"


def spread(values: Iterable[float]) -> Spread | None:
    """The spread of the values; None of none."""
    known = [float(value) for value in values]
    if not known:
        return None
    return Spread(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else 0.0, len(known))


@dataclass(frozen=True)
class Record:
    """One run: what was asked, what came of it."""

    key: str
    spec: Mapping[str, Any]
    state: State
    figures: Mapping[str, Any] = field(default_factory=dict)
    """``result.json`` of a finished run."""
    rounds: tuple[Mapping[str, Any], ...] = ()
    problem: str | None = None
    """Why it failed."""
    folder: Path | None = None

    @property
    def algorithm(self) -> str:
        """As the tables name it: ``fedprox(mu=0.1)``, without what is as by default."""
        return brief(ALGORITHMS, self.spec.get("algorithm"))

    @property
    def dataset(self) -> str:
        """As the tables name it, without what is as by default."""
        return brief(DATASETS, self.spec.get("dataset"))

    @property
    def partition(self) -> str:
        """As the tables name it: ``label-dirichlet(0.5)``."""
        return brief(PARTITIONS, self.spec.get("partition"))

    @property
    def seed(self) -> int:
        """The seed."""
        return int(self.spec.get("seed", 0))

    @property
    def accuracy(self) -> float | None:
        """Of the final global model on the global test set, in percent."""
        value = self.figures.get("accuracy")
        return None if value is None else 100 * float(value)

    @property
    def setting(self) -> str:
        """All that it shares with the runs that it may be compared with."""
        return repr(sorted((key, value) for key, value in self.spec.items() if key not in APART))


@dataclass(frozen=True)
class Line:
    """One algorithm in one setting, by seed."""

    algorithm: str
    records: tuple[Record, ...]

    @property
    def finished(self) -> tuple[Record, ...]:
        """The records that count."""
        return tuple(record for record in self.records if record.state == "finished")

    @property
    def accuracy(self) -> Spread | None:
        """Final accuracy in percent over the finished seeds."""
        return spread(record.accuracy for record in self.finished if record.accuracy is not None)

    def curve(self, name: str = "accuracy") -> list[tuple[int, Spread]]:
        """A figure of the rounds over seeds, as recorded (a fraction), for rounds that all finished seeds have."""
        values: dict[int, list[float]] = defaultdict(list)
        for record in self.finished:
            for row in record.rounds:
                if isinstance(row.get(name), int | float) and math.isfinite(row[name]):
                    values[int(row["round"])].append(row[name])
        whole = len(self.finished)
        return [
            (number, made)
            for number, found in sorted(values.items())
            if len(found) == whole and (made := spread(found))
        ]

    def mean(self, name: str) -> float | None:
        """The mean over seeds of a figure of the result, such as ``bytes_up`` or ``seconds``."""
        made = spread(
            record.figures[name] for record in self.finished if isinstance(record.figures.get(name), int | float)
        )
        return None if made is None else made.mean

    def rounds_to(self, target: float) -> Spread | None:
        """The first round with that accuracy in percent, over seeds; None where a seed never reaches it."""
        first = []
        for record in self.finished:
            reached = [int(row["round"]) for row in record.rounds if 100 * (row.get("accuracy") or 0.0) >= target]
            if not reached:
                return None
            first.append(reached[0])
        return spread(first)


@dataclass(frozen=True)
class Setting:
    """Lines that differ in the algorithm alone."""

    spec: Mapping[str, Any]
    """The fields that they share."""
    lines: tuple[Line, ...]

    @property
    def dataset(self) -> str:
        """As the tables name it, without what is as by default."""
        return brief(DATASETS, self.spec.get("dataset"))

    @property
    def partition(self) -> str:
        """As the tables name it."""
        return brief(PARTITIONS, self.spec.get("partition"))


def read_record(folder: Path) -> Record | None:
    """The run in a folder, finished or not; None where there is none that can be read. Takes no lock."""
    text = read_spec(folder)
    if text is None:
        return None
    try:
        spec = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    key, result, rounds = folder.name.rsplit("-", 1)[-1], read_result(folder), tuple(read_rounds(folder))
    if result is not None and result.get("key") == key:
        return Record(key, spec, "finished", result, rounds, folder=folder)
    problem = read_failure(folder)
    state: State = "unfinished" if problem is None else "failed"
    return Record(key, spec, state, {}, rounds, problem, folder)


def read_records(runs: Path) -> list[Record]:
    """All runs in a folder, by key."""
    found = (read_record(path) for path in list_folder(runs))
    return sorted((record for record in found if record is not None), key=lambda record: record.key)


def settings(records: Iterable[Record]) -> list[Setting]:
    """The records by what they share, lines in order of the algorithm's name, records by seed."""
    groups: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        groups[record.setting][record.algorithm].append(record)
    made = []
    for group in groups.values():
        lines = tuple(
            Line(name, tuple(sorted(found, key=lambda record: record.seed)))
            for name, found in sorted(group.items())
        )
        shared = {key: value for key, value in lines[0].records[0].spec.items() if key not in APART}
        made.append(Setting(shared, lines))
    return sorted(made, key=lambda one: (one.dataset, one.partition, repr(sorted(one.spec.items()))))


def brief(registry: Registry[Any], text: Any) -> str:
    """A part's text without what is as by default; as it is where it is not registered (a plug-in's)."""
    try:
        return registry.brief(registry.build(str(text)))
    except UserError:
        return str(text)
