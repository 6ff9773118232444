"""Trained trees in use: from the arrays that a training keeps to what they say of new rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unalike.trees import walking
from unalike.trees.columns import names_of
from unalike.trees.importance import MOST_SHOWN, importance_of
from unalike.trees.objective import Objective, objective_of
from unalike.trees.soundness import NODES, check_arrays

if TYPE_CHECKING:
    from unalike.models.trees import Trees

Array = NDArray[Any]
_BLOCK = 2**19
"""Numbers of rows that are looked at together: few enough to stay in a processor's cache."""


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Boosted trees, ready for rows: the margin of a row is ``base`` and the sum of its leaves' values.

    ``nodes`` has an array [trees, most nodes] for each property of a node; tree t adds to output ``t % outputs``.
    A row goes left where its number is below the threshold, both in single precision; where it is missing (NaN),
    as the node's ``missing_left`` says.
    """

    nodes: Mapping[str, Array]
    base: Array
    features: int
    settings: Trees
    classes: int
    """0 where numbers are predicted"""
    target: tuple[float, float] = (0.0, 1.0)
    """where numbers are predicted: their shift and scale"""

    @classmethod
    def of(
        cls,
        arrays: Mapping[str, Array],
        settings: Trees,
        classes: int,
        target: tuple[float, float] = (0.0, 1.0),
        features: int | None = None,
    ) -> Ensemble:
        """The trees in such arrays, which may be a stranger's: ValueError where they are no trees.

        Trees that were not grown, because training ended early, are left out. Where ``features`` is None, it is
        the number of columns that have cuts.
        """
        outputs = objective_of(settings, classes, target).outputs
        features = len(arrays["starts"]) - 1 if features is None else features
        grown = check_arrays(arrays, features, outputs)
        nodes = {name: np.ascontiguousarray(arrays[name][:grown]) for name in NODES}
        return cls(nodes, arrays["base"], features, settings, classes, target)

    @property
    def trees(self) -> int:
        """How many trees there are."""
        return len(self.nodes["left"])

    @property
    def outputs(self) -> int:
        """How many margins a row has: one for each class, or one."""
        return len(self.base)

    @cached_property
    def objective(self) -> Objective:
        """What the trees were grown for, which says what a margin means."""
        return objective_of(self.settings, self.classes, self.target)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the trees and where they start: the same for all who grew the same model."""
        sha = hashlib.sha256()
        for name, array in sorted({**self.nodes, "base": self.base}.items()):
            sha.update(f"{name} {array.dtype} {array.shape}".encode())
            sha.update(array.tobytes())
        return sha.hexdigest()

    def told(self, names: Sequence[str]) -> dict[str, Any]:
        """What the result of a run says: how many trees, and the columns with the greatest share of the gain."""
        found = importance_of(self, names_of(names, self.features)).rows[:MOST_SHOWN]
        return {"trees": self.trees, "importance": {row["column"]: row["share"] for row in found}}

    def margins(self, x: Any, first: int = 0, last: int | None = None) -> Array:
        """The margins of rows, float64 [rows, outputs]; of the trees from ``first`` up to ``last`` alone.

        ``x`` [rows, features] may be any numbers, NaN where missing, or a scipy CSR matrix, which has 0 where
        nothing is stored. The base is part of it where ``first`` is 0, so that ranges of trees add up.
        """
        if x.ndim != 2 or x.shape[1] != self.features:
            raise ValueError(f"rows of {self.features} numbers are needed, got {x.shape}")
        chosen = range(*slice(first, last).indices(self.trees))
        found = np.zeros((x.shape[0], self.outputs))
        if first == 0:
            found += self.base
        used, layout = self._layout(chosen)
        core = walking.core_for(x.shape[0] * len(layout))
        if core is not None and len(used):
            steps, depth = np.stack([tree.steps for tree in layout]), np.array([tree.depth for tree in layout])
            as_they_are = isinstance(x, np.ndarray) and x.dtype == np.float32 and x.flags.c_contiguous
            if as_they_are:
                steps["column"] = used[steps["column"]]
            for rows, block in [(slice(None), x)] if as_they_are else _blocks(x, used):
                walking.walk(core, block, steps, depth, chosen.start, found[rows])
            return found
        for rows, block in _blocks(x, used):
            for number, tree in zip(chosen, layout, strict=True):
                found[rows, number % self.outputs] += tree.values(block)
        return found

    def predict(self, x: Any) -> Array:
        """The place of each row's most probable class, or the number that is predicted, in its own units."""
        return self.objective.predict(self.margins(x))

    def predict_proba(self, x: Any) -> Array:
        """The probabilities of the classes, [rows, classes]."""
        return self.objective.probabilities(self.margins(x))

    def _layout(self, chosen: range) -> tuple[Array, list[_Walk]]:
        """The columns that some trees look at, and each tree as it is walked."""
        own = {name: self.nodes[name][chosen.start : chosen.stop] for name in NODES}
        inner = own["left"] >= 0
        used, place = np.unique(own["feature"][inner], return_inverse=True)
        column = np.zeros(inner.shape, np.int64)
        column[inner] = place
        here = np.arange(inner.shape[1])
        children = np.stack([np.where(inner, own[side], here) for side in ("right", "left")], axis=2)
        missing, depth = own["missing_left"] > 0, _depths(children, inner)
        walks = [
            _Walk(column[t], own["threshold"][t], missing[t], children[t].ravel(), own["value"][t], int(depth[t]))
            for t in range(len(chosen))
        ]
        return used, walks


