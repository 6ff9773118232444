"""Label skew by a Dirichlet distribution, the most used benchmark of unalike parties."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.data.split import grouped_order, random_rank
from unalike.partition.partition import PARTITIONS, Partition, count_parties, number_parties, register_partition
from unalike.partition.sharing import (
    apportion,
    check_beta,
    check_minimum,
    cut_tops,
    draw_dirichlet,
    even_sizes,
    random_order,
)


@register_partition(
    "label-dirichlet",
    paper="Yurochkin et al. 2019, arXiv:1905.12022; Hsu et al. 2019, arXiv:1909.06335; "
    "Li et al. 2022 (NIID-Bench), arXiv:2102.02079, section 4.1",
)
class LabelDirichlet:
    """Label skew: each label is shared between N parties by p ~ Dir_N(beta); small beta, strong skew.

    NIID-Bench, section 4.1: for each label k draw ``p_k ~ Dir_N(beta)`` and give a proportion ``p_kj`` of the
    label's rows to party j. This is what the papers state. NIID-Bench's public code (``noniid-labeldir``) does
    two things more: it sets to zero the proportion of a party that already has rows / parties rows, and it draws
    again until each party has 10 rows, which for a small beta or many parties need not end. Here the proportions
    are drawn once, as in the paper; then each party below ``minimum`` rows is filled up to it with random rows of
    the largest parties. Where there are fewer than ``minimum`` rows for each party, it is lowered to
    ``rows // parties``.

    ``balanced=true``: parties of equal size (to within a row) whose label proportions are drawn for each party,
    as Hsu et al. do: ``q_j ~ Dir(beta * labels * P(label))``, which is ``Dir(beta)`` where labels are equally
    frequent. Parties are filled in random order; a label that has run out is replaced by the others that the party
    drew, so the parties filled last differ from their draw.
    """

    any_number: ClassVar[bool] = True

    beta: float
    minimum: int = 10
    balanced: bool = False

    def __post_init__(self) -> None:
        check_beta("label-dirichlet", self.beta)
        check_minimum("label-dirichlet", self.minimum)

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Draw the proportions, share the rows of each label accordingly, fill up the smallest parties."""
        number = count_parties(dataset, parties)
        label_sizes = np.bincount(dataset.labels, minlength=len(dataset.label_names))
        if self.balanced:
            counts = _balanced_counts(label_sizes, self.beta, number, rng)
        else:
            counts = _counts(label_sizes, draw_dirichlet(self.beta, (len(label_sizes), number), rng))
        owner = np.empty(len(dataset.labels), np.int64)
        owner[grouped_order(dataset.labels, rng)] = np.repeat(
            np.tile(np.arange(number), len(counts)), counts.ravel()
        )
        if not self.balanced:
            _fill_up(owner, number, min(self.minimum, len(owner) // number), rng)
        return Partition.of_owners(PARTITIONS.describe(self), owner, number_parties(number))


def _counts(label_sizes: Array, proportions: Array) -> Array:
    """The label-by-party table of whole rows, as near as can be to ``proportions``."""
    cuts = np.rint(np.cumsum(proportions, axis=1) * label_sizes[:, None]).astype(np.int64)
    cuts[:, -1] = label_sizes  # a sum of proportions may be 1 - 1e-16
    return np.diff(cuts, axis=1, prepend=0)


def _balanced_counts(label_sizes: Array, beta: float, parties: int, rng: np.random.Generator) -> Array:
    """The label-by-party table in which parties are of equal size."""
    there = np.flatnonzero(label_sizes)
    present = label_sizes[there]
    proportions = draw_dirichlet(beta * (len(there) * present / present.sum()), (parties, len(there)), rng)
    order = random_order(parties, rng)
    counts = np.zeros((len(label_sizes), parties), np.int64)
    counts[np.ix_(there, order)] = fill_equally(present, proportions[order]).T
    return counts


def fill_equally(label_sizes: Array, proportions: Array) -> Array:
    """The party-by-label table for parties of equal size, filled one after the other by ``proportions``."""
    left = label_sizes.copy()
    counts = np.zeros(proportions.shape, np.int64)
    sizes = even_sizes(int(left.sum()), len(proportions)).tolist()
    for party, (wanted, size) in enumerate(zip(proportions, sizes, strict=True)):
        taken = np.minimum(apportion(wanted, size), left)
        while short := size - int(taken.sum()):  # a label has run out, so this is repeated once a label at most
            room = left - taken
            weights = np.where(room > 0, wanted, 0.0)
            if not weights.sum() > 0:  # what the party drew is gone: it takes what is there
                weights = room.astype(np.float64)
            taken += np.minimum(apportion(weights, short), room)
        counts[party] = taken
        left -= taken
    return counts


def _fill_up(owner: Array, parties: int, minimum: int, rng: np.random.Generator) -> None:
    """Move random rows from the largest parties, in place, until each party has ``minimum`` rows."""
    sizes = np.bincount(owner, minlength=parties)
    wanted = np.maximum(minimum - sizes, 0)
    if not wanted.any():
        return
    given = cut_tops(sizes, int(wanted.sum()))
    moved = np.flatnonzero(random_rank(owner, rng) < given[owner])
    moved = moved[random_order(len(moved), rng)]
    owner[moved] = np.repeat(np.arange(parties), wanted)
