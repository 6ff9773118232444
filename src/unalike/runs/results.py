"""Runs as results: read from their folders, and gathered into settings, algorithms and seeds.

A :class:`Record` is one run, a :class:`Line` one algorithm in one setting over seeds, a :class:`Setting` all lines
that differ in the algorithm alone. Studies, the leaderboard and the report all speak in these.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeGuard

from unalike.algorithms import ALGORITHMS
from unalike.data import DATASETS
from unalike.errors import UserError
from unalike.partition import PARTITIONS
from unalike.registry import Registry
from unalike.runs.files import list_folder
from unalike.runs.record import read_failure, read_run
from unalike.runs.spec import RunSpec
from unalike.toml import read_toml

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
    """Why it failed; of an unfinished run, what is damaged in its folder."""
    folder: Path | None = None
    changed: float = 0.0
    """When it was last written, in seconds; of two runs of the same thing, the later counts."""

    @property
    def algorithm(self) -> str:
        """As the tables name it: ``fedprox(mu=0.1)``, without what is as by default."""
        return brief(ALGORITHMS, self.spec.get("algorithm"))

    @property
    def dataset(self) -> str:
        """The data set, as the tables name it."""
        return brief(DATASETS, self.spec.get("dataset"))

    @property
    def partition(self) -> str:
        """As the tables name it: ``label-dirichlet(0.5)``."""
        return brief(PARTITIONS, self.spec.get("partition"))

    @property
    def seed(self) -> int:
        """The seed that the run was played with."""
        return int(self.spec.get("seed", 0))

    @property
    def damaged(self) -> bool:
        """Whether its files are not as they were written, so that it has to be run again."""
        return self.state == "unfinished" and self.problem is not None

    @property
    def accuracy(self) -> float | None:
        """Of the final global model on the global test set, in percent."""
        value = self.figures.get("accuracy")
        return 100 * value if _is_number(value) else None

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
        """The records of finished runs: those that tables and charts count."""
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
                if _is_number(row.get(name)):
                    values[int(row["round"])].append(row[name])
        whole = len(self.finished)
        return [
            (number, made)
            for number, found in sorted(values.items())
            if len(found) == whole and (made := spread(found))
        ]

    def mean(self, name: str) -> float | None:
        """The mean over seeds of a figure of the result, such as ``bytes_up`` or ``seconds``."""
        made = spread(record.figures[name] for record in self.finished if _is_number(record.figures.get(name)))
        return None if made is None else made.mean

    def rounds_to(self, target: float) -> Spread | None:
        """The first round with that accuracy in percent, over seeds; None where a seed never reaches it."""
        first = []
        for record in self.finished:
            reached = first_round(record, target)
            if reached is None:
                return None
            first.append(reached)
        return spread(first)


@dataclass(frozen=True)
class Setting:
    """Lines that differ in the algorithm alone."""

    spec: Mapping[str, Any]
    """The fields that they share."""
    lines: tuple[Line, ...]

    @property
    def dataset(self) -> str:
        """The data set, as the tables name it."""
        return brief(DATASETS, self.spec.get("dataset"))

    @property
    def partition(self) -> str:
        """The partition, as the tables name it."""
        return brief(PARTITIONS, self.spec.get("partition"))


def first_round(record: Record, target: float) -> int | None:
    """The first round with that accuracy in percent."""
    for row in record.rounds:
        value = row.get("accuracy")
        if _is_number(value) and 100 * value >= target - 1e-9:
            return int(row["round"])
    return None


def read_record(folder: Path) -> Record | None:
    """The run in a folder, finished or not; None where there is none that can be read. Takes no lock."""
    found = read_run(folder)
    try:
        spec = read_toml(found.spec or "", folder)
    except UserError:
        return None
    if not _is_spec(spec):
        return None
    spec = RunSpec.complete(spec)
    key, rounds, changed = folder.name.rsplit("-", 1)[-1], tuple(found.rounds), _changed(folder)
    if found.result is not None:
        return Record(key, spec, "finished", found.result, rounds, folder=folder, changed=changed)
    if found.damage is not None:
        return Record(key, spec, "unfinished", {}, rounds, f"{folder.name}: {found.damage}", folder, changed)
    problem = read_failure(folder)
    state: State = "unfinished" if problem is None else "failed"
    return Record(key, spec, state, {}, rounds, problem, folder, changed)


def _is_spec(spec: Mapping[str, Any]) -> bool:
    texts, numbers = ("dataset", "partition", "algorithm"), ("seed", "rounds")
    return (
        all(isinstance(spec.get(name), str) for name in texts)
        and all(isinstance(spec.get(name), int) for name in numbers)
        and all(isinstance(value, str | float) or _is_whole(value) for value in spec.values())
        and _is_whole(spec.get("parties", 0))
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and abs(value) < 2**63


def _changed(folder: Path) -> float:
    for name in ("result.json", "failure.json", "rounds.jsonl", "spec.toml"):
        with suppress(OSError):
            return (folder / name).stat().st_mtime
    return 0.0


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value)


def read_records(runs: Path) -> list[Record]:
    """All runs in a folder, by key."""
    found = (read_record(path) for path in list_folder(runs))
    return sorted((record for record in found if record is not None), key=lambda record: record.key)


def settings(records: Iterable[Record]) -> list[Setting]:
    """The records by what they share, lines in order of the algorithm's name, one record a seed.

    Where an algorithm and a seed have several (another engine, an edited plug-in), a finished one counts before
    one that is not, then the latest. Those on other rows than the latest one of their seed are left out: the
    file behind a name such as ``csv:PATH`` has changed.
    """
    groups: dict[str, dict[str, dict[int, Record]]] = defaultdict(lambda: defaultdict(dict))
    for record in _on_the_same_rows(sorted(records, key=_precedence)):
        groups[record.setting][record.algorithm][record.seed] = record
    made = []
    for group in groups.values():
        lines = tuple(
            Line(name, tuple(found[seed] for seed in sorted(found))) for name, found in sorted(group.items())
        )
        shared = {key: value for key, value in lines[0].records[0].spec.items() if key not in APART}
        made.append(Setting(shared, lines))
    return sorted(made, key=lambda one: (one.dataset, one.partition, repr(sorted(one.spec.items()))))


def _precedence(record: Record) -> tuple[int, float, str]:
    return ("unfinished", "failed", "finished").index(record.state), record.changed, record.key


def _on_the_same_rows(records: Sequence[Record]) -> list[Record]:
    """``records`` are in order of precedence; what is not finished does not say on which rows it was."""
    latest: dict[tuple[str, int], Any] = {}
    for record in records:
        if record.state == "finished":
            latest[record.setting, record.seed] = record.figures.get("data_sha256")
    return [
        record
        for record in records
        if record.state != "finished" or record.figures.get("data_sha256") == latest[record.setting, record.seed]
    ]


def brief(registry: Registry[Any], text: Any) -> str:
    """A part's text without what is as by default; as it is where it is not registered (a plug-in's)."""
    try:
        return registry.brief(registry.build(str(text)))
    except UserError:
        return str(text)
