"""The different texts of a column: numbered as they come, and kept in the order of their first rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unalike.data.dataset import Array


class Distinct(dict[str, int]):
    """The different texts of a column that is being read, numbered in the order in which they come."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number

    def codes(self, cells: Sequence[str]) -> NDArray[np.int32]:
        """The number of every text."""
        return np.fromiter(map(self.__getitem__, cells), np.int32, len(cells))


def in_order(codes: Array, texts: Sequence[str]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """The same with just the texts that occur, each once, in the order of their first rows."""
    known = Distinct()
    same = known.codes(texts)[codes]  # two of them may be alike
    first = np.full(len(known), len(same))
    first[same[::-1]] = np.arange(len(same))[::-1]  # what is written last stays: the first row
    order = np.argsort(first, kind="stable")[: int((first < len(same)).sum())]
    place = np.zeros(len(known), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    names = list(known)
    return place[same], tuple(names[one] for one in order.tolist())


@dataclass(frozen=True)
class ChosenPlaces(Sequence[int]):
    """The numbers in the file of some rows of a column."""

    places: Sequence[int]
    rows: Array

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: Any) -> Any:
        return self.places[int(self.rows[row])]
