"""Feature skew by octants: the split that NIID-Bench made the cube for."""

from __future__ import annotations

import numpy as np

from unalike.data.dataset import Dataset
from unalike.errors import UserError
from unalike.partition.columns import check_table
from unalike.partition.partition import PARTITIONS, Partition, register_partition

_NAMES = ("+++/---", "++-/--+", "+-+/-+-", "+--/-++")


@register_partition("fcube", paper="Li et al. 2022 (NIID-Bench), arXiv:2102.02079, section 4.2")
class Octants:
    """Feature skew: four parties, each with two octants of the first three features that mirror each other.

    On fcube these are its natural parties. On any other table of at least three columns the signs of the first
    three decide, after the data set's own shift and scale; zero counts as minus. There is nothing random: each
    seed gives the same rows.
    """

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Give each party two opposite octants, by the signs of the first three features."""
        check_table(dataset, "fcube")
        if parties not in (None, len(_NAMES)):
            raise UserError(f"fcube makes 4 parties, got {parties}. Use 4 or leave the number out.")
        if dataset.shape[0] < 3:
            raise UserError(
                f"fcube needs at least 3 columns, but {dataset.name} has {dataset.shape[0]}. Use by(column)."
            )
        first = dataset.x[:, :3]
        shift, scale = (np.broadcast_to(value, dataset.shape)[:3] for value in (dataset.shift, dataset.scale))
        upper = ((first.toarray() if dataset.is_sparse else first) - shift) / scale > 0
        mirrored = upper ^ ~upper[:, :1]  # the octant of the pair with x1 > 0
        owner = 2 * ~mirrored[:, 1] + 1 * ~mirrored[:, 2]
        empty = np.flatnonzero(np.bincount(owner, minlength=4) == 0)
        if len(empty):
            raise UserError(
                f"{dataset.name} has no rows in the octants {_NAMES[empty[0]]} of its first three columns. "
                f"Use another partition, such as by(column)."
            )
        return Partition.of_owners(PARTITIONS.describe(self), owner, _NAMES)
