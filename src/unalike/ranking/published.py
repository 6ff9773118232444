"""The papers' own numbers, as facts that ship with the package."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

from unalike.errors import UserError
from unalike.runs.parts import registry

TABLES = {
    "niid-bench-table3": "Li et al. 2022, NIID-Bench (arXiv:2102.02079), Table 3",
    "rfedavg-tables1-2": "Wang et al. 2023, rFedAvg (ICDE), Tables I and II",
}
"""The tables at hand, and where they are from."""

OURS = "unalike-table3"
"""The table of this project's own runs (``shipped``)."""
SCORE = "accuracy"
"""What all of them have, in percent."""
_SEEDS = {"niid-bench-table3": 3, "rfedavg-tables1-2": 1}
_ROUNDED_TO = {"niid-bench-table3": 0.1, "rfedavg-tables1-2": 0.01}


_OURS = {"synthetic": "fcube", "by-writer": "natural", "by-user": "natural"}
"""Partitions that are a data set's own, under our names."""


@dataclass(frozen=True)
class Cell:
    """One number of a table: accuracy in percent, mean and standard deviation over seeds."""

    dataset: str
    partition: str
    algorithm: str
    mean: float
    std: float
    setting: str = ""
    rounding: float = 0.1
    """What the table is rounded to: a published deviation cannot say less."""

    @property
    def our_partition(self) -> str:
        """The partition as results name it: ``fcube``, ``similarity(10.0)``."""
        text = _OURS.get(self.partition, self.partition)
        try:
            return registry("partition").brief(registry("partition").build(text))
        except UserError:  # none of ours: it stays as the paper has it
            return text

    def __str__(self) -> str:
        return f"{self.mean}±{self.std}"


def published(table: str) -> Iterator[Cell]:
    """The cells of a table. Partitions are written as here: ``label-dirichlet(0.5)``, ``similarity(10)``."""
    text = (resources.files("unalike.ranking") / "tables" / f"{table}.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        yield Cell(
            row["dataset"],
            _partition(row["partition"]),
            row["algorithm"],
            float(row["accuracy_mean"]),
            float(row["accuracy_std"]),
            row.get("setting", ""),
            _ROUNDED_TO[table],
        )


def seeds_of(table: str) -> int:
    """Over how many seeds a table's numbers are means: NIID-Bench ran three; rFedAvg's are of its last rounds."""
    return _SEEDS[table]


def _partition(text: str) -> str:
    name, _, value = text.partition(":")
    return f"{name}({value})" if value else name
