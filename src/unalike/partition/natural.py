"""The partition that the data bring with them: hospitals, writers, octants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unalike.data.dataset import Array, Dataset, Holders
from unalike.errors import UserError
from unalike.partition.by_party import RowsByParty
from unalike.partition.groups import of_groups
from unalike.partition.partition import PARTITIONS, Partition, count_parties, register_partition


@register_partition("natural", paper="Li et al. 2022 (NIID-Bench), arXiv:2102.02079, section 4.2")
class Natural:
    """The data's own parties, such as hospitals or writers; fewer parties than those are made of whole ones.

    With fewer parties than natural ones, these are merged: in random order, each goes to the party with the
    fewest rows so far. So parties are of nearly equal size (they differ by at most the largest natural party),
    and none is ever split. ``minimum`` leaves out natural parties with fewer rows than it. Where sites brought
    columns of the same people, each is a party with these columns and all rows.
    """

    minimum: int = 0

    def __post_init__(self) -> None:
        if self.minimum < 0:
            raise UserError(f"natural's minimum must be >= 0, got {self.minimum}. Use 0 to keep all.")

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Give each row to its group's party; None parties are as many as there are groups."""
        if dataset.holders is not None:
            return self._of_holders(dataset, dataset.holders, parties)
        names, group = dataset.group_names, _groups(dataset)
        chosen = np.bincount(group, minlength=len(names)) >= self.minimum
        kept = tuple(name for name, stays in zip(names, chosen.tolist(), strict=True) if stays)
        if not kept:
            raise UserError(f"{dataset.name} has no natural party of {self.minimum} rows. Use a smaller minimum.")
        if parties is not None:
            count_parties(dataset, parties)
        if parties is not None and parties > len(kept):
            large = f" of at least {self.minimum} rows" if self.minimum else ""
            raise UserError(
                f"{dataset.name} has {len(kept)} natural parties{large}, got {parties}. "
                f"Use at most {len(kept)} or leave the number out."
            )
        rows = np.flatnonzero(chosen[group])
        number = (np.cumsum(chosen) - 1)[group[rows]]
        made = of_groups(PARTITIONS.describe(self), number, kept, parties or len(kept), rng)
        if len(rows) == dataset.size:
            return made
        return replace(made, rows=RowsByParty.of(made.rows).among(rows), leaves_rows=True)

    def _of_holders(self, dataset: Dataset, holders: Holders, parties: int | None) -> Partition:
        """Each site that brought columns is a party: it has these, and all common people."""
        sites = len(holders.names)
        if parties not in (None, sites) or self.minimum:
            raise UserError(
                f"{dataset.name} has the columns of {sites} sites, each a party with all rows. Leave the number "
                "of parties and the minimum out."
            )
        return Partition(
            PARTITIONS.describe(self),
            (np.arange(dataset.size),) * sites,
            holders.names,
            columns=holders.columns,
            label_holder=holders.label_holder,
            shares_rows=True,
        )


def _groups(dataset: Dataset) -> Array:
    """The group of each row, if the data have groups that fit."""
    group, names = dataset.group, dataset.group_names
    if group is None or not names:
        raise UserError(
            f"{dataset.name} has no natural parties. Use another partition, such as label-dirichlet(0.5)."
        )
    if len(group) != dataset.size or group.min() < 0 or group.max() >= len(names):
        raise UserError(
            f"{dataset.name} has {dataset.size} training rows and {len(names)} group names, but its "
            f"{len(group)} groups do not fit them. Give each row an index into group_names."
        )
    return group
