"""What is ranked: settings with a score for each algorithm and seed, from runs or from a published table.

A block (Demsar 2006) is a setting: data set, partition and everything else but the algorithm and the seed.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from unalike.errors import UserError, unknown
from unalike.measure.situation import Kind, Situation
from unalike.ranking.advice import SPLITS
from unalike.ranking.published import TABLES, published
from unalike.ranking.standing import REFERENCE
from unalike.runs.results import Line, Record, Setting, first_round

KINDS: tuple[Kind, ...] = get_args(Kind)
UNKNOWN = "not measured"
"""The category of blocks whose runs have no degrees."""


@dataclass(frozen=True)
class Score:
    """One algorithm and seed in a block. accuracy is in percent, None of a run that failed."""

    accuracy: float | None
    text: str
    """The algorithm with its parameters."""
    bytes: float | None = None
    seconds: float | None = None
    rounds_to_target: int | None = None


@dataclass(frozen=True)
class Block:
    """One setting; ``scores[algorithm][seed]``."""

    name: str
    kind: str
    scores: Mapping[str, Mapping[int, Score]] = field(default_factory=dict)

    def seeds(self, algorithms: Iterable[str]) -> set[int]:
        """The seeds that all of the algorithms have."""
        return set.intersection(*(set(self.scores.get(name, {})) for name in algorithms))

    def score(self, algorithm: str, seeds: Iterable[int]) -> float | None:
        """The mean accuracy over seeds; None as soon as one of them failed."""
        found = [self.scores[algorithm][seed].accuracy for seed in seeds]
        known = [value for value in found if value is not None]
        return statistics.fmean(known) if known and len(known) == len(found) else None


def run_blocks(settings: Sequence[Setting], target: float | None = None, *, apart: bool = False) -> list[Block]:
    """The blocks of settings with runs that finished or failed.

    An algorithm stands under its name alone if, in every setting that has several of its parametrisations, one can
    be selected on validation rows; else, or with ``apart``, each parametrisation is an algorithm of its own.
    ``target`` is in percent; None: FedAvg's final accuracy with the same seed.
    """
    tried = [{line.algorithm: _ended(line) for line in setting.lines} for setting in settings]
    split = {
        name
        for lines in tried
        for name, found in _families(lines).items()
        if apart or (len(found) > 1 and _select(found) is None)
    }
    blocks = []
    for setting, lines in zip(settings, tried, strict=True):
        scores: dict[str, Mapping[int, Score]] = {}
        goals = {record.seed: record.accuracy for record in lines.get(REFERENCE, ())}
        for name, found in _families(lines).items():
            for text in found if name in split else [_select(found) or ""]:
                made = {
                    record.seed: _score(record, goals.get(record.seed) if target is None else target)
                    for record in found[text]
                }
                scores[text if name in split else name] = made
        if scores:
            records = [record for found in lines.values() for record in found]
            blocks.append(Block(_name(setting, settings), kind_of(records), scores))
    return blocks


def published_blocks(table: str) -> list[Block]:
    """The blocks of a paper's table: its rows, each with one score an algorithm."""
    if table not in TABLES:
        raise unknown("published table", table, TABLES)
    rows: dict[tuple[str, str, str], dict[str, Mapping[int, Score]]] = defaultdict(dict)
    for cell in published(table):
        rows[cell.dataset, cell.partition, cell.setting][cell.algorithm] = {0: Score(cell.mean, cell.algorithm)}
    return [
        Block(", ".join(filter(None, place)), _published_kind(place[1]), scores) for place, scores in rows.items()
    ]


def kind_of(records: Iterable[Record]) -> str:
    """The kind of skew that most of the finished runs found; of several found equally often, the mildest."""
    found: Counter[str] = Counter()
    for record in records:
        try:
            found[Situation(**record.figures["degrees"]).kind] += 1
        except (KeyError, TypeError):  # it failed, or was made before degrees were recorded
            continue
    return max(reversed(KINDS), key=lambda kind: found[kind]) if found else UNKNOWN


def _published_kind(partition: str) -> str:
    name = {"similarity(0)": "label skew", "similarity(10)": "label skew", "similarity(100)": "alike"}
    return next((kind for kind, splits in SPLITS.items() if partition in splits), name.get(partition, UNKNOWN))


def _ended(line: Line) -> tuple[Record, ...]:
    """Those that count: failed, or finished with a global model's accuracy (or with one that is not a number)."""
    return tuple(
        record
        for record in line.records
        if record.state == "failed" or (record.state == "finished" and not _personal_only(record))
    )


def _personal_only(record: Record) -> bool:
    """Whether its algorithm has no global model, so that there is nothing to rank by."""
    return record.accuracy is None and record.figures.get("loss") is None and bool(record.figures.get("personal"))


def _families(lines: Mapping[str, tuple[Record, ...]]) -> dict[str, dict[str, tuple[Record, ...]]]:
    """The lines with records, by the algorithm's name without parameters."""
    made: dict[str, dict[str, tuple[Record, ...]]] = defaultdict(dict)
    for text, records in lines.items():
        if records:
            made[text.split("(")[0]][text] = records
    return made


def _select(found: Mapping[str, tuple[Record, ...]]) -> str | None:
    """The parametrisation that is best on validation rows over the seeds that all have; None where none is known.

    One that failed on such a seed comes last. Of equals, the first by name. Test figures take no part.
    """
    if len(found) == 1:
        return next(iter(found))
    seeds = set.intersection(*({record.seed for record in records} for records in found.values()))
    means: dict[str, float] = {}
    for text, records in found.items():
        shared = [record for record in records if record.seed in seeds]
        values = [record.figures.get("validation_accuracy") for record in shared if record.state == "finished"]
        known = [float(value) for value in values if isinstance(value, int | float)]
        if not shared or len(known) < len(values):
            return None
        means[text] = statistics.fmean(known) if len(known) == len(shared) else -1.0
    return max(sorted(means), key=lambda text: means[text])


def _score(record: Record, goal: float | None) -> Score:
    if record.state == "failed":
        return Score(None, record.algorithm)
    sizes = [record.figures.get(name) for name in ("bytes_up", "bytes_down")]
    known = [float(size) for size in sizes if isinstance(size, int | float)]
    seconds = record.figures.get("seconds")
    return Score(
        record.accuracy,
        record.algorithm,
        sum(known) if len(known) == len(sizes) else None,
        float(seconds) if isinstance(seconds, int | float) else None,
        None if goal is None else first_round(record, goal),
    )


def _name(setting: Setting, among: Sequence[Setting]) -> str:
    """Data set and partition, and what tells it from others with the same two."""
    same = [one for one in among if (one.dataset, one.partition) == (setting.dataset, setting.partition)]
    keys = dict.fromkeys(key for one in same for key in one.spec)
    differing = [key for key in keys if len({repr(one.spec.get(key)) for one in same}) > 1]
    parts = [f"{key} {setting.spec[key]}" for key in differing if key in setting.spec]
    return ", ".join([setting.dataset, setting.partition, *parts])


def parse_target(text: str | None) -> float | None:
    """Percent; None for FedAvg's final accuracy, which is also the default."""
    if text is None or text == REFERENCE:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 100:
        raise UserError(
            f"--target must be an accuracy in percent, above 0 and up to 100, or fedavg, got {text!r}."
        )
    return value
