"""What is ranked: settings with a trial for each algorithm and seed, from runs or from a published table.

A block (Demsar 2006) is a setting: data set, partition and everything else but the algorithm and the seed.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from unalike.algorithms.personal.baselines import POOLED
from unalike.errors import UserError, unknown
from unalike.measure.situation import Kind, Situation
from unalike.ranking.deployed import WORST_TENTH, family
from unalike.ranking.published import SCORE as PUBLISHED_SCORE
from unalike.ranking.published import TABLES, published, seeds_of
from unalike.ranking.splits import SPLITS
from unalike.ranking.standing import REFERENCE, Comparison
from unalike.runs.differences import differences, field_told
from unalike.runs.results import Line, Record, Setting, first_round, mean_validation
from unalike.runs.scales import Scale, scale_of

KINDS: tuple[Kind, ...] = get_args(Kind)
UNKNOWN = "not measured"
"""The category of blocks whose runs have no degrees."""


@dataclass(frozen=True)
class Trial:
    """One algorithm and seed in a block. value is its score, a fraction in percent; None of a run that failed."""

    value: float | None
    text: str
    """The algorithm with its parameters."""
    bytes: float | None = None
    seconds: float | None = None
    rounds_to_target: int | None = None
    worst_tenth: float | None = None
    """Of the parties' own scores, the mean over the worst tenth; of a global model there is none."""
    seeds: int = 1
    """Over how many seeds the value is a mean: a paper prints no others."""


@dataclass(frozen=True)
class Block:
    """One setting; ``trials[algorithm][seed]``, all by the same score."""

    name: str
    kind: str
    trials: Mapping[str, Mapping[int, Trial]] = field(default_factory=dict)
    score: str = PUBLISHED_SCORE
    dataset: str = ""
    table: str = ""
    """The table that ships with the package and has it; blocks of the same name in several are one setting."""

    @property
    def scale(self) -> Scale:
        """How the values are told and compared."""
        return scale_of(self.score)

    def seeds(self, algorithms: Iterable[str]) -> set[int]:
        """The seeds that all of the algorithms have."""
        return set.intersection(*(set(self.trials.get(name, {})) for name in algorithms))

    def value(self, algorithm: str, seeds: Iterable[int]) -> float | None:
        """The mean value over seeds; None as soon as one of them failed."""
        found = [self.trials[algorithm][seed].value for seed in seeds]
        known = [value for value in found if value is not None]
        return statistics.fmean(known) if known and len(known) == len(found) else None


def run_blocks(settings: Sequence[Setting], target: float | None = None, *, apart: bool = False) -> list[Block]:
    """The blocks of settings with runs that finished or failed.

    An algorithm stands under its name alone if, in every setting that has several of its parametrisations, one can
    be selected on validation rows; else, or with ``apart``, each parametrisation is an algorithm of its own.
    ``target`` is a value as it is told (percent of a fraction); None: FedAvg's final one with the same seed.
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
        trials: dict[str, Mapping[int, Trial]] = {}
        goals = {record.seed: record.value for record in lines.get(REFERENCE, ())}
        for name, found in _families(lines).items():
            for text in found if name in split else [_select(found) or ""]:
                made = {
                    record.seed: _trial(record, goals.get(record.seed) if target is None else target)
                    for record in found[text]
                }
                trials[text if name in split else name] = made
        if trials:
            records = [record for found in lines.values() for record in found]
            name, kind = _name(setting, settings), kind_of(records)
            blocks.append(Block(name, kind, trials, setting.scale.name, setting.dataset))
    return blocks


def published_blocks(table: str) -> list[Block]:
    """The blocks of a paper's table: its rows, each with one trial an algorithm."""
    if table not in TABLES:
        raise unknown("published table", table, TABLES)
    rows: dict[tuple[str, str, str], dict[str, Mapping[int, Trial]]] = defaultdict(dict)
    for cell in published(table):
        trial = Trial(cell.mean, cell.algorithm, seeds=seeds_of(table))
        rows[cell.dataset, cell.partition, cell.setting][cell.algorithm] = {0: trial}
    return [table_block(table, place, trials) for place, trials in rows.items()]


def table_block(table: str, place: tuple[str, ...], trials: Mapping[str, Mapping[int, Trial]]) -> Block:
    """A row of a table: data set, partition, and perhaps what else tells it from others."""
    name, kind = ", ".join(filter(None, place)), _published_kind(place[1])
    return Block(name, kind, trials, dataset=place[0], table=table)


