"""Label skew by the number of labels that a party has."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.data.split import grouped_order
from unalike.errors import UserError
from unalike.partition.partition import PARTITIONS, Partition, count_parties, number_parties, register_partition
from unalike.partition.sharing import random_order


@register_partition("label-count", paper="Li et al. 2022 (NIID-Bench), arXiv:2102.02079, section 4.1 (#C = k)")
class LabelCount:
    """Label skew: each party has exactly k labels; the rows of a label are shared equally by its owners.

    NIID-Bench, section 4.1, ``#C = k``: k different labels are assigned to each party at random, and the rows of
    each label are divided at random and equally (to within a row) between the parties that own it. NIID-Bench's
    public code gives label i mod K first to party i, of K labels, and then k - 1 random others; so it is here.
    With fewer parties than labels that code may leave a label to nobody, whose rows are lost; here the assignment
    is drawn from the same distribution given that each label has an owner (exactly, and without drawing
    again). Labels without training rows are passed over.
    """

    any_number: ClassVar[bool] = True

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UserError(f"label-count's k must be >= 1, got {self.k}. Use 2.")

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Assign k labels to each party, then share each label's rows between its owners."""
        number = count_parties(dataset, parties)
        labels, sizes = np.unique(dataset.labels, return_counts=True)
        if self.k > len(labels):
            raise UserError(
                f"label-count's k must be at most the {len(labels)} labels of {dataset.name}, got {self.k}. "
                f"Use {len(labels)}."
            )
        if number * self.k < len(labels):
            raise UserError(
                f"{number} parties of {self.k} label(s) leave some of the {len(labels)} labels of {dataset.name} "
                f"to nobody. Use k={-(-len(labels) // number)} or {-(-len(labels) // self.k)} parties."
            )
        owns = assign_labels(number, len(labels), self.k, rng)
        owner = np.empty(dataset.size, np.int64)
        parts = np.split(grouped_order(dataset.labels, rng), np.cumsum(sizes)[:-1])
        for place, rows in enumerate(parts):
            owners = np.flatnonzero(owns[:, place])
            if len(owners) > len(rows):
                raise UserError(
                    f"Label {dataset.label_names[labels[place]]!r} of {dataset.name} has {len(rows)} row(s) for "
                    f"{len(owners)} parties. Use fewer parties or a smaller k."
                )
            # In random order, so that no party is always the one with a row more.
            owner[rows] = owners[random_order(len(owners), rng)][np.arange(len(rows)) % len(owners)]
        return Partition.of_owners(PARTITIONS.describe(self), owner, number_parties(number))


def assign_labels(parties: int, labels: int, k: int, rng: np.random.Generator) -> Array:
    """A mask, party by label: ``k`` labels for each party, and an owner for each label."""
    if parties < labels:
        return _assign_all(parties, labels, k, rng)
    everyone = np.arange(parties)
    keys = rng.random((parties, labels))
    keys[everyone, everyone % labels] = -1.0  # the party's first label
    owns = np.zeros((parties, labels), bool)
    np.put_along_axis(owns, np.argsort(keys, axis=1, kind="stable")[:, :k], True, axis=1)
    return owns


def _assign_all(parties: int, labels: int, k: int, rng: np.random.Generator) -> Array:
    """The same with fewer parties than labels: party after party, given that each label gets an owner.

    ``ways[i, u]`` is the logarithm of the number of ways in which party i and those after it can choose their
    k - 1 further labels so that u labels, which nobody has yet, are all chosen. How many of them party i
    takes is drawn in proportion to the ways that this leaves to the others.
    """
    from scipy.special import logsumexp  # slow to import, so only when it is needed

    orphans = labels - parties  # labels that are nobody's first
    new = np.arange(k)
    unowned = np.arange(orphans + 1)[:, None]
    choices = _log_binomial(unowned, new) + _log_binomial(labels - 1 - unowned, k - 1 - new)
    left = unowned - new
    ways = np.full((parties + 1, orphans + 1), -np.inf)
    ways[parties, 0] = 0
    for party in range(parties - 1, -1, -1):
        later = np.where(left >= 0, ways[party + 1][np.maximum(left, 0)], -np.inf)
        ways[party] = logsumexp(choices + later, axis=1)
    owns = np.eye(parties, labels, dtype=bool)
    free = np.arange(labels) >= parties
    for party in range(parties):
        now = int(free.sum())
        logs = choices[now] + np.where(left[now] >= 0, ways[party + 1][np.maximum(left[now], 0)], -np.inf)
        chances = np.cumsum(np.exp(logs - logs.max()))
        taken = int(np.searchsorted(chances, rng.random() * chances[-1], side="right"))
        keys = rng.random(labels)
        keys[party] = np.inf  # it has its first label already
        for group, count in ((free, taken), (~free, k - 1 - taken)):
            owns[party, np.argsort(np.where(group, keys, np.inf), kind="stable")[:count]] = True
        free &= ~owns[party]
    return owns


def _log_binomial(n: Array, k: Array) -> Array:
    """The logarithm of "n choose k"; minus infinity where there is no way."""
    from scipy.special import gammaln  # slow to import, so only when it is needed

    possible = (k >= 0) & (k <= n)
    n, k = np.broadcast_arrays(np.where(possible, n, 0), np.where(possible, k, 0))
    value: Array = np.where(possible, gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1), -np.inf)
    return value
