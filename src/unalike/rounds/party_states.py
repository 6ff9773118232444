"""What very many parties keep from round to round: packed rows, in versions that never change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, groupby
from operator import is_not
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unalike.algorithms.contract import Vectors
from unalike.rounds.row_file import RowFile, StoredRow

FEW = 256
"""States of so many parties are a dictionary, which is copied every round; those of more are packed."""
IN_MEMORY = 2**30
"""Bytes of packed rows that stay in memory; those that come later go to a temporary file."""
_PAGE = 64


class Column(NamedTuple):
    """One tensor of a row: what it is, and which bytes of the row it takes."""

    key: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    first: int
    last: int

    def of(self, row: Row) -> bytes:
        """The tensor's bytes in a row."""
        return row_bytes(row)[self.first : self.last]


@dataclass(frozen=True)
class RowLayout:
    """Which tensors a row is made of, and the device that they live on. Rows of one layout are of one length."""

    columns: tuple[Column, ...]
    device: torch.device

    @classmethod
    def of(cls, vectors: Vectors) -> RowLayout:
        """The layout of these tensors, in their order."""
        columns, first, device = [], 0, torch.device("cpu")
        for key, value in vectors.items():
            last = first + value.nbytes
            columns.append(Column(key, value.dtype, tuple(value.shape), first, last))
            first, device = last, value.device
        return cls(tuple(columns), device)

    def unpack(self, row: bytes) -> Vectors:
        """The tensors of a row, in memory of their own that is aligned as torch aligns it: bits depend on that."""
        data, found = np.frombuffer(row, np.uint8), {}
        for column in self.columns:
            value = torch.empty(column.shape, dtype=column.dtype)
            if column.last > column.first:
                value.reshape(-1).view(torch.uint8).numpy()[:] = data[column.first : column.last]
            found[column.key] = value.to(self.device)
        return found

    @cached_property
    def text(self) -> str:
        """The layout in words, for digests."""
        return " ".join(f"{column.key} {column.dtype} {column.shape}" for column in self.columns)


def packed(vectors: Vectors) -> bytes:
    """The bytes of these tensors, one after the other."""
    parts = (value.detach().cpu().contiguous().reshape(-1) for value in vectors.values())
    return b"".join(part.view(torch.uint8).numpy().tobytes() for part in parts if part.numel())


class Table(NamedTuple):
    """Rows of one layout: whose they are, and their tensors, [rows, ...] each."""

    numbers: Tensor
    columns: Vectors


Row = bytes | StoredRow
Page = tuple[tuple[RowLayout | None, ...], tuple[Row | None, ...]]
_NOTHING: Page = ((None,) * _PAGE, (None,) * _PAGE)


