"""The leaderboard: algorithms ranked over all settings and by kind of skew, with what they cost."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from unalike.errors import unknown
from unalike.ranking.blocks import KINDS, UNKNOWN, Block, Trial, texts_of
from unalike.ranking.ranking import ALPHA, Ranking, rank

OVERALL = "all settings"
OWN = "own models"
"""Before the category of a table that ranks by the parties' own mean."""
_MOST_SETS = 5000


@dataclass(frozen=True)
class Entry:
    """One algorithm's line. Costs are a run's, mean over settings; rounds, over settings where all get there."""

    algorithm: str
    mean_rank: float
    wins: int
    failed: int
    """Settings in which a run failed."""
    value: float | None
    """The score, mean over the settings where nobody failed; None where values of settings cannot be averaged."""
    bytes: float | None
    seconds: float | None
    rounds_to_target: float | None
    reached: int
    """Settings in which every run got to the target."""
    worst_tenth: float | None = None
    """Of models of the parties' own, the worst tenth's mean score, over the settings that ``value`` is of."""


@dataclass(frozen=True)
class Table:
    """One category: its ranking, its lines best first, and what could not be compared."""

    category: str
    ranking: Ranking
    entries: tuple[Entry, ...]
    settings: tuple[str, ...]
    left_out: tuple[str, ...]
    """Sentences, on what could not be compared and what is doubtful."""
    score: str | None = None
    """What all settings go by, if values of different settings can be averaged."""
    personal: bool = False
    """Whether the scores are the parties' own means (``deployed.by_own_models``), not those of global models."""

    def to_dict(self) -> dict[str, Any]:
        """One object, ready for JSON."""
        return asdict(self)


def leaderboard(
    blocks: Sequence[Block], *, alpha: float = ALPHA, algorithms: Sequence[str] = (), personal: bool = False
) -> list[Table]:
    """All settings first, then each kind of skew that there is; ``algorithms`` (all by default) are compared.

    ``personal``: the blocks' scores are the parties' own means, and the tables say so.
    """
    present = sorted({name for block in blocks for name in block.trials})
    for name in algorithms:
        if name not in present:
            raise unknown("algorithm in these results", name, present)
    wanted = set(algorithms or present)
    labels = texts_of(blocks)
    categories = [kind for kind in (*KINDS, UNKNOWN) if any(block.kind == kind for block in blocks)]
    tables = [_table(OVERALL, blocks, wanted, alpha, labels)]
    tables += [_table(kind, [b for b in blocks if b.kind == kind], wanted, alpha, labels) for kind in categories]
    if personal:
        return [replace(each, category=f"{OWN}: {each.category}", personal=True) for each in tables]
    return tables


def complete(blocks: Sequence[Block], wanted: Iterable[str]) -> tuple[list[str], list[Block]]:
    """The algorithms and blocks to compare: every block has every algorithm, with a seed that they share.

    Among all such choices the one with the most degrees of freedom, (algorithms - 1) x (blocks - 1); then the most
    cells, then the most algorithms. It goes by what was run, never by how it came out.
    """
    wanted = frozenset(wanted)
    patterns = [
        {
            wanted.intersection(name for name in block.trials if seed in block.trials[name])
            for seed in _seeds(block)
        }
        for block in blocks
    ]
    candidates = _intersections({pattern for found in patterns for pattern in found})

    def having(names: frozenset[str]) -> list[Block]:
        return [b for b, found in zip(blocks, patterns, strict=True) if any(names <= pattern for pattern in found)]

    def worth(names: frozenset[str]) -> tuple[int, int, int, list[str]]:
        k, n = len(names), len(having(names))
        return (k - 1) * (n - 1), k * n, k, sorted(names, reverse=True)

    chosen = max((names for names in candidates if len(names) > 1), key=worth, default=frozenset())
    return sorted(chosen), having(chosen) if chosen else []