@dataclass(frozen=True, eq=False)
class _Walk:
    """A tree whose leaves lead to themselves, so that all rows take the same number of steps."""

    column: Array
    threshold: Array
    missing_left: Array
    children: Array
    """by node: where to go to on the right, then on the left"""
    value: Array
    depth: int
    """how many steps lead to the lowest leaf"""

    @property
    def steps(self) -> Array:
        """The nodes as the compiled core walks on them."""
        found = np.zeros(len(self.column), walking.STEP)
        for name in ("threshold", "column", "missing_left", "value"):
            found[name] = getattr(self, name)
        found["right"], found["left"] = self.children.reshape(-1, 2).T
        return found

    def values(self, x: Array) -> Array:
        """The value of the leaf that each row comes to."""
        node = np.zeros(len(x), np.int64)
        flat, begins = x.ravel(), np.arange(len(x)) * x.shape[1]
        for _ in range(self.depth):
            number = flat[begins + self.column[node]]
            left = number < self.threshold[node]
            if (missing := np.isnan(number)).any():
                left = np.where(missing, self.missing_left[node], left)
            node = self.children[2 * node + left]
        return self.value[node]


def _depths(children: Array, inner: Array) -> Array:
    """How many steps lead to the lowest leaf of each tree; ``inner`` are the nodes that are split."""
    found, here = np.zeros(len(inner), np.int64), np.zeros(inner.shape, bool)
    here[:, :1] = True
    while (split := here & inner).any():
        found += split.any(axis=1)
        tree, node = np.nonzero(split)
        here[:] = False
        here[tree[:, None], children[tree, node]] = True
    return found


def _blocks(x: Any, used: Array) -> Iterator[tuple[slice, Array]]:
    """The used columns of rows in single precision, some rows at a time."""
    most = max(1, _BLOCK // max(1, len(used)))
    for start in range(0, x.shape[0], most):
        rows = slice(start, min(start + most, x.shape[0]))
        part = x[rows][:, used]
        dense = part.toarray() if hasattr(part, "indptr") else np.asarray(part)
        with np.errstate(over="ignore"):  # beyond single precision is infinite, and compares as that
            yield rows, np.ascontiguousarray(dense, np.float32)