def comparisons(blocks: Sequence[Block], reference: str = REFERENCE) -> list[Comparison]:
    """By setting, gains over the reference on the seeds that the two share; a failed run has the worst score.

    A setting that several tables have counts once, with the mean over all of their seeds.
    """
    found: dict[object, dict[str, list[tuple[float, int]]]] = defaultdict(lambda: defaultdict(list))
    for number, block in enumerate(blocks):
        setting = block.name if block.table else number
        plain = block.trials.get(reference, {})
        for name, trials in block.trials.items():
            for seed in sorted(trials.keys() & plain.keys()) if name != reference else ():
                gain = block.scale.gain(trials[seed].value, plain[seed].value)
                found[setting][name].append((gain, min(trials[seed].seeds, plain[seed].seeds)))
    return [{name: _mean_over_seeds(gains) for name, gains in each.items()} for each in found.values()]


def _mean_over_seeds(gains: Sequence[tuple[float, int]]) -> float:
    return math.fsum(gain * seeds for gain, seeds in gains) / sum(seeds for _, seeds in gains)


def texts_of(blocks: Sequence[Block]) -> dict[str, str]:
    """By algorithm, its text with parameters where these are the same in all settings."""
    found: dict[str, set[str]] = {}
    for block in blocks:
        for name, trials in block.trials.items():
            found.setdefault(name, set()).update(trial.text for trial in trials.values())
    return {name: next(iter(texts)) if len(texts) == 1 else name for name, texts in found.items()}


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
    """Those that count: finished, or failed; but a refused setting is no failure of the algorithm.

    Rows at one place are no federation: what comes of them is shown beside others, and ranked with none. A run
    that has no score, as there are no test rows, is not ranked either.
    """
    if line.algorithm.split("(")[0] == POOLED:
        return ()
    return tuple(
        record
        for record in line.records
        if (record.state == "finished" and (record.value is not None or record.figures.get("test_rows") != 0))
        or (record.state == "failed" and not record.refused)
    )


def _families(lines: Mapping[str, tuple[Record, ...]]) -> dict[str, dict[str, tuple[Record, ...]]]:
    """The lines with records, by the algorithm's name without parameters (and tuned ones apart)."""
    made: dict[str, dict[str, tuple[Record, ...]]] = defaultdict(dict)
    for text, records in lines.items():
        if records:
            made[family(text)][text] = records
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
        if not shared or any(record.state == "finished" and record.validation is None for record in shared):
            return None
        means[text] = records[0].scale.goodness(mean_validation(shared))
    return max(sorted(means), key=lambda text: means[text])


def _trial(record: Record, goal: float | None) -> Trial:
    if record.state == "failed":
        return Trial(None, record.algorithm)
    sizes = [record.figures.get(name) for name in ("bytes_up", "bytes_down")]
    known = [float(size) for size in sizes if isinstance(size, int | float)]
    seconds = record.figures.get("seconds")
    return Trial(
        record.value,
        record.algorithm,
        sum(known) if len(known) == len(sizes) else None,
        float(seconds) if isinstance(seconds, int | float) else None,
        None if goal is None else first_round(record, goal),
        record.scale.told(record.figures.get(WORST_TENTH)),
    )


def _name(setting: Setting, among: Sequence[Setting]) -> str:
    """Data set and partition, and what tells it from others with the same two."""
    same = [one for one in among if (one.dataset, one.partition) == (setting.dataset, setting.partition)]
    differing, _ = differences([one.spec for one in same])
    parts = [field_told(key, setting.spec[key]) for key in differing if key in setting.spec]
    return ", ".join([setting.dataset, setting.partition, *parts])


def parse_target(text: str | None, scales: Iterable[Scale]) -> float | None:
    """A value of the runs' score as it is told; None for FedAvg's final one, which is also the default."""
    if text is None or text == REFERENCE:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    among = sorted(set(scales), key=lambda scale: scale.name)
    if len(among) > 1:
        names = ", ".join(scale.name for scale in among)
        raise UserError(f"--target {text} would be of several scores: {names}. Leave it out, or use fedavg.")
    for scale in among or [scale_of(PUBLISHED_SCORE)]:
        low, high = scale.bounds
        if not math.isfinite(value) or (low is not None and value <= low) or (high is not None and value > high):
            raise UserError(f"--target must be {scale.range_words}, or fedavg, got {text!r}.")
    return value
