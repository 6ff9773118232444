"""Our scores beside a paper's accuracies: the difference, and whether it is within two of its deviations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from unalike.ranking.published import SCORE, Cell, published
from unalike.runs.results import Line, Setting
from unalike.runs.scales import Spread

Place = tuple[str, str, str]
"""Data set, partition, and the algorithm's name without its parameters."""


@dataclass(frozen=True)
class Compared:
    """One cell of a table. Ours is a line's score as it is told; a paper's is an accuracy in percent."""

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

    Lines that go by another score than accuracy have no cell beside them.
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
            plain = (one.dataset.partition("(")[0], *place[1:])  # parameters say how the paper's data were read
            paper = cells.get(place, cells.get(plain)) if one.scale.name == SCORE else None
            made.append(Compared(*place[:2], line.algorithm, line.value, paper, note, judged))
    return made


def base_name(line: Line) -> str:
    """The algorithm's name without parameters."""
    return line.algorithm.split("(")[0]