def _intersections(patterns: set[frozenset[str]]) -> set[frozenset[str]]:
    """All intersections of the patterns: the only sets of algorithms that can be largest for their blocks."""
    found = set(patterns)
    for pattern in sorted(patterns, key=lambda each: (-len(each), sorted(each))):
        found |= {pattern & other for other in found}
        if len(found) > _MOST_SETS:  # of so many kinds of blocks, a good choice will do
            break
    return found


def _seeds(block: Block) -> set[int]:
    return {seed for found in block.trials.values() for seed in found}


def _table(
    category: str, blocks: Sequence[Block], wanted: Iterable[str], alpha: float, labels: dict[str, str]
) -> Table:
    names, used = complete(blocks, wanted)
    seeds = [block.seeds(names) for block in used]
    values = [
        {labels[name]: block.value(name, shared) for name in names}
        for block, shared in zip(used, seeds, strict=True)
    ]
    ranking = rank(
        [
            {name: None if value is None else block.scale.goodness(value) for name, value in row.items()}
            for block, row in zip(used, values, strict=True)
        ],
        alpha,
    )
    cells = {
        labels[name]: [
            [block.trials[name][seed] for seed in sorted(shared)]
            for block, shared in zip(used, seeds, strict=True)
        ]
        for name in names
    }
    score = _common_score(used)
    everywhere = [index for index, row in enumerate(values) if score and None not in row.values()]
    got_there = {name: [_rounds(row) for row in rows] for name, rows in cells.items()}
    both = [index for index in range(len(used)) if all(rows[index] is not None for rows in got_there.values())]
    entries = tuple(
        Entry(
            algorithm=name,
            mean_rank=mean_rank,
            wins=ranking.wins[name],
            failed=sum(row[name] is None for row in values),
            value=_mean(values[index][name] for index in everywhere),
            bytes=_mean(_each(cells[name], lambda trial: trial.bytes)),
            seconds=_mean(_each(cells[name], lambda trial: trial.seconds)),
            rounds_to_target=_mean(got_there[name][index] for index in both),
            reached=sum(value is not None for value in got_there[name]),
            worst_tenth=_mean(
                _each([cells[name][index] for index in everywhere], lambda trial: trial.worst_tenth)
            ),
        )
        for name, mean_rank in ranking.mean_ranks.items()
    )
    left_out = _left_out(blocks, used, names, wanted, labels)
    return Table(category, ranking, entries, tuple(block.name for block in used), left_out, score)


def _common_score(blocks: Sequence[Block]) -> str | None:
    """The score of all blocks, if they have the same, and in the same unit: that of regression is its target's."""
    units = {(block.score, block.dataset if block.scale.score.task == "regression" else "") for block in blocks}
    return blocks[0].score if len(units) == 1 else None


def _rounds(trials: Sequence[Trial]) -> float | None:
    """Rounds to the target, mean over seeds, all of which must get there."""
    found = [trial.rounds_to_target for trial in trials]
    known = [float(value) for value in found if value is not None]
    return statistics.fmean(known) if len(known) == len(found) else None


def _each(rows: Sequence[Sequence[Trial]], figure: Callable[[Trial], float | None]) -> list[float | None]:
    """By setting, a figure's mean over seeds."""
    return [_mean(figure(trial) for trial in row) for row in rows]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _left_out(
    blocks: Sequence[Block],
    used: Sequence[Block],
    names: Sequence[str],
    wanted: Iterable[str],
    labels: dict[str, str],
) -> tuple[str, ...]:
    said = []
    others = sorted(set(wanted).intersection(name for block in blocks for name in block.trials) - set(names))
    if others and names:
        said.append(f"Left out, as run in too few of the settings: {', '.join(labels[name] for name in others)}.")
    missing = len(blocks) - len(used)
    if missing:
        example = next(block.name for block in blocks if block not in used)
        lack = "some of these algorithms, or a seed in common" if names else "two algorithms with a seed in common"
        said.append(f"Left out: {missing} of {len(blocks)} settings, which lack {lack} (such as {example}).")
    return tuple(said)
