"""Trees one by one, for files: only nodes that can be come to, numbered from the root, in the table's units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from unalike.trees.columns import Columns
    from unalike.trees.ensemble import Ensemble

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class FlatTree:
    """A tree by node, the root first: -1 are the children of a leaf; ``parent`` of the root is -1."""

    feature: Array
    threshold: Array
    """in the units of the table, float64"""
    missing_left: Array
    left: Array
    right: Array
    parent: Array
    value: Array
    gain: Array
    cover: Array
    rows: Array


def flat_trees(ensemble: Ensemble, columns: Columns) -> Iterator[FlatTree]:
    """The trees of a model, with thresholds as the table has its numbers."""
    nodes = dict(ensemble.nodes)
    inner = nodes["left"] >= 0
    thresholds = np.zeros(inner.shape)
    thresholds[inner] = columns.thresholds(nodes["feature"][inner], nodes["threshold"][inner])
    missing = columns.missing_left(nodes["threshold"], nodes["missing_left"])
    for number in range(ensemble.trees):
        own = {name: array[number] for name, array in nodes.items()}
        yield _flat({**own, "threshold": thresholds[number], "missing_left": missing[number]})


def _flat(own: dict[str, Array]) -> FlatTree:
    left, right = own["left"], own["right"]
    order, parents = [0], [-1]
    for place, node in enumerate(order):  # which grows while it is walked: level by level
        if left[node] >= 0:
            order += [int(left[node]), int(right[node])]
            parents += [place, place]
    number = np.full(len(left), -1)
    number[order] = np.arange(len(order))
    kept = {
        name: own[name][order]
        for name in ("feature", "threshold", "missing_left", "value", "gain", "cover", "rows")
    }
    children = [np.where(side[order] >= 0, number[side[order]], -1) for side in (left, right)]
    return FlatTree(left=children[0], right=children[1], parent=np.array(parents), **kept)
