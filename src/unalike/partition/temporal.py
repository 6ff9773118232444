"""Temporal skew: parties that saw different periods, or data that drift while the parties train."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.data.split import grouped_order
from unalike.errors import UserError
from unalike.partition.by_party import RowsByParty
from unalike.partition.columns import column_values
from unalike.partition.partition import PARTITIONS, Partition, count_parties, number_parties, register_partition
from unalike.partition.sharing import deal, even_sizes, random_order

_SPREAD = 0.25  # standard deviation of a row's time about its label's, all time being 1


@register_partition("temporal", paper="Zhu et al. 2021, arXiv:2106.06843, section 3.3")
class Temporal:
    """Temporal skew: each party has a period of its own, or all parties' data drift from season to season.

    ``kind="party"``: rows in order of time are cut into one period of equal length (to within a row) for each
    party, as in figure 8 of the survey. ``kind="drift"``: rows in order of time are cut into ``seasons`` equal
    periods, and each party gets a random and even share of each period; training moves on to the next
    season after each ``every`` rounds and stays in the last. ``seasons`` and ``every`` do nothing for ``party``.

    ``by`` says what time is: the name or index of a column (rows of the same time are in random order), ``row``
    for the order of the rows in the data set, or ``label`` for data without time. Then the label distribution is
    made to drift: labels are put in random order at equal distances along time, and a row is seen at the
    time of its label plus a normal deviate of a quarter of all time.
    """

    any_number: ClassVar[bool] = True

    kind: Literal["party", "drift"] = "party"
    seasons: int = 4
    by: str = "label"
    every: int = 10

    def __post_init__(self) -> None:
        if self.seasons < 2:
            raise UserError(f"temporal's seasons must be >= 2, got {self.seasons}. Use 4.")
        if self.every < 1:
            raise UserError(f"temporal's every must be >= 1 round, got {self.every}. Use 10.")

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Put the rows in order of time and cut them into periods."""
        number = count_parties(dataset, parties)
        recipe, names = PARTITIONS.describe(self), number_parties(number)
        order = self._order(dataset, rng)
        if self.kind == "party":
            return Partition.of_owners(recipe, deal(order, even_sizes(dataset.size, number)), names)
        if number * self.seasons > dataset.size:
            raise UserError(
                f"{number} parties in {self.seasons} seasons need {number * self.seasons} rows, but "
                f"{dataset.name} has {dataset.size}. Use fewer parties or seasons."
            )
        season = deal(order, even_sizes(dataset.size, self.seasons))
        owner = np.empty(dataset.size, np.int64)
        # In turn through all seasons, in random order within each: an even share of each season for each party.
        owner[grouped_order(season, rng)] = np.arange(dataset.size) % number
        made = Partition.of_owners(recipe, owner, names)
        return replace(made, seasons=RowsByParty.of(made.rows).among(season), rounds_per_season=self.every)

    def _order(self, dataset: Dataset, rng: np.random.Generator) -> Array:
        """The rows in order of time."""
        if self.by == "row":
            return np.arange(dataset.size)
        if self.by == "label":
            labels = len(dataset.label_names)
            place = (random_order(labels, rng) + 0.5) / labels
            time = place[dataset.labels] + _SPREAD * rng.standard_normal(dataset.size)
            return np.argsort(time, kind="stable")
        return np.lexsort((rng.random(dataset.size), column_values(dataset, self.by, "temporal")))
