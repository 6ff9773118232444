"""Rows and names of very many parties: a few arrays and a rule instead of a million small objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import overload

import numpy as np

from unalike.data.dataset import Array


class RowsByParty(Sequence[Array]):
    """Each party's rows as a slice of one array: the first ``sizes[0]`` of ``order`` are party 0's, and so on."""

    def __init__(self, order: Array, sizes: Array) -> None:
        if int(sizes.sum()) != len(order):
            raise ValueError(f"The sizes add up to {int(sizes.sum())}, but there are {len(order)} rows.")
        self.order, self.sizes = order, sizes
        self._ends = np.concatenate([[0], np.cumsum(sizes)])

    @classmethod
    def of(cls, rows: Iterable[Array]) -> RowsByParty:
        """The rows of each party, laid out one party after the other."""
        if isinstance(rows, RowsByParty):
            return rows
        each = list(rows)
        order = np.concatenate(each) if each else np.zeros(0, np.int64)
        return cls(order, np.array(list(map(len, each)), np.int64))

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, number: int) -> Array: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Array, ...]: ...
    def __getitem__(self, number: int | slice) -> Array | tuple[Array, ...]:
        """A party's rows, which are a view of ``order``."""
        if isinstance(number, slice):
            return tuple(self[k] for k in range(*number.indices(len(self))))
        place = range(len(self))[number]
        found: Array = self.order[self._ends[place] : self._ends[place + 1]]
        return found

    def __iter__(self) -> Iterator[Array]:
        ends = self._ends.tolist()
        return (self.order[first:last] for first, last in pairwise(ends))

    def among(self, rows: Array) -> RowsByParty:
        """The same parties where what is counted here are places in ``rows``."""
        return RowsByParty(rows[self.order], self.sizes)

    def counts(self, labels: Array, width: int) -> Array:
        """How many rows of each label each party has, [parties, labels]."""
        owner = np.repeat(np.arange(len(self)) * width, self.sizes)
        owner += labels[self.order]
        return np.bincount(owner, minlength=len(self) * width).reshape(len(self), width)


def sizes_of(rows: Sequence[Array]) -> Array:
    """How many rows each party has."""
    return rows.sizes if isinstance(rows, RowsByParty) else np.array(list(map(len, rows)), np.int64)


def all_rows(rows: Sequence[Array]) -> Array:
    """The rows of all parties, one party after the other."""
    return rows.order if isinstance(rows, RowsByParty) else np.concatenate(rows)


class NumberedNames(Sequence[str]):
    """``party 0``, ``party 1``, ...: names of parties that have none of their own, made when they are read."""

    def __init__(self, parties: int) -> None:
        self._numbers = range(parties)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[str, ...]: ...
    def __getitem__(self, number: int | slice) -> str | tuple[str, ...]:
        if isinstance(number, slice):
            return tuple(f"party {k}" for k in self._numbers[number])
        return f"party {self._numbers[number]}"

    def __eq__(self, other: object) -> bool:
        """They are names like any others: equal to a tuple of the same ones."""
        if isinstance(other, NumberedNames):
            return len(self) == len(other)
        return isinstance(other, tuple) and tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))
