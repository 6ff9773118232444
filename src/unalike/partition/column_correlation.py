"""How much the columns of different parties go together, and the splits in which they do least and most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.partition.column_importance import dense_column, flat_columns, sampled_rows

MOST_COLUMNS: Final = 256
"""Columns up to which correlation between parties is computed: singular values of more take too long."""
_CLIMBS = 3  # down, and as many up
_SWAPS = 600  # tried in a climb
_CLOSE = 0.005  # of the whole range: near enough to a wanted Icor
_SEED = 23
_MOST_SEARCHED = 20
_SEARCHED: dict[tuple[str, bytes, tuple[int, ...]], SplitSearch] = {}


def spearman(dataset: Dataset) -> Array:
    """Spearman's correlation of all pairs of columns: 0 of a constant one; missing values are in the middle."""
    rows = sampled_rows(dataset)
    x = flat_columns(dataset, rows)
    if x.shape[1] > MOST_COLUMNS:
        raise UserError(
            f"Correlations of the {x.shape[1]:,} columns of {dataset.name} take too long: at most {MOST_COLUMNS}. "
            "Use vertical or vertical-importance."
        )
    ranks = np.stack([_ranks(dense_column(x, column)) for column in range(x.shape[1])], axis=1)
    size = np.sqrt((ranks**2).sum(axis=0))
    ranks /= np.where(size > 0, size, 1)
    found: Array = ranks.T @ ranks
    np.fill_diagonal(found, 1.0)
    return found