class PartyStates(Mapping[int, Vectors]):
    """The states of parties by number. ``put`` gives a new version, which shares with this one all that it can.

    So a round that fails has changed nothing, the state of the selected round costs what has changed since, and a
    round costs what its cohort keeps, however many parties there are.
    """

    def __init__(self, states: Mapping[int, Vectors] | None = None) -> None:
        self._pages: dict[int, Page] = {}
        self._count = self._bytes = 0
        self._layouts: dict[RowLayout, RowLayout] = {}
        self._file: RowFile | None = None
        if states:
            made = self.put(states)
            self.__dict__.update(made.__dict__)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self._row(number)[1] is not None

    def __iter__(self) -> Iterator[int]:
        for page in sorted(self._pages):
            rows = self._pages[page][1]
            yield from (page * _PAGE + place for place, row in enumerate(rows) if row is not None)

    def __getitem__(self, number: int) -> Vectors:
        layout, row = self._row(number)
        if layout is None or row is None:
            raise KeyError(number)
        return layout.unpack(row_bytes(row))

    def _row(self, number: int) -> tuple[RowLayout | None, Row | None]:
        layouts, rows = self._pages.get(number // _PAGE, _NOTHING)
        return layouts[number % _PAGE], rows[number % _PAGE]

    def put(self, states: Mapping[int, Vectors]) -> PartyStates:
        """The next version, in which these parties keep that, and all others what they kept."""
        given = {number: (RowLayout.of(vectors), packed(vectors)) for number, vectors in states.items()}
        return self._put(given)

    def put_tables(self, tables: Iterable[Table], device: torch.device, like: PartyStates) -> PartyStates:
        """The same from tables; a row that another version has as well is shared with it."""
        given: dict[int, tuple[RowLayout, Row]] = {}
        for table in tables:
            flat = {k: v.contiguous().reshape(len(v), v[0].numel()) for k, v in table.columns.items()}
            first = {key: value[0] for key, value in table.columns.items()}
            layout = RowLayout(RowLayout.of(first).columns, device)
            parts = [value.view(torch.uint8).numpy() for value in flat.values() if value.numel()]
            for place, number in enumerate(table.numbers.tolist()):
                row = b"".join(part[place].tobytes() for part in parts)
                known = like._row(number)
                same = known[0] == layout and known[1] is not None and row_bytes(known[1]) == row
                given[number] = layout, known[1] if same and known[1] is not None else row
        return self._put(given)

    def _put(self, given: Mapping[int, tuple[RowLayout, Row]]) -> PartyStates:
        after = PartyStates()
        after._pages, after._layouts, after._file = dict(self._pages), self._layouts, self._file
        after._count, after._bytes = self._count, self._bytes
        for page, numbers in groupby(sorted(given), key=lambda number: number // _PAGE):
            old = self._pages.get(page, _NOTHING)
            layouts, rows = list(old[0]), list(old[1])
            for number in numbers:
                layout, row = given[number]
                before, place = rows[number % _PAGE], number % _PAGE
                after._count += before is None
                after._bytes += len(row) - (0 if before is None else len(before))
                layouts[place], rows[place] = self._layouts.setdefault(layout, layout), after._placed(row)
            after._pages[page] = tuple(layouts), tuple(rows)
        return after

    def _placed(self, row: Row) -> Row:
        """The row where it is to be: in memory, or beyond the budget in a file."""
        if self._bytes <= IN_MEMORY or isinstance(row, StoredRow):
            return row
        self._file = self._file or RowFile()
        return self._file.write(row)

    @property
    def nbytes(self) -> int:
        """The bytes of all rows."""
        return self._bytes

    def changed_since(self, before: PartyStates) -> list[int]:
        """The parties whose rows are others than in another version, those that have none now included."""
        pages = [page for page, own in self._pages.items() if before._pages.get(page) is not own]
        pages += [page for page in before._pages if page not in self._pages]
        found: list[int] = []
        for page in sorted(pages):
            (_, now), (_, then) = self._pages.get(page, _NOTHING), before._pages.get(page, _NOTHING)
            found += compress(range(page * _PAGE, (page + 1) * _PAGE), map(is_not, now, then))
        return found

    def tables(self, numbers: Iterable[int]) -> Iterator[Table]:
        """The rows of these parties, those of one layout together."""
        whose: dict[RowLayout, list[int]] = {}
        for number in numbers:
            layout = self._row(number)[0]
            assert layout is not None
            whose.setdefault(layout, []).append(number)
        for layout, mine in whose.items():
            rows = [row_bytes(row) for number in mine if (row := self._row(number)[1]) is not None]
            columns: Vectors = {}
            for column in layout.columns:
                data = bytearray(b"".join(row[column.first : column.last] for row in rows))
                shape = (len(rows), *column.shape)
                empty = torch.zeros(shape, dtype=column.dtype)
                columns[column.key] = torch.frombuffer(data, dtype=column.dtype).reshape(shape) if data else empty
            yield Table(torch.tensor(mine), columns)

    def digest_of(self, numbers: Iterable[int]) -> int:
        """A sum of hashes, one for each of these parties and what it keeps; a party that keeps nothing has none.

        So that of a version is that of the one before, less what these parties kept, plus what they keep now.
        """
        total = 0
        for number in numbers:
            layout, row = self._row(number)
            if layout is not None and row is not None:
                sha = hashlib.sha256(f"{number} {layout.text} ".encode())
                sha.update(row_bytes(row))
                total += int.from_bytes(sha.digest(), "big")
        return total

    def named(self, prefix: str) -> Iterator[tuple[str, Column, Row]]:
        """Every tensor by its name in a state: where its bytes are, without reading them."""
        for number in self:
            layout, row = self._row(number)
            assert layout is not None
            assert row is not None
            for column in layout.columns:
                name = f"{prefix}/{number}/{column.key}" if column.key else f"{prefix}/{number}"
                yield name, column, row


class PartyTensors(Mapping[int, Tensor]):
    """One tensor of each party, such as its running statistics: states that have no keys."""

    def __init__(self, states: PartyStates) -> None:
        self.states = states

    def __len__(self) -> int:
        return len(self.states)

    def __contains__(self, number: object) -> bool:
        return number in self.states

    def __iter__(self) -> Iterator[int]:
        return iter(self.states)

    def __getitem__(self, number: int) -> Tensor:
        return self.states[number][""]


def row_bytes(row: Row) -> bytes:
    """The bytes of a row, wherever they are."""
    return row.read() if isinstance(row, StoredRow) else row


def with_states(before: Mapping[int, Vectors], new: Mapping[int, Vectors]) -> Mapping[int, Vectors]:
    """What parties keep after a round in which these kept something new."""
    if not isinstance(before, PartyStates) and len(before.keys() | new.keys()) <= FEW:
        return {**before, **new}
    return (before if isinstance(before, PartyStates) else PartyStates(before)).put(new) if new else before


def with_tensors(before: Mapping[int, Tensor], new: Mapping[int, Tensor]) -> Mapping[int, Tensor]:
    """The same of one tensor for each party."""
    if not isinstance(before, PartyTensors) and len(before.keys() | new.keys()) <= FEW:
        return {**before, **new}
    if not isinstance(before, PartyTensors):
        before = PartyTensors(PartyStates({number: {"": value} for number, value in before.items()}))
    return PartyTensors(before.states.put({number: {"": value} for number, value in new.items()}))
