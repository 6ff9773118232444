"""Quantity skew: parties differ in how many rows they have, not in what kind.

Alone, a rule here shares out all rows. After another split, which says what rows a party could have, it says how
many of them the party keeps: a share in proportion to its weight, all of them where that is the largest.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.partition.by_party import RowsByParty
from unalike.partition.partition import PARTITIONS, Partition, count_parties, number_parties, register_partition
from unalike.partition.sharing import (
    apportion,
    check_beta,
    check_minimum,
    deal,
    draw_dirichlet,
    raise_to,
    random_order,
)


@register_partition("quantity-dirichlet", paper="Li et al. 2022 (NIID-Bench), arXiv:2102.02079, section 4.3")
class QuantityDirichlet:
    """Quantity skew: party sizes are q ~ Dir_N(beta) of all rows, which are dealt at random.

    NIID-Bench's public code draws again until each party has 10 rows, which need not end. Here sizes are drawn
    once, and a party below ``minimum`` rows is raised to it at the cost of the largest. Where there are
    fewer than ``minimum`` rows for each party, it is lowered to ``rows // parties``.

    After another split, as in ``label-dirichlet(0.1)+quantity-dirichlet(0.5)``, party k keeps a share
    q_k / max q of its rows, drawn at random, but ``minimum`` of them at least, or all that it has. So parties
    of equal sizes become sizes in proportion to q, and the mix of labels stays what it was, in expectation.
    """

    any_number: ClassVar[bool] = True

    beta: float
    minimum: int = 10

    def __post_init__(self) -> None:
        check_beta("quantity-dirichlet", self.beta)
        check_minimum("quantity-dirichlet", self.minimum)

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Draw the sizes, then deal the rows at random."""
        weights = self._weights(count_parties(dataset, parties), rng)
        return _by_weight(PARTITIONS.describe(self), dataset, weights, self.minimum, rng)

    def thin(self, partition: Partition, rng: np.random.Generator) -> Partition:
        """Draw the weights, then keep that share of each party's rows, chosen at random."""
        return _thinned(partition, self._weights(partition.parties, rng), self.minimum, rng)

    def _weights(self, number: int, rng: np.random.Generator) -> Array:
        weights: Array = draw_dirichlet(self.beta, (1, number), rng)[0]
        return weights


@register_partition("quantity-power", paper="Li et al. 2020 (FedProx), arXiv:1812.06127, section 5.1")
class QuantityPower:
    """Quantity skew: party sizes follow a power law, rank^(-exponent), and rows are dealt at random.

    FedProx says that its devices' sizes follow a power law, without giving one. Here it is that of Zipf: the party
    of rank r has a size in proportion to r^(-exponent); which party has which rank is random. ``exponent=0``
    makes all sizes equal. A party below ``minimum`` rows is raised to it as by quantity-dirichlet.
    """

    any_number: ClassVar[bool] = True

    exponent: float = 1.0
    minimum: int = 10

    def __post_init__(self) -> None:
        if not (self.exponent >= 0 and math.isfinite(self.exponent)):
            raise UserError(f"quantity-power's exponent must be >= 0, got {self.exponent}. Use 1.")
        check_minimum("quantity-power", self.minimum)

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Give each party a rank, then deal the rows at random."""
        weights = self._weights(count_parties(dataset, parties), rng)
        return _by_weight(PARTITIONS.describe(self), dataset, weights, self.minimum, rng)

    def thin(self, partition: Partition, rng: np.random.Generator) -> Partition:
        """Give each party a rank, then keep that share of its rows, chosen at random."""
        return _thinned(partition, self._weights(partition.parties, rng), self.minimum, rng)

    def _weights(self, number: int, rng: np.random.Generator) -> Array:
        weights: Array = np.exp(-self.exponent * np.log1p(random_order(number, rng)))
        return weights


def _by_weight(recipe: str, dataset: Dataset, weights: Array, minimum: int, rng: np.random.Generator) -> Partition:
    """Random rows for each party, their number in proportion to its weight."""
    number = len(weights)
    sizes = raise_to(apportion(weights, dataset.size), min(minimum, dataset.size // number))
    return Partition.of_owners(recipe, deal(random_order(dataset.size, rng), sizes), number_parties(number))


def _thinned(partition: Partition, weights: Array, minimum: int, rng: np.random.Generator) -> Partition:
    """A random part of each party's rows, in proportion to its weight; the party with the largest keeps all."""
    if partition.columns is not None:
        raise UserError(f"All parties of {partition.recipe} have the same rows. Leave sizes out.")
    shares, kept = weights / weights.max(), []
    for share, rows in zip(shares, partition.rows, strict=True):
        size = max(round(share * len(rows)), min(minimum, len(rows)))
        kept.append(np.sort(random_order(len(rows), rng)[:size]))
    seasons = partition.seasons
    return replace(
        partition,
        rows=RowsByParty.of(rows[own] for rows, own in zip(partition.rows, kept, strict=True)),
        seasons=seasons and tuple(season[own] for season, own in zip(seasons, kept, strict=True)),
        leaves_rows=True,
    )
