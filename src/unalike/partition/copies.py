"""Every row in several parties, evenly: what a distortion then shows to each in another way."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.partition.partition import (
    DEFAULT_PARTIES,
    PARTITIONS,
    Partition,
    number_parties,
    register_partition,
)


@register_partition("copies", paper="Ghosh et al. 2020, arXiv:2006.04088, section 6")
class Copies:
    """No skew by itself: all rows are dealt at random n times, each time to every n-th party.

    The k-th copy goes to the parties k, k + n, k + 2 n ..., whose sizes differ by at most one row; no party has a
    row twice. With ``+feature-shift(rotation, 90)`` and n = 4 it is the paper's rotated MNIST: every image is
    there in all four rotations, and parties whose numbers are the same modulo 4 see the same one.
    """

    any_number: ClassVar[bool] = True

    n: int = 2

    def __post_init__(self) -> None:
        if self.n < 1:
            raise UserError(f"copies' n must be >= 1, got {self.n}. Use 2; 1 is iid.")

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Deal all rows to every n-th party, n times."""
        number = DEFAULT_PARTIES if parties is None else parties
        if not self.n <= number <= self.n * dataset.size:
            raise UserError(
                f"copies({self.n}) of {dataset.size} rows make {self.n} to {self.n * dataset.size} parties, got "
                f"{number}. Use another --parties."
            )
        rows: list[Array] = [np.zeros(0, np.int64)] * number
        for copy in range(self.n):
            order = rng.permutation(dataset.size)
            mine = range(copy, number, self.n)
            for place, party in enumerate(mine):
                rows[party] = np.sort(order[place :: len(mine)])
        text = PARTITIONS.describe(self)
        return Partition(text, tuple(rows), number_parties(number), shares_rows=self.n > 1)
