"""Feature skew by one column: a party for each category or range of values."""

from __future__ import annotations

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.partition.columns import categories, category_columns, check_table, column_values
from unalike.partition.groups import of_groups
from unalike.partition.partition import (
    DEFAULT_PARTIES,
    PARTITIONS,
    Partition,
    count_parties,
    number_parties,
    register_partition,
)


@register_partition("by", paper="Zhu et al. 2021, arXiv:2106.06843, section 3.1.3")
class By:
    """Feature skew: parties differ in one column of a table, by its categories or by ranges of its values.

    ``column`` is a name, an index in quotes ("3"), or the prefix of a category coded in several columns
    (``thal`` for ``thal_3``, ``thal_6``, ``thal_7``). A category makes one party for each of its values; fewer
    parties are made of whole categories, merged as by natural. A column of numbers makes one party for
    each value, or else ranges with nearly equally many rows: rows with the same value always stay together, and
    each party has at least one value. Without a number of parties there is one for each value, at most 10 for
    a column of numbers. Only merging is random: otherwise each seed gives the same rows.
    """

    column: str

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Split by categories or by ranges."""
        check_table(dataset, "by")
        if parties is not None:
            count_parties(dataset, parties)
        recipe = PARTITIONS.describe(self)
        places = [] if self.column in dataset.features else category_columns(dataset, self.column)
        if places:
            group, names = categories(dataset, self.column, places)
            number = parties or len(names)
            self._check(dataset, number, len(names))
            return of_groups(recipe, group, names, number, rng)
        values, place, counts = np.unique(
            column_values(dataset, self.column, "by"), return_inverse=True, return_counts=True
        )
        number = parties or min(len(values), DEFAULT_PARTIES)
        self._check(dataset, number, len(values))
        cuts = cut_evenly(counts, number)
        title = self.column if self.column in dataset.features else f"column {self.column}"
        names = tuple(_name(title, part) for part in np.split(values, cuts))
        if len(set(names)) < number:  # ranges that look alike when rounded
            names = tuple(number_parties(number))
        return Partition.of_owners(recipe, np.searchsorted(cuts, place.reshape(-1), side="right"), names)

    def _check(self, dataset: Dataset, parties: int, values: int) -> None:
        if parties > values:
            raise UserError(
                f"{self.column} of {dataset.name} has {values} value(s), got {parties} parties. "
                f"Use at most {values}."
            )


def _name(column: str, values: Array) -> str:
    return f"{column} {values[0]:g}" + (f" to {values[-1]:g}" if len(values) > 1 else "")


def cut_evenly(counts: Array, parts: int) -> Array:
    """Where to cut a row of ``counts`` so that parts have nearly equal sums, and none is without a count."""
    number = np.arange(1, parts)
    ends = np.cumsum(counts)
    goals = ends[-1] * number / parts
    after = np.searchsorted(ends, goals)
    before = np.where(after > 0, ends[after - 1], 0)
    cuts = after + (ends[after] - goals <= goals - before)  # whichever end is nearer
    cuts = np.maximum.accumulate(np.maximum(cuts, 1) - number) + number
    # The parts after a cut need a count each, too.
    fitted: Array = np.minimum(cuts, len(counts) - parts + number)
    return fitted
