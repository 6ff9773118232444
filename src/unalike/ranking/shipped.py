"""The evidence on algorithms that ships with the package: a paper's table, and this project's runs of its cells.

``tables/niid-bench-table3.csv`` is what NIID-Bench prints (means over three seeds); ``tables/unalike-table3.csv``
are runs made with this package at the same setting, seed by seed (docs/results.md, ``benchmarks/own_table.py``).
Advice goes by both: a setting counts once, with the mean gain over all seeds, and what each source says alone
stands beside it. FedProx's published numbers are the best of several mu; ours has mu tuned on validation rows.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from unalike.errors import unknown
from unalike.measure.situation import Kind
from unalike.ranking.blocks import Block, Trial, comparisons, published_blocks, table_block
from unalike.ranking.published import OURS, TABLES
from unalike.ranking.splits import kinds_beside
from unalike.ranking.standing import Standing, standings

PUBLISHED = "niid-bench-table3"
SHIPPED = {**TABLES, OURS: "runs made with this package at the setting of NIID-Bench's Table 3, docs/results.md"}
"""The tables that can be ranked, and where they are from."""
SOURCE = "NIID-Bench's Table 3 and runs of its cells made with this package"
COLUMNS = ("dataset", "partition", "algorithm", "seed", "accuracy")
"""Of ours: accuracy in percent after the last round, empty where a run failed."""
FAR = 5.0
"""Percentage points by which two gains in the same setting differ too much to be called reproduced."""


@dataclass(frozen=True)
class Gap:
    """A gain over FedAvg, in percentage points, that came out otherwise here than it was published."""

    setting: str
    algorithm: str
    ours: float
    seeds: int
    published: float

    def __str__(self) -> str:
        seeds = f"{self.seeds} seed{'s' * (self.seeds > 1)}"
        ours, published = f"{self.ours:+.1f} in {seeds}", f"{self.published:+.1f} published"
        return f"{self.algorithm} on {self.setting}: {ours}, {published}"


@cache
def our_blocks() -> tuple[Block, ...]:
    """The settings of the project's own table, with a trial for each algorithm and seed."""
    text = (resources.files("unalike.ranking") / "tables" / f"{OURS}.csv").read_text(encoding="utf-8")
    found: dict[tuple[str, str], dict[str, dict[int, Trial]]] = defaultdict(lambda: defaultdict(dict))
    for row in csv.DictReader(text.splitlines()):
        trial = Trial(float(row["accuracy"]) if row["accuracy"] else None, row["algorithm"])
        name = row["algorithm"].split("(")[0]
        found[row["dataset"], row["partition"]][name][int(row["seed"])] = trial
    return tuple(table_block(OURS, place, trials) for place, trials in found.items())


def blocks_of(table: str) -> list[Block]:
    """The settings of a table that ships with the package, a paper's or ours."""
    if table not in SHIPPED:
        raise unknown("published table", table, SHIPPED)
    return list(our_blocks()) if table == OURS else published_blocks(table)


def evidence(kind: Kind, tables: Sequence[str] = (PUBLISHED, OURS)) -> list[Standing]:
    """How algorithms stand against FedAvg with parties of a kind, by the given tables together."""
    kinds = kinds_beside(kind)
    return standings(comparisons([block for table in tables for block in blocks_of(table) if block.kind in kinds]))


def by_source(kind: Kind) -> Mapping[str, tuple[Standing, ...]]:
    """The same by each table alone."""
    return {table: tuple(evidence(kind, (table,))) for table in (PUBLISHED, OURS)}


def gaps(kind: Kind) -> list[Gap]:
    """The gains of a kind that did not come out as published, the largest difference first."""
    theirs = {block.name: block for block in published_blocks(PUBLISHED)}
    found = []
    for block in our_blocks():
        if block.kind in kinds_beside(kind) and block.name in theirs:
            (ours,), (other,) = comparisons([block]) or [{}], comparisons([theirs[block.name]]) or [{}]
            found += [
                Gap(block.name, name, ours[name], len(block.seeds(["fedavg", name])), other[name])
                for name in ours.keys() & other.keys()
                if abs(ours[name] - other[name]) > FAR
            ]
    return sorted(found, key=lambda gap: -abs(gap.ours - gap.published))
