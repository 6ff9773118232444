"""Random order within groups, and the fixed test split of a data set that comes without one.

Only ``Generator.random`` is drawn from here: numpy promises less for ``shuffle`` and ``permutation``, whose
streams may change between versions, and a fixed split must stay fixed.
"""

from __future__ import annotations

import numpy as np

from unalike.data.dataset import Array


def grouped_order(group: Array, rng: np.random.Generator) -> Array:
    """The rows sorted by ``group``, in random order within each group."""
    return np.lexsort((rng.random(len(group)), group))


def random_rank(group: Array, rng: np.random.Generator) -> Array:
    """The place (0, 1, ...) of every row among the rows of its group, in a random order."""
    order = grouped_order(group, rng)
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(group), np.int64)
    rank[order] = np.arange(len(group)) - starts[group[order]]
    return rank


def choose_test_rows(strata: Array, fraction: float, seed: int) -> Array:
    """A mask of the test rows: ``round(fraction * n)`` of the n rows of every stratum, by a fixed seed."""
    rank = random_rank(strata, np.random.default_rng(seed))
    wanted = np.rint(fraction * np.bincount(strata)).astype(np.int64)
    chosen: Array = rank < wanted[strata]
    return chosen