def _ranks(values: Array) -> Array:
    """Ranks less their mean; equal values share theirs."""
    there = ~np.isnan(values)
    _, place, count = np.unique(values[there], return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    ranks = np.zeros(len(values))
    known = (ends - (count - 1) / 2)[place]
    ranks[there] = known - known.mean() if len(known) else known
    return ranks


def pcor(block: Array) -> float:
    """How strongly two groups of columns go together: the spread of the singular values of their correlations.

    VertiBench: the standard deviation of the d singular values (d is the smaller side of the block), with d - 1
    below the sum of squares, over the root of d. Of one column it is 0.
    """
    d = min(block.shape)
    if d < 2:
        return 0.0
    return float(np.linalg.svd(block, compute_uv=False).std(ddof=1) / np.sqrt(d))


def icor(correlation: Array, columns: Sequence[Array]) -> float:
    """VertiBench's Icor: mean over parties of Pcor(another party's, own) - Pcor(own, own), and over those others.

    High where parties' columns go together with other parties' more than among themselves.
    """
    return _icor_of(np.array([[pcor(correlation[np.ix_(a, b)]) for b in columns] for a in columns]))


def _icor_of(table: Array) -> float:
    own = np.diag(table)
    others = (table.sum(axis=0) - own) / (len(table) - 1)
    return float((others - own).mean())


@dataclass(frozen=True, eq=False)
class Split:
    """Which party each attribute has, with the table of Pcor between parties that it makes."""

    icor: float
    owner: Array
    table: Array


class SplitSearch:
    """Splits of attributes between parties that hold fixed numbers of them, by their Icor.

    ``attribute`` says which attribute each column belongs to; party k holds ``sizes[k]`` attributes. Two
    attributes of two parties are swapped as long as that helps, from a few deals that are always the same.
    ``least`` and ``most`` are the lowest and the highest Icor found and their splits: the best of these climbs,
    not a proof.
    """

    def __init__(self, correlation: Array, attribute: Array, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self._correlation, self._attribute = correlation, attribute
        self._visited: list[Split] = []
        self._complete = False
        for start in range(_CLIMBS):
            for wanted in (-np.inf, np.inf):
                self._walk(self._deal(np.random.default_rng([_SEED, start])), wanted)
        self._complete = True  # what is found from here on must not depend on what was asked before
        self.least = min(self._visited, key=lambda split: split.icor)
        self.most = max(self._visited, key=lambda split: split.icor)

    def scaled(self, value: float) -> float:
        """Where an Icor lies between the lowest and the highest found: 0 to 1; 0 where all splits are alike."""
        low, high = self.least.icor, self.most.icor
        return float(np.clip((value - low) / (high - low), 0, 1)) if high > low else 0.0

    def nearest(self, beta: float, rng: np.random.Generator) -> tuple[Array, ...]:
        """The columns of each party in a split whose scaled Icor is as near to ``beta`` as was found.

        ``rng`` says from which deal it is looked for, and which of the parties of equal size is which.
        """
        low, high = self.least.icor, self.most.icor
        wanted = low + beta * (high - low)
        if beta in (0, 1):
            found = self.most if beta else self.least
        else:
            found = self._walk(self._deal(rng), wanted)
            if abs(found.icor - wanted) > _CLOSE * (high - low):
                near = min(self._visited, key=lambda split: abs(split.icor - wanted))
                found = min(found, self._walk(near, wanted), key=lambda split: abs(split.icor - wanted))
        roles = np.arange(len(self.sizes))
        for size in set(self.sizes):
            same = np.flatnonzero(np.array(self.sizes) == size)
            roles[same] = rng.permutation(same)
        return self._columns(roles[found.owner])

    def _columns(self, owner: Array) -> tuple[Array, ...]:
        whose = owner[self._attribute]
        return tuple(np.flatnonzero(whose == party) for party in range(len(self.sizes)))

    def _deal(self, rng: np.random.Generator) -> Split:
        owner = rng.permutation(np.repeat(np.arange(len(self.sizes)), self.sizes))
        columns = self._columns(owner)
        table = np.array([[self._pcor(a, b) for b in columns] for a in columns])
        return self._seen(owner, table)

    def _walk(self, split: Split, wanted: float) -> Split:
        """Swap what brings Icor nearer to ``wanted`` until no swap does, or the time is up."""
        close = _CLOSE * (self.most.icor - self.least.icor) if np.isfinite(wanted) else 0.0
        order = np.random.default_rng(_SEED)
        tried, improved = 0, True
        while improved and tried < _SWAPS:
            improved = False
            pairs = np.stack(np.triu_indices(len(split.owner), 1), axis=1)
            for one, other in order.permutation(pairs):
                if split.owner[one] == split.owner[other]:
                    continue
                after = self._swapped(split, one, other)
                tried += 1
                if _nearer(after.icor, split.icor, wanted):
                    split, improved = after, True
                if tried >= _SWAPS or abs(split.icor - wanted) < close:
                    return split
        return split

    def _swapped(self, split: Split, one: int, other: int) -> Split:
        owner = split.owner.copy()
        owner[[one, other]] = owner[[other, one]]
        columns, table = self._columns(owner), split.table.copy()
        for changed in owner[[one, other]]:
            for party in range(len(self.sizes)):
                table[changed, party] = table[party, changed] = self._pcor(columns[changed], columns[party])
        return self._seen(owner, table)

    def _seen(self, owner: Array, table: Array) -> Split:
        made = Split(_icor_of(table), owner, table)
        if not self._complete:
            self._visited.append(made)
        return made

    def _pcor(self, one: Array, other: Array) -> float:
        return pcor(self._correlation[np.ix_(one, other)])


def split_search(dataset: Dataset, attribute: Array, sizes: Sequence[int]) -> SplitSearch:
    """The search for the attributes of a data set; made once for the same rows and sizes in a process."""
    key = (dataset.rows_digest, attribute.tobytes(), tuple(sizes))
    if key not in _SEARCHED:
        if len(_SEARCHED) >= _MOST_SEARCHED:
            del _SEARCHED[next(iter(_SEARCHED))]
        _SEARCHED[key] = SplitSearch(spearman(dataset), attribute, sizes)
    return _SEARCHED[key]


def _nearer(after: float, before: float, wanted: float) -> bool:
    if np.isinf(wanted):
        return bool(np.sign(wanted) * (after - before) > 1e-12)
    return abs(after - wanted) < abs(before - wanted) - 1e-12
