"""Arrays that are said to be trees, looked at before they are walked: they may come from a stranger's folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unalike.models.trees import MOST_DEPTH

Array = NDArray[Any]
NODES: Final[Mapping[str, str]] = {
    "feature": "int32",
    "bin": "int32",
    "threshold": "float32",
    "missing_left": "uint8",
    "left": "int32",
    "right": "int32",
    "value": "float64",
    "gain": "float64",
    "cover": "float64",
    "rows": "int64",
}
"""The arrays of trees, [trees, most nodes], and their types. A leaf has no children: -1."""


def check_arrays(arrays: Mapping[str, Array], features: int, outputs: int) -> int:
    """How many trees were grown, if the arrays are sound; ValueError says what is not.

    Children come after their parent and have one parent only, so that every walk ends.
    """
    _check_types(arrays, outputs)
    grown = grown_trees(arrays, outputs)
    left, right, value = (arrays[name][:grown] for name in ("left", "right", "value"))
    inner = left >= 0
    here = np.broadcast_to(np.arange(left.shape[1]), left.shape)
    for child in (left, right):
        if ((child >= 0) != inner).any() or (inner & ((child <= here) | (child >= left.shape[1]))).any():
            raise ValueError("a node's children are not where they can be")
    feature, threshold = arrays["feature"][:grown][inner], arrays["threshold"][:grown][inner]
    if len(feature) and (feature.min() < 0 or feature.max() >= features):
        raise ValueError(f"a node looks at a column that none of the {features} is")
    if np.isnan(threshold).any() or not np.isfinite(value).all() or not np.isfinite(arrays["base"]).all():
        raise ValueError("a threshold or a value is not a number")
    if not (np.isfinite(arrays["gain"][:grown]).all() and np.isfinite(arrays["cover"][:grown]).all()):
        raise ValueError("a gain or a sum of second derivatives is not a number")
    _check_shape(left, right, inner)
    return grown


def grown_trees(arrays: Mapping[str, Array], outputs: int) -> int:
    """How many trees there are before the empty ones at the end, which training has room for and did not grow."""
    filled = (arrays["left"][:, 0] >= 0) | (arrays["value"][:, 0] != 0) | (arrays["cover"][:, 0] != 0)
    last = int(np.flatnonzero(filled).max(initial=-1)) + 1
    return -(-last // outputs) * outputs


def _check_types(arrays: Mapping[str, Array], outputs: int) -> None:
    shape = None
    for name, dtype in NODES.items():
        array = arrays.get(name)
        if array is None or array.dtype != dtype or array.ndim != 2 or not array.shape[1]:
            raise ValueError(f"{name!r} is not there, or not {dtype} by tree and node")
        shape = shape or array.shape
        if array.shape != shape or len(array) % outputs:
            raise ValueError(f"{name!r} has the shape {array.shape}, which does not fit")
    base = arrays.get("base")
    if base is None or base.dtype != np.float64 or base.shape != (outputs,):
        raise ValueError(f"'base' is not there, or not {outputs} float64")


def _check_shape(left: Array, right: Array, inner: Array) -> None:
    """Refuse nodes with two parents, and trees that are deeper than any may be."""
    trees, nodes = left.shape
    tree = np.nonzero(inner)[0]
    children = np.concatenate([tree * nodes + left[inner], tree * nodes + right[inner]])
    if np.bincount(children).max(initial=0) > 1:
        raise ValueError("a node has two parents")
    tree, here = np.arange(trees), np.zeros(trees, np.int64)
    for _ in range(MOST_DEPTH + 1):
        below = inner[tree, here]
        tree, here = tree[below], here[below]
        if not len(tree):
            return
        tree, here = np.tile(tree, 2), np.concatenate([left[tree, here], right[tree, here]])
    raise ValueError(f"a tree is deeper than {MOST_DEPTH}")
