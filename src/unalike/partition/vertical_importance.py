"""Attribute skew by importance: some parties hold what tells the label, others hold little of it."""

from __future__ import annotations

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.partition.column_importance import importances
from unalike.partition.partition import PARTITIONS, Partition, register_partition
from unalike.partition.vertical import check_holders, check_number, enough_attributes, split_columns


@register_partition("vertical-importance", paper="Wu et al. 2023 (VertiBench), arXiv:2307.02040")
class VerticalImportance:
    """Attribute skew: parties' shares of the attributes' importance are Dirichlet(alpha); small alpha is uneven.

    All n parties know all people; the first has the labels. Shares are drawn from a symmetric Dirichlet
    distribution, as in VertiBench. Attributes are then dealt from the most important to the least, each to the
    party that is furthest below its share, so that parties come as near to their shares as whole attributes allow;
    VertiBench deals each attribute by chance with these shares. Attributes that tell nothing are dealt by chance
    here, too. Each party has at least one attribute. Importance is the mutual information of an attribute with the
    label (``unalike measure`` shows it), where VertiBench takes Shapley values of a model.
    """

    n: int
    alpha: float

    def __post_init__(self) -> None:
        check_holders("vertical-importance", self.n)
        if not 0 < self.alpha <= 1e6:
            raise UserError(
                f"vertical-importance's alpha must be above 0 and at most 1e6, got {self.alpha}. Use 1.0."
            )

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Draw the shares, then deal the attributes by them."""
        recipe = PARTITIONS.describe(self)
        check_number(recipe, self.n, parties)
        attribute = enough_attributes(dataset, recipe, self.n)
        shares = dirichlet(rng, self.n, self.alpha)
        owner = deal(importances(dataset, attribute), shares, rng)
        columns = tuple(np.flatnonzero(np.isin(attribute, np.flatnonzero(owner == k))) for k in range(self.n))
        return split_columns(recipe, dataset, columns)


def dirichlet(rng: np.random.Generator, parties: int, alpha: float) -> Array:
    """Shares that sum to 1; all of it one party's where alpha is so small that every gamma number is 0."""
    drawn = rng.dirichlet(np.full(parties, alpha))
    if np.isfinite(drawn).all():
        return drawn
    alone = np.zeros(parties)
    alone[rng.integers(parties)] = 1.0
    return alone


def deal(importance: Array, shares: Array, rng: np.random.Generator) -> Array:
    """The party of each attribute: their importances sum to about each party's share, and nobody is without one.

    The number of attributes is at least that of parties.
    """
    number, parties = len(importance), len(shares)
    order = np.argsort(-importance, kind="stable")
    owner = np.full(number, -1)
    missing = np.array(shares, np.float64)
    for place, one in enumerate(order):
        without = np.flatnonzero(np.bincount(owner[owner >= 0], minlength=parties) == 0)
        may = np.arange(parties) if number - place > len(without) else without
        tells = importance[one] > 0
        chosen = may[missing[may].argmax()] if tells else rng.choice(may, p=_shares_of(shares[may]))
        owner[one] = chosen
        missing[chosen] -= importance[one]
    return owner


def _shares_of(shares: Array) -> Array:
    whole = shares.sum()
    return shares / whole if whole > 0 else np.full(len(shares), 1 / len(shares))
