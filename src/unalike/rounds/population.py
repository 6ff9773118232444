"""Who could take part, and how many rows each of them trains on: all that a server knows of its parties."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from unalike.data.dataset import Array


class Population:
    """The training rows of each party. Those without a vote (``newcomers``) are never asked."""

    def __init__(self, rows: Sequence[int] | Array, newcomers: Sequence[int] = ()) -> None:
        self.rows: Array = np.array(rows)
        self.newcomers = tuple(sorted(newcomers))
        there = np.ones(len(self.rows), bool)
        there[list(self.newcomers)] = False
        self.members: Sequence[int] = np.flatnonzero(there).tolist() if newcomers else range(len(self.rows))
        self.member_rows: Array = self.rows[there]

    @property
    def size(self) -> int:
        """How many parties can be asked."""
        return len(self.members)

    def share(self, numbers: Sequence[int]) -> float:
        """The fraction of all training rows that these parties hold."""
        return float(self.rows[list(numbers)].sum() / self._all_rows)

    @cached_property
    def _all_rows(self) -> int:
        return int(self.member_rows.sum())

    @cached_property
    def most_rows(self) -> int:
        """The training rows of the party that has most."""
        return int(self.rows.max())
