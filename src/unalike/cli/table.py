"""Tables that fit the screen: numbers and names are never wrapped or cut, however narrow it is.

A pipe has no width: there a table is one line of headings and one line for each row, with every column. On a
screen that is too narrow a table tries, in this order: headings on several lines; columns that are the same in
every row told once, above it; text wrapped between words; another table that says the same in fewer columns;
the least important columns left out, which it says; and in the end each row as a block of lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from unicodedata import east_asian_width

_TEXT_WIDTH = 16
"""Columns of text are not made narrower than this."""
_EVERYTHING = "--json, or | less -S, shows all"


@dataclass(frozen=True)
class Table:
    """Columns and rows; ``lines`` draws them for a width.

    right: the columns that hold numbers. text: those that may be wrapped between words. spare: those that may be
    left out, the least important first. narrow: what to draw instead where all columns do not fit.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str] = frozenset()
    text: frozenset[str] = frozenset()
    spare: tuple[str, ...] = ()
    narrow: Table | None = None

    def lines(self, width: int | None) -> list[str]:
        """The table for a screen of that width, or for a pipe, which has none."""
        every = range(len(self.columns))
        if width is None:
            return self._grid(every, [self._widest(place) for place in every], gap=2, rule=False)
        common = [place for place in every if self._is_common(place)]
        if len(common) == len(every):  # something must be left for the rows
            common = common[1:]
        apart = [place for place in every if place not in common]
        above = self._told_once(common, width)
        for places, told, wrapping, gap in (
            (every, [], False, 2),
            (apart, above, False, 2),
            (apart, above, True, 2),
            (apart, above, True, 1),
        ):
            if (widths := self._widths(places, width, gap, wrapping=wrapping)) is not None:
                return [*told, *self._grid(places, widths, gap)]
        if self.narrow is not None:
            return self.narrow.lines(width)
        for places, left_out in self._without_spare(apart):
            for gap in (2, 1):
                if (widths := self._widths(places, width, gap, wrapping=True)) is not None:
                    note = f"Left out at this width: {'; '.join(left_out)} ({_EVERYTHING})."
                    return [*above, *self._grid(places, widths, gap), *fold(note, width)]
        return [*above, *self._blocks(apart, width)]

    def _is_common(self, place: int) -> bool:
        return len(self.rows) > 1 and len({row[place] for row in self.rows}) == 1

    def _told_once(self, places: Sequence[int], width: int) -> list[str]:
        if not places:
            return []
        told = ", ".join(f"{self.columns[place]} {self.rows[0][place]}".strip() for place in places)
        return [*fold(f"All: {told}.", width), ""]

    def _without_spare(self, places: Sequence[int]) -> Iterator[tuple[list[int], list[str]]]:
        left_out: list[str] = []
        for name in self.spare:
            if name in (self.columns[place] for place in places):
                left_out.append(name)
                yield [place for place in places if self.columns[place] not in left_out], left_out

    def _widest(self, place: int) -> int:
        return max(cells(self.columns[place]), self._content(place))

    def _content(self, place: int) -> int:
        return max((cells(row[place]) for row in self.rows), default=0)

    def _widths(self, places: Sequence[int], width: int, gap: int, *, wrapping: bool) -> list[int] | None:
        """The width of each column, where all of them fit; what is left over goes to those that want more."""
        widths = [self._narrowest(place, wrapping=wrapping) for place in places]
        left = width - sum(widths) - gap * (len(places) - 1)
        if left < 0:
            return None
        for number, place in sorted(enumerate(places), key=lambda each: self.columns[each[1]] not in self.text):
            more = min(left, self._widest(place) - widths[number])
            widths[number] += more
            left -= more
        return widths

    def _narrowest(self, place: int, *, wrapping: bool) -> int:
        heading = max(map(cells, self.columns[place].split()), default=0)
        content = self._content(place)
        if wrapping and self.columns[place] in self.text:
            pieces = (cells(piece.strip()) for row in self.rows for piece in _pieces(row[place]))
            content = max(min(content, _TEXT_WIDTH), *pieces, 0)
        return max(heading, content)

    def _grid(self, places: Sequence[int], widths: Sequence[int], gap: int, *, rule: bool = True) -> list[str]:
        heading = [fold(self.columns[place], width) for place, width in zip(places, widths, strict=True)]
        tallest = max(map(len, heading), default=0)
        lines = self._side_by_side(places, widths, gap, [[""] * (tallest - len(h)) + h for h in heading])
        if rule:
            lines.append("─" * (sum(widths) + gap * (len(widths) - 1)))
        for row in self.rows:
            folded = [fold(row[place], width) for place, width in zip(places, widths, strict=True)]
            lines += self._side_by_side(places, widths, gap, folded)
        return lines

    def _side_by_side(
        self, places: Sequence[int], widths: Sequence[int], gap: int, columns: Sequence[Sequence[str]]
    ) -> list[str]:
        lines = []
        for number in range(max(map(len, columns), default=0)):
            parts = []
            for place, width, column in zip(places, widths, columns, strict=True):
                part = column[number] if number < len(column) else ""
                space = " " * (width - cells(part))
                parts.append(space + part if self.columns[place] in self.right else part + space)
            lines.append((" " * gap).join(parts).rstrip())
        return lines

    def _blocks(self, places: Sequence[int], width: int) -> list[str]:
        """Each row as a heading, its first cell, and a line for every other."""
        first, *others = places
        names = max((cells(self.columns[place]) for place in others), default=0)
        lines = []
        for row in self.rows:
            lines.append(f"{self.columns[first]} {row[first]}".strip())
            for place in others:
                start = f"  {self.columns[place]}{' ' * (names - cells(self.columns[place]))}  "
                told = fold(row[place], width - cells(start))
                if max(map(cells, told)) > width - cells(start):  # beside its heading it does not fit: below
                    lines += [start.rstrip(), *(f"    {line}" for line in fold(row[place], width - 4))]
                else:
                    lines += [start + told[0], *(" " * cells(start) + more for more in told[1:])]
        return lines


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[str] = (),
    text: Sequence[str] = (),
    spare: Sequence[str] = (),
    narrow: Table | None = None,
) -> Table:
    """A table of strings; :class:`Table` says what the other arguments are."""
    made = tuple(tuple(" ".join(cell.splitlines()) for cell in row) for row in rows)
    return Table(tuple(columns), made, frozenset(right), frozenset(text), tuple(spare), narrow)


def cells(text: str) -> int:
    """How many places of a screen a text takes; Chinese characters, for example, take two each."""
    return len(text) if text.isascii() else sum(1 + (east_asian_width(each) in "WF") for each in text)


def _pieces(text: str) -> list[str]:
    """Where a text may be broken: after a space, and after the + of a composition."""
    return re.findall(r"[^\s+]+\+*\s*|\++\s*", text)


def fold(text: str, width: int) -> list[str]:
    """The text in lines, broken between words only; a word that is wider than a line stays whole."""
    if cells(text) <= width:
        return [text]
    if text.isascii() and "+" not in text:
        return wrap(text, width, break_long_words=False, break_on_hyphens=False)
    lines = [""]
    for piece in _pieces(text):
        if lines[-1] and cells((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]
