"""Histograms, moves and leaves in numpy: the bits that the compiled core must give, and its stand-in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unalike.trees.bins import Binned
from unalike.trees.tree import Tree

_AT_ONCE = 2**22
"""Rows whose sums are exact in float64, whatever their gradients."""


def histogram(
    binned: Binned, g: NDArray[np.int32], h: NDArray[np.int32], rows: NDArray[Any], channels: int
) -> NDArray[np.int64]:
    """The full histogram of some rows, int64 [slots, channels]."""
    short = np.zeros((binned.slots, channels), np.int64)
    for start in range(0, len(rows), _AT_ONCE):
        part = rows[start : start + _AT_ONCE]
        for k in range(binned.places):
            codes, own = binned.columns[k][part], slice(binned.base[k], binned.base[k + 1])
            for channel, weights in enumerate((g[part], h[part], None)[:channels]):
                sums = np.bincount(codes, weights, binned.base[k + 1] - binned.base[k])
                short[own, channel] += sums.astype(np.int64)
    total = np.array([g[rows].sum(dtype=np.int64), h[rows].sum(dtype=np.int64), len(rows)][:channels])
    full = np.zeros((binned.cuts.slots, channels), np.int64)
    real = binned.slot_full >= 0
    full[binned.slot_full[real]] = short[real]
    begins = binned.cuts.offsets[:-1]
    if len(begins):
        others = np.add.reduceat(full, begins, axis=0)
        full[begins + binned.default] = total - others
    return full


def goes_left(
    binned: Binned, rows: NDArray[Any] | slice, feature: int, bin: int, missing_left: bool
) -> NDArray[np.bool_]:
    """Which rows a split sends to its left child."""
    bins = binned.bins(feature, rows)
    missing = int(binned.cuts.starts[feature + 1] - binned.cuts.starts[feature]) + 1
    return np.where(bins == missing, missing_left, bins <= bin)


def leaves(binned: Binned, tree: Tree) -> NDArray[np.int32]:
    """The leaf that each row ends in."""
    node = np.zeros(binned.rows, np.int32)
    for split in np.flatnonzero(tree.feature >= 0):  # parents come before their children
        rows = np.flatnonzero(node == split)
        left = goes_left(
            binned, rows, int(tree.feature[split]), int(tree.bin[split]), bool(tree.missing_left[split])
        )
        node[rows] = np.where(left, tree.left[split], tree.right[split])
    return node
