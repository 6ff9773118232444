"""Label skew by a Dirichlet distribution, the most used benchmark of unalike parties."""

from __future__ import annotations

import math

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.data.split import grouped_order, random_rank
from unalike.errors import UserError
from unalike.partition.partition import PARTITIONS, Partition, count_parties, number_parties, register_partition

_SMALLEST_BETA = 1e-300  # below it a logarithm overflows; a label then has one single party anyway


@register_partition(
    "label-dirichlet",
    paper="Yurochkin et al. 2019, arXiv:1905.12022; Hsu et al. 2019, arXiv:1909.06335; "
    "Li et al. 2022 (NIID-Bench), arXiv:2102.02079, section 4.1",
)
class LabelDirichlet:
    """Label skew: each label is shared between N parties by p ~ Dir_N(beta); small beta, strong skew.

    NIID-Bench, section 4.1: for each label k draw ``p_k ~ Dir_N(beta)`` and give a proportion ``p_kj`` of the
    label's rows to party j. This is what the papers state. NIID-Bench's public code does two things more: it
    gives no further rows to a party that already holds its even share, and it draws again until each
    party has 10 rows, which for a small beta or many parties need not end. Here the proportions are
    drawn once, as in the paper; then each party below ``minimum`` rows is filled up to it with random rows of
    the largest parties. Where there are fewer than ``minimum`` rows for each party, it is lowered to
    ``rows // parties``.
    """

    beta: float
    minimum: int = 10

    def __post_init__(self) -> None:
        if not (self.beta > 0 and math.isfinite(self.beta)):
            raise UserError(f"label-dirichlet's beta must be > 0, got {self.beta}. Use 0.5; larger is less skew.")
        if self.minimum < 1:
            raise UserError(
                f"label-dirichlet's minimum must be >= 1, got {self.minimum}. Use 1: no party may be empty."
            )

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Draw each label's proportions, share its rows accordingly, fill up the smallest parties."""
        number = count_parties(dataset, parties)
        label_sizes = np.bincount(dataset.y, minlength=len(dataset.classes))
        proportions = draw_dirichlet(self.beta, (len(label_sizes), number), rng)
        owner = np.empty(len(dataset.y), np.int64)
        owner[grouped_order(dataset.y, rng)] = _share(label_sizes, proportions)
        _fill_up(owner, number, min(self.minimum, len(owner) // number), rng)
        return Partition.of_owners(PARTITIONS.describe(self), owner, number_parties(number))


def draw_dirichlet(beta: float, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Rows drawn from the symmetric ``Dir(beta)``, right for every beta > 0.

    Gamma(beta) variates all underflow to 0 where beta is small, and 0 / 0 is no proportion. So their
    logarithms are drawn: G(beta) = G(beta + 1) U^(1 / beta), with -log U ~ Exp(1) (Marsaglia & Tsang 2000).
    """
    logarithms = np.log(rng.standard_gamma(beta + 1, shape))
    logarithms -= rng.standard_exponential(shape) / max(beta, _SMALLEST_BETA)
    gammas = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    proportions: Array = gammas / gammas.sum(axis=1, keepdims=True)
    return proportions


def _share(label_sizes: Array, proportions: Array) -> Array:
    """The owner of each row, rows being sorted by label: whole rows, as near as can be to ``proportions``."""
    cuts = np.rint(np.cumsum(proportions, axis=1) * label_sizes[:, None]).astype(np.int64)
    cuts[:, -1] = label_sizes  # a sum of proportions may be 1 - 1e-16
    counts = np.diff(cuts, axis=1, prepend=0)
    labels, parties = counts.shape
    return np.repeat(np.tile(np.arange(parties), labels), counts.ravel())


def _fill_up(owner: Array, parties: int, minimum: int, rng: np.random.Generator) -> None:
    """Move random rows from the largest parties, in place, until each party has ``minimum`` rows."""
    sizes = np.bincount(owner, minlength=parties)
    wanted = np.maximum(minimum - sizes, 0)
    if not wanted.any():
        return
    given = _cut_tops(sizes, int(wanted.sum()))
    moved = np.flatnonzero(random_rank(owner, rng) < given[owner])
    moved = moved[np.argsort(rng.random(len(moved)), kind="stable")]
    owner[moved] = np.repeat(np.arange(parties), wanted)


def _cut_tops(sizes: Array, total: int) -> Array:
    """How many rows each party gives, ``total`` in all, when the largest are cut to a common level.

    The level is never below the minimum: there are at least ``minimum * parties`` rows, so the parties above
    the minimum have as many rows to spare as the others lack.
    """
    low, high = 0, int(sizes.max())  # the lowest level at which no more than ``total`` rows are given
    while low < high:
        middle = (low + high) // 2
        if np.maximum(sizes - middle, 0).sum() <= total:
            high = middle
        else:
            low = middle + 1
    given: Array = np.maximum(sizes - low, 0)
    rest = total - int(given.sum())  # one level lower gives too many: only some parties go there
    given[np.flatnonzero(sizes >= low)[:rest]] += 1
    return given
