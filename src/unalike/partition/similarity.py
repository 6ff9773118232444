"""Label skew by a percentage: some rows at random, the rest sorted by label."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unalike.data.dataset import Dataset
from unalike.data.split import grouped_order
from unalike.errors import UserError
from unalike.partition.partition import PARTITIONS, Partition, count_parties, number_parties, register_partition
from unalike.partition.sharing import even_sizes, random_order


@register_partition(
    "similarity",
    paper="Karimireddy et al. 2020 (SCAFFOLD), arXiv:1910.06378, section 7; "
    "Wang et al. 2023 (rFedAvg), section VI-A",
)
class Similarity:
    """Label skew: s percent of each party's rows are IID, the rest are cut from the rows sorted by label.

    ``similarity(100)`` is IID; ``similarity(0)`` is fully sorted: party 0 has the first labels, the last party the
    last. Parties are of equal size to within a row. Rows of one label are in random order.
    """

    any_number: ClassVar[bool] = True

    s: float

    def __post_init__(self) -> None:
        if not 0 <= self.s <= 100:
            raise UserError(f"similarity's s must be from 0 to 100 (percent), got {self.s}. Use 10.")

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Deal s percent of the rows at random, then the others in order of their label."""
        number = count_parties(dataset, parties)
        alike = round(dataset.size * self.s / 100)
        order = random_order(dataset.size, rng)
        dealt, rest = order[:alike], order[alike:]
        dealt_sizes = even_sizes(alike, number)
        rest_sizes = even_sizes(dataset.size, number) - dealt_sizes  # the first parties are larger in both: >= 0
        owner = np.empty(dataset.size, np.int64)
        owner[dealt] = np.repeat(np.arange(number), dealt_sizes)
        owner[rest[grouped_order(dataset.labels[rest], rng)]] = np.repeat(np.arange(number), rest_sizes)
        return Partition.of_owners(PARTITIONS.describe(self), owner, number_parties(number))
