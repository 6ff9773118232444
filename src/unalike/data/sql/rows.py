"""The rows of an answer as columns of a table, in an order of their own: a database gives them in any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from unalike.data.columns import KEY, MISSING, Column
from unalike.data.dataset import Array
from unalike.data.numerals import number
from unalike.data.parquet import VARIABLE, memory_limit
from unalike.data.sql.answer import Answer, Heading
from unalike.errors import UserError, unknown

_CODE, _TEXT = 16, 80
"""Bytes of memory that the place of a value takes, and a different text beside its letters."""


@dataclass
class _Coded:
    """A column while it is read: a number for every row's text, and the different texts by number."""

    heading: Heading
    known: dict[str | bytes | None, int] = field(default_factory=dict)
    pieces: list[Array] = field(default_factory=list)
    letters: int = 0

    def take(self, values: Sequence[str | bytes | None]) -> None:
        """Add the values of some rows."""
        known, before = self.known, len(self.known)
        codes = (known.setdefault(value, len(known)) for value in values)
        self.pieces.append(np.fromiter(codes, np.int32, len(values)))
        if len(known) > before:
            self.letters += sum(len(value or "") for value in islice(known, before, None))

    @property
    def memory(self) -> int:
        """About how many bytes it takes."""
        return _CODE * sum(map(len, self.pieces)) + _TEXT * len(self.known) + self.letters

    @property
    def unusable(self) -> str:
        """The type of a column whose values are not used."""
        if self.heading.write is None:
            return self.heading.type
        return "BLOB" if any(isinstance(value, bytes) for value in self.known) else ""

    def ranked(self) -> tuple[Array, list[str]]:
        """The place of every row's text among the different ones, which are in their order."""
        write = self.heading.write
        texts = ["" if value is None or write is None else write(str(value)) for value in self.known]
        ordered = _ordered(set(texts))
        place = {text: rank for rank, text in enumerate(ordered)}
        ranks = np.array([place[text] for text in texts], np.int32)
        return ranks[np.concatenate(self.pieces)], ordered


def _ordered(texts: set[str]) -> list[str]:
    """The texts in an order that depends on nothing else: numbers by their size where all are, else as texts."""
    gaps = {text for text in texts if text.strip().lower() in MISSING}
    sizes = {text: number(text) for text in texts - gaps}
    by_size = all(size is not None for size in sizes.values())
    return [*sorted(gaps), *sorted(sizes, key=lambda text: (sizes[text] if by_size else 0.0, text))]


def read_rows(answer: Answer, key: Sequence[str], shown: str) -> list[Column]:
    """The columns of an answer, its rows sorted by ``key``, and then by all columns from the left.

    The columns of the key are there to be looked at, and are not used otherwise.
    """
    names = [heading.name.strip() for heading in answer.headings]
    _check_names(names, key, shown)
    coded = _coded(answer, shown)
    unusable = {name: column.unusable for name, column in zip(names, coded, strict=True)}
    for name in key:
        if unusable[name]:
            raise UserError(f"The key {name} is {unusable[name]}, which has no order here. Name another column.")
    found = {name: column.ranked() for name, column in zip(names, coded, strict=True) if not unusable[name]}
    ranks = [found[name][0] for name in (*key, *found)]
    order = np.lexsort(ranks[::-1]) if ranks else np.arange(0)
    unusable |= dict.fromkeys(key, KEY)
    return [_column(name, found.get(name), order, unusable[name]) for name in names]


def _column(name: str, found: tuple[Array, list[str]] | None, order: Array, unusable: str) -> Column:
    """A column of the sorted rows."""
    codes, texts = found or (np.zeros(0, np.int32), [])
    cells = list(map(texts.__getitem__, codes[order].tolist())) if found else []
    return Column(name, cells, range(1, len(order) + 1), "row", unusable)


def _coded(answer: Answer, shown: str) -> list[_Coded]:
    """All columns of an answer, read to its end, unless it needs too much memory."""
    coded, rows, limit = [_Coded(heading) for heading in answer.headings], 0, memory_limit()
    for piece in answer.pieces:
        rows += len(piece)
        for column, values in zip(coded, zip(*piece, strict=True), strict=True):
            if column.heading.write is not None:
                column.take(values)
        if sum(column.memory for column in coded) > limit:
            gigabytes = f"{limit / 1e9:g} GB"
            raise UserError(
                f"{shown}: the rows need over {gigabytes} of memory. Select fewer, or raise {VARIABLE}."
            )
    if not rows:
        raise UserError(f"{shown}: the query gives no rows. Check it.")
    return coded


def _check_names(names: list[str], key: Sequence[str], shown: str) -> None:
    """Refuse columns without names of their own, and a key that is none of them."""
    for name, count in Counter(names).items():
        if not name or name == "?column?" or count > 1:
            told = f"{count} columns {name!r}" if count > 1 else "a column without a name"
            raise UserError(f"{shown}: the query gives {told}. Give each a name of its own: select ... as name.")
    for name in key:
        if name not in names:
            raise unknown("key column", name, names)
