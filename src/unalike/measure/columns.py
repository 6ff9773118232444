"""How unlike parties are that know the same people by other columns: seen in the open, so only in a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.partition import Partition, columns_of, common_rows
from unalike.partition.column_correlation import MOST_COLUMNS, icor, spearman, split_search
from unalike.partition.column_importance import importances, sampled_rows
from unalike.partition.vertical import attributes_of


@dataclass(frozen=True, eq=False)
class ColumnSkew:
    """Who has which columns, what they tell, and how they go together.

    columns, attributes: how many each party has; an attribute may be several columns. shared: how many attributes
    several parties have, and overlap, which part of all that is. known: how many training people each party knows,
    and common, how many all parties know. importance: each party's share of what the attributes tell about the
    label (mutual information); what is shared counts at each. alpha: the Dirichlet distribution that such shares
    point to, by VertiBench's estimator; infinite for even shares. icor: VertiBench's Icor, and beta, where that
    lies between the least and the most that was found for parties of this many attributes. disagree: the share of
    the values of shared attributes that differ from the label holder's, over the other parties.
    """

    columns: tuple[int, ...]
    attributes: tuple[int, ...]
    shared: int
    overlap: float
    known: tuple[int, ...]
    common: int
    importance: Array
    alpha: float
    icor: float | None
    beta: float | None
    disagree: float

    def to_dict(self) -> dict[str, Any]:
        """All figures ready for JSON; an infinite alpha is None."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        lists = {"importance": self.importance.tolist()}
        lists |= {name: list(plain[name]) for name in ("columns", "attributes", "known")}
        return plain | lists | {"alpha": self.alpha if np.isfinite(self.alpha) else None}


def column_skew(dataset: Dataset, partition: Partition, *, search: bool = True) -> ColumnSkew:
    """Measure a partition of columns; without ``search`` not how Icor compares with other splits (beta).

    Of more than ``MOST_COLUMNS`` columns there is no Icor, and where parties share attributes no beta.
    """
    if partition.columns is None:
        raise UserError(f"{partition.recipe} splits rows, not columns. Use unalike.measure, or vertical(2).")
    attribute = attributes_of(dataset)
    held = np.stack([np.bincount(attribute[own], minlength=attribute.max() + 1) > 0 for own in partition.columns])
    shared = held.sum(axis=0) > 1
    told = held @ importances(dataset, attribute)
    correlation = spearman(dataset) if len(attribute) <= MOST_COLUMNS else None
    found = None if correlation is None else icor(correlation, partition.columns)
    beta = None
    if search and found is not None and not shared.any():
        beta = split_search(dataset, attribute, held.sum(axis=1).tolist()).scaled(found)
    return ColumnSkew(
        columns=tuple(map(len, partition.columns)),
        attributes=tuple(held.sum(axis=1).tolist()),
        shared=int(shared.sum()),
        overlap=float(shared.mean()),
        known=tuple(map(len, partition.rows)),
        common=len(common_rows(partition)),
        importance=told / told.sum(),
        alpha=alpha_of(told / told.sum()),
        icor=found,
        beta=beta,
        disagree=_disagreeing(dataset, partition, attribute, np.flatnonzero(shared)),
    )


def alpha_of(shares: Array) -> float:
    """The alpha of the symmetric Dirichlet distribution that shares of P parties point to.

    Their variance v around 1/P is (P - 1) / (P^2 (P alpha + 1)) on average, so that VertiBench takes
    alpha = (P - 1 - P^2 v) / (P^3 v). 0 where one party has everything, infinite where all have the same.
    """
    parties, variance = len(shares), float(np.var(shares))
    if variance < 1e-18:
        return float("inf")
    return max((parties - 1 - parties**2 * variance) / (parties**3 * variance), 0.0)


def alpha_words(alpha: float) -> str:
    """An estimated alpha as people read it: above 100 shares are as good as even."""
    return "above 100" if alpha > 100 else f"about {alpha:.2g}"


def _disagreeing(dataset: Dataset, partition: Partition, attribute: Array, shared: Array) -> float:
    """How often the other parties' values of shared attributes are not the label holder's."""
    if partition.disagreement is None or not len(shared):
        return 0.0
    assert partition.columns is not None
    rows = np.intersect1d(sampled_rows(dataset), common_rows(partition))
    blocks = [columns_of(dataset, partition, party, rows) for party in range(partition.parties)]
    blocks = [block.toarray() if hasattr(block, "indptr") else block for block in blocks]
    holder = partition.label_holder
    apart = []
    for party in range(partition.parties):
        for one in shared:
            places = np.flatnonzero(attribute == one)
            if party == holder or not all(np.isin(places, partition.columns[k]).all() for k in (party, holder)):
                continue
            own, true = (blocks[k][:, np.searchsorted(partition.columns[k], places)] for k in (party, holder))
            apart.append(((own != true) & ~(np.isnan(own) & np.isnan(true))).any(axis=1).mean())
    return float(np.mean(apart)) if apart else 0.0
