"""The partition that the data bring with them: hospitals, writers, octants."""

from __future__ import annotations

import numpy as np

from unalike.data.dataset import Dataset
from unalike.errors import UserError
from unalike.partition.partition import PARTITIONS, Partition, register_partition


@register_partition("natural")
class Natural:
    """The data's own parties, such as hospitals; there is one party for each."""

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Give every row to its own group; ``parties`` must be None or the number of groups."""
        names = dataset.group_names
        if dataset.group is None or not names:
            raise UserError(
                f"{dataset.name} has no natural parties. Use another partition, such as label-dirichlet(0.5)."
            )
        if parties is not None and parties != len(names):
            raise UserError(
                f"{dataset.name} has {len(names)} natural parties, got {parties}. "
                f"Use {len(names)} or leave the number out."
            )
        if len(dataset.group) != dataset.size or dataset.group.min() < 0 or dataset.group.max() >= len(names):
            raise UserError(
                f"{dataset.name} has {dataset.size} training rows and {len(names)} group names, but its "
                f"{len(dataset.group)} groups do not fit them. Give each row an index into group_names."
            )
        return Partition.of_owners(PARTITIONS.describe(self), dataset.group, names)
