"""Our accuracies beside a paper's: the difference, and whether it is within two of the paper's deviations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from unalike.bench.published import Cell, published
from unalike.bench.results import Line, Setting, Spread

LEAST_STD = 0.1
"""The tables are rounded to this: a published deviation of 0.0 or 0.1 is as small as they can say."""

Place = tuple[str, str, str]
"""Data set, partition, and the algorithm's name without its parameters."""


@dataclass(frozen=True)
class Compared:
    """One cell of a table: accuracies in percent."""

    dataset: str
    partition: str
    algorithm: str
    """As in ours, with its parameters where they are not by default."""
    ours: Spread | None
    paper: Cell | None
    note: str = ""

    @property
    def difference(self) -> float | None:
        """Ours less the paper's, in percentage points."""
        return None if self.ours is None or self.paper is None else self.ours.mean - self.paper.mean

    @property
    def within(self) -> bool | None:
        """Whether ours is within two standard deviations of the published number; None without one of the two."""
        if self.difference is None or self.paper is None:
            return None
        return abs(self.difference) <= 2 * max(self.paper.std, LEAST_STD) + 1e-9


def compare(
    settings: Iterable[Setting], table: str | None, setting: str = "", notes: Mapping[Place, str] | None = None
) -> list[Compared]:
    """Every line beside the cell of ``table`` (none: ours alone); ``notes`` explain known differences."""
    cells = {
        (cell.dataset, cell.our_partition, cell.algorithm): cell
        for cell in (published(table) if table else ())
        if cell.setting == setting
    }
    made = []
    for one in settings:
        for line in one.lines:
            place = (one.dataset, one.partition, base_name(line))
            note = (notes or {}).get(place, "")
            made.append(Compared(*place[:2], line.algorithm, line.accuracy, cells.get(place), note))
    return made


def base_name(line: Line) -> str:
    """The algorithm's name without parameters."""
    return line.algorithm.split("(")[0]
