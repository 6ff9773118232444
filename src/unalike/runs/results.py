"""Runs as results: read from their folders, and gathered into settings, algorithms and seeds.

A :class:`Record` is one run, a :class:`Line` one algorithm in one setting over seeds, a :class:`Setting` all lines
that differ in the algorithm alone. Studies, the leaderboard and the report all speak in these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from unalike.algorithms import ALGORITHMS
from unalike.data import DATASETS
from unalike.errors import UserError
from unalike.partition import PARTITIONS
from unalike.registry import Registry
from unalike.runs.files import list_folder
from unalike.runs.record import failed_for_good, read_failure, read_run
from unalike.runs.scales import Scale, Spread, is_number, scale_of, spread
from unalike.runs.spec import RunSpec
from unalike.scores import SCORES, key_of, score_of
from unalike.toml import read_toml

APART = frozenset({"algorithm", "seed", "code", "engine", "device", "threads"})
"""Fields of a spec in which the runs of one setting may differ."""

State = Literal["finished", "failed", "unfinished"]


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
    refused: bool = False
    """Of a failed run, whether it never trained: its setting was refused, or its data were not there."""
    tuned: frozenset[str] = frozenset()
    """Fields that were tuned for its algorithm: they do not tell its setting from those of other algorithms."""

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
    def named_score(self) -> str | None:
        """The score that its files name; None of a run that was never evaluated, if nobody chose one."""
        if self.figures:
            return score_of(self.figures)
        if self.spec.get("score") in SCORES:
            return score_of(self.spec)
        evaluated = (score for row in self.rounds if key_of(score := score_of(row)) in row)
        return next((score for score in evaluated if score in SCORES), None)

    @property
    def score(self) -> str:
        """The name of the score that it goes by."""
        return self.named_score or score_of({})

    @property
    def scale(self) -> Scale:
        """How values of its score are told and compared."""
        return scale_of(self.score)

    @property
    def value(self) -> float | None:
        """The final global model's score on the global test set, as it is told: a fraction in percent."""
        return self.scale.of(self.figures)

    @property
    def validation(self) -> float | None:
        """The final score on the parties' validation rows, as it is told: what chooses parameters."""
        return self.scale.of(self.figures, "validation_")

    @property
    def setting(self) -> str:
        """All that it shares with the runs that it may be compared with, its score among it."""
        return repr(sorted(self.shared.items()))

    @property
    def shared(self) -> dict[str, Any]:
        """The fields of its setting."""
        apart = APART | self.tuned
        return {key: value for key, value in self.spec.items() if key not in apart} | {"score": self.score}


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
    def scale(self) -> Scale:
        """How values of its runs' score are told and compared."""
        return self.records[0].scale if self.records else scale_of(score_of({}))

    @property
    def value(self) -> Spread | None:
        """The final score over the finished seeds, as it is told."""
        return self.final(self.scale)

    def final(self, scale: Scale) -> Spread | None:
        """The same of any score, the runs' own or another; None where no run has it."""
        values = (scale.of(record.figures) for record in self.finished)
        return spread(value for value in values if value is not None)

    def curve(self, name: str | None = None) -> list[tuple[int, Spread]]:
        """A figure of the rounds (the score) over seeds, as recorded, for rounds that all finished seeds have."""
        name = self.scale.score.key if name is None else name
        values: dict[int, list[float]] = defaultdict(list)
        for record in self.finished:
            for row in record.rounds:
                if is_number(row.get(name)):
                    values[int(row["round"])].append(row[name])
        whole = len(self.finished)
        return [
            (number, made)
            for number, found in sorted(values.items())
            if len(found) == whole and (made := spread(found))
        ]

    def mean(self, name: str) -> float | None:
        """The mean over seeds of a figure of the result, such as ``bytes_up`` or ``seconds``."""
        made = spread(record.figures[name] for record in self.finished if is_number(record.figures.get(name)))
        return None if made is None else made.mean

    def rounds_to(self, target: float) -> Spread | None:
        """The first round that is as good as the target, over seeds; None where a seed never reaches it."""
        first = [reached for record in self.finished if (reached := first_round(record, target)) is not None]
        return spread(first) if len(first) == len(self.finished) else None


@dataclass(frozen=True)
class Setting:
    """Lines that differ in the algorithm alone."""

    spec: Mapping[str, Any]
    """The fields that they share."""
    lines: tuple[Line, ...]

    @property
    def scale(self) -> Scale:
        """How values of their score, which is the same for all, are told and compared."""
        return self.lines[0].scale

    @property
    def dataset(self) -> str:
        """The data set, as the tables name it."""
        return brief(DATASETS, self.spec.get("dataset"))

    @property
    def partition(self) -> str:
        """The partition, as the tables name it."""
        return brief(PARTITIONS, self.spec.get("partition"))


def first_round(record: Record, target: float) -> int | None:
    """The first round whose score, as it is told, is as good as the target."""
    scale = record.scale
    return next((int(row["round"]) for row in record.rounds if scale.reaches(scale.of(row), target)), None)


def mean_validation(records: Iterable[Record]) -> float | None:
    """The mean of the final scores on validation rows, as they are told; None where a run has none."""
    found = [record.validation for record in records]
    known = [value for value in found if value is not None]
    return fmean(known) if known and len(known) == len(found) else None


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
    damage = found.damage
    if found.result is not None:
        if (score := score_of(found.result)) in SCORES:
            return Record(key, spec, "finished", found.result, rounds, folder=folder, changed=changed)
        damage = f"its score {score!r} is not known here."
    if damage is not None:
        return Record(key, spec, "unfinished", {}, rounds, f"{folder.name}: {damage}", folder, changed)
    problem = read_failure(folder)
    state: State = "unfinished" if problem is None else "failed"
    return Record(key, spec, state, {}, rounds, problem, folder, changed, not failed_for_good(folder))


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
    for record in _on_the_same_rows(sorted(_with_scores(list(records)), key=_precedence)):
        groups[record.setting][record.algorithm][record.seed] = record
    made = []
    for group in groups.values():
        lines = tuple(
            Line(name, tuple(found[seed] for seed in sorted(found))) for name, found in sorted(group.items())
        )
        made.append(Setting(lines[0].records[0].shared, lines))
    return sorted(made, key=lambda one: (one.dataset, one.partition, repr(sorted(one.spec.items()))))


def _with_scores(records: Sequence[Record]) -> list[Record]:
    """The records, where those that were never evaluated go by the score of others with the same spec."""
    usual = {_place(record): record.score for record in records if record.figures and "score" not in record.spec}
    return [
        replace(record, spec={**record.spec, "score": usual[_place(record)]})
        if record.named_score is None and _place(record) in usual
        else record
        for record in records
    ]


def _place(record: Record) -> str:
    return repr(sorted((key, value) for key, value in record.spec.items() if key not in APART))


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
