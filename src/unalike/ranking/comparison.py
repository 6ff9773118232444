"""Our accuracies beside a paper's: the difference, and whether it is within two of the paper's deviations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from unalike.ranking.published import Cell, published
from unalike.runs.results import Line, Setting, Spread

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
    judged: bool = True
    """Whether ours is at the published setting, so that it may be said to agree or not."""

    @property
    def difference(self) -> float | None:
        """Ours less the paper's, in percentage points."""
        return None if self.ours is None or self.paper is None else self.ours.mean - self.paper.mean

    @property
    def within(self) -> bool | None:
        """Whether ours is within two standard deviations of the published number; None where it cannot be said."""
        if self.difference is None or self.paper is None or not self.judged:
            return None
        return abs(self.difference) <= 2 * max(self.paper.std, self.paper.rounding) + 1e-9


def compare(
    settings: Iterable[Setting],
    table: str | None,
    setting: str = "",
    notes: Mapping[Place, str] | None = None,
    *,
    judged: bool = True,
) -> list[Compared]:
    """Every line beside the cell of ``table`` (none: ours alone); ``notes`` explain known differences.

    Where ours are not at the published setting, they are not ``judged``: no agreement is claimed or denied.
    """
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
            made.append(Compared(*place[:2], line.algorithm, line.accuracy, cells.get(place), note, judged))
    return made


def base_name(line: Line) -> str:
    """The algorithm's name without parameters."""
    return line.algorithm.split("(")[0]
