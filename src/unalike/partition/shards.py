"""Label skew by shards of the sorted rows: the split of the paper that introduced FedAvg."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unalike.data.dataset import Dataset
from unalike.data.split import grouped_order
from unalike.errors import UserError
from unalike.partition.partition import PARTITIONS, Partition, count_parties, number_parties, register_partition
from unalike.partition.sharing import deal, even_sizes, random_order


@register_partition("shards", paper="McMahan et al. 2017, arXiv:1602.05629, section 3")
class Shards:
    """Label skew: rows sorted by label are cut into equal shards, and each party gets n of them at random.

    McMahan et al., section 3: 200 shards of 300 rows of MNIST, 2 for each of 100 clients, most of which then
    have two labels only. Shards differ by at most one row. Rows of one label are in random order.
    """

    any_number: ClassVar[bool] = True

    n: int = 2

    def __post_init__(self) -> None:
        if self.n < 1:
            raise UserError(f"shards' n must be >= 1, got {self.n}. Use 2.")

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Sort, cut, and give ``n`` shards to each party."""
        number = count_parties(dataset, parties)
        shards = number * self.n
        if shards > dataset.size:
            raise UserError(
                f"{number} parties of {self.n} shards need {shards} rows, but {dataset.name} has {dataset.size}. "
                f"Use shards({dataset.size // number}) or fewer parties."
            )
        shard = deal(grouped_order(dataset.labels, rng), even_sizes(dataset.size, shards))
        owner = random_order(shards, rng)[shard] // self.n
        return Partition.of_owners(PARTITIONS.describe(self), owner, number_parties(number))
