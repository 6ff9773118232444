"""Attribute skew by correlation: what goes together is at one party, or spread over all."""

from __future__ import annotations

import numpy as np

from unalike.data.dataset import Dataset
from unalike.errors import UserError
from unalike.partition.column_correlation import split_search
from unalike.partition.partition import PARTITIONS, Partition, register_partition
from unalike.partition.vertical import check_holders, check_number, enough_attributes, split_columns


@register_partition("vertical-correlation", paper="Wu et al. 2023 (VertiBench), arXiv:2307.02040")
class VerticalCorrelation:
    """Attribute skew: from parties whose attributes go together among themselves (beta 0) to across parties (1).

    All n parties know all people and hold numbers of attributes that differ by at most one; the first has the
    labels. VertiBench's Icor is the mean over pairs of parties of Pcor(the other's, own) - Pcor(own, own), and
    Pcor the spread of the singular values of the block of Spearman's correlations. ``beta`` is where Icor
    lies between the lowest and the highest that was found by swapping attributes; VertiBench searches with a
    genetic algorithm.
    Which of the parties has the labels, and for beta between 0 and 1 the split, is up to the seed.
    """

    n: int
    beta: float

    def __post_init__(self) -> None:
        check_holders("vertical-correlation", self.n)
        if not 0 <= self.beta <= 1:
            raise UserError(f"vertical-correlation's beta must be from 0 to 1, got {self.beta}. Use 0.5.")

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Find the least and the most correlated split, and the one asked for between them."""
        recipe = PARTITIONS.describe(self)
        check_number(recipe, self.n, parties)
        attribute = enough_attributes(dataset, recipe, self.n)
        sizes = [len(part) for part in np.array_split(np.arange(int(attribute.max()) + 1), self.n)]
        search = split_search(dataset, attribute, sizes)
        return split_columns(recipe, dataset, search.nearest(self.beta, rng))
