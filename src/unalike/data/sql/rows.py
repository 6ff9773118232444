"""The rows of an answer as columns of a table, in an order of their own: a database gives them in any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np

from unalike.data.columns import KEY, MISSING, Column
from unalike.data.dataset import Array
from unalike.data.distinct import in_order
from unalike.data.numerals import number
from unalike.data.parquet import VARIABLE, memory_limit
from unalike.data.sql.answer import Answer, Heading, as_it_is
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

    @cached_property
    def codes(self) -> Array:
        """For every row, the place of its text in ``texts``."""
        return np.concatenate(self.pieces)

    @cached_property
    def texts(self) -> list[str]:
        """The texts that were read, each written in the one way of its type; two of them may be alike then."""
        write = self.heading.write or as_it_is
        return ["" if value is None else write(str(value)) for value in self.known]

    def ranks(self) -> tuple[Array, int]:
        """For every row, the place of its text in the order of all different ones, and how many these are."""
        place = {text: rank for rank, text in enumerate(_ordered(set(self.texts)))}
        return np.array([place[text] for text in self.texts])[self.codes], len(place)


def _ordered(texts: set[str]) -> list[str]:
    """The texts, first those that mean a gap; numbers by their size where all the others are, else as texts."""
    gaps = sorted(text for text in texts if text.strip().lower() in MISSING)
    sizes = {text: number(text) for text in sorted(texts.difference(gaps))}
    return [*gaps, *(sizes if None in sizes.values() else sorted(sizes, key=lambda text: sizes[text] or 0.0))]


def read_rows(answer: Answer, key: Sequence[str], shown: str) -> list[Column]:
    """The columns of an answer, its rows sorted by ``key``, and then by all columns from the left.

    The columns of the key are there to be looked at, and are not used otherwise.
    """
    names = [heading.name.strip() for heading in answer.headings]
    _check_names(names, key, shown)
    found = dict(zip(names, _coded(answer, shown), strict=True))
    unusable = {name: column.unusable for name, column in found.items()}
    for name in key:
        if unusable[name]:
            raise UserError(f"The key {name} is {unusable[name]}, which has no order here. Name another column.")
    order = _order([found[name] for name in (*key, *names) if not unusable[name]])
    unusable |= dict.fromkeys(key, KEY)
    return [_column(name, column, order, unusable[name]) for name, column in found.items()]


def _order(columns: Sequence[_Coded]) -> Array:
    """The rows in their order: by the first column, of equals by the second, and so on while there are equals."""
    if not columns:
        return np.arange(0)
    group, groups = np.zeros(len(columns[0].codes), np.int64), 1
    for column in columns:
        if groups < len(group):
            ranks, count = column.ranks()
            different, group = np.unique(group * count + ranks, return_inverse=True)
            groups = len(different)
    return np.argsort(group, kind="stable")


def _column(name: str, found: _Coded, order: Array, unusable: str) -> Column:
    """A column of the sorted rows."""
    read = unusable in ("", KEY)
    codes, texts = in_order(
        found.codes[order] if read else np.zeros(len(order), int), found.texts if read else [""]
    )
    return Column(name, codes, texts, range(1, len(order) + 1), "row", unusable)


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
