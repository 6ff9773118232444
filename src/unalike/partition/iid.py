"""The partition without skew, against which the others are compared."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unalike.data.dataset import Dataset
from unalike.partition.partition import PARTITIONS, Partition, count_parties, number_parties, register_partition


@register_partition("iid", paper="McMahan et al. 2017, arXiv:1602.05629, section 3")
class Iid:
    """No skew: rows are dealt at random; party sizes differ by at most one row."""

    any_number: ClassVar[bool] = True

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Shuffle the rows and deal them out in turn."""
        number = count_parties(dataset, parties)
        owner = np.empty(dataset.size, np.int64)
        owner[np.argsort(rng.random(len(owner)), kind="stable")] = np.arange(len(owner)) % number
        return Partition.of_owners(PARTITIONS.describe(self), owner, number_parties(number))
