"""One grown tree, as arrays of a fixed length."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unalike.errors import UserError
from unalike.models.trees import Trees
from unalike.trees.cuts import Arrays, Cuts


def most_leaves(settings: Trees) -> int:
    """The number of leaves that a tree may have."""
    whole: int = 2**settings.depth
    return min(whole, settings.leaves) if settings.leaves else whole


def most_nodes(settings: Trees) -> int:
    """The length of a tree's arrays: its leaves and the splits above them."""
    return 2 * most_leaves(settings) - 1


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree as arrays over its nodes; node 0 is the root, and what is not used is -1 (numbers: 0).

    A row whose value of ``feature`` is below ``threshold`` (or: in ``bin`` or a lower one) goes ``left``, a
    missing one where ``missing_left`` says. A leaf has ``left`` and ``right`` -1, and ``value`` is what it adds
    to a row's margin, shrinkage included; nodes that are split have the value that they would have as a leaf.
    ``gain`` is the split's, ``cover`` the sum of second derivatives, ``rows`` the number of rows where they are
    counted (``least_rows`` above 1), else -1.
    """

    feature: NDArray[np.int32]
    bin: NDArray[np.int32]
    threshold: NDArray[np.float32]
    missing_left: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    gain: NDArray[np.float64]
    cover: NDArray[np.float64]
    rows: NDArray[np.int64]

    @classmethod
    def empty(cls, settings: Trees) -> Tree:
        """A tree without nodes, of the length that these settings need."""
        n = most_nodes(settings)
        feature, bin, left, right = np.full((4, n), -1, np.int32)
        value, gain, cover = np.zeros((3, n))
        return cls(
            feature=feature,
            bin=bin,
            threshold=np.zeros(n, np.float32),
            missing_left=np.zeros(n, np.uint8),
            left=left,
            right=right,
            value=value,
            gain=gain,
            cover=cover,
            rows=np.full(n, -1, np.int64),
        )

    @property
    def size(self) -> int:
        """The number of nodes that are used."""
        return int(max(self.right.max(), self.left.max(), 0)) + 1

    def check(self, features: int) -> None:
        """Refuse a tree that is none, as a file from others may hold: children come after their parents."""
        nodes = np.arange(len(self.left))
        split = self.left >= 0
        for name in ("left", "right"):
            child = getattr(self, name)
            if not (np.where(split, (child > nodes) & (child < len(nodes)), child == -1)).all():
                raise UserError(
                    f"trees: a node's {name} child is not one of the {len(nodes)} nodes that come after it."
                )
        if not (np.where(split, (self.feature >= 0) & (self.feature < features), self.feature == -1)).all():
            raise UserError(f"trees: a node splits column {self.feature.max()}, there are {features}.")

    def arrays(self) -> Arrays:
        """The arrays by their names, for states, messages and files."""
        return {name: getattr(self, name) for name in NAMES}

    @classmethod
    def of(cls, arrays: dict[str, NDArray[Any]]) -> Tree:
        """The tree of arrays that :meth:`arrays` has written; others in the dict are left alone."""
        return cls(**{name: arrays[name] for name in NAMES})

    def set_thresholds(self, cuts: Cuts) -> None:
        """Fill in the threshold of every split from its column and bin."""
        split = np.flatnonzero(self.feature >= 0)
        self.threshold[split] = cuts.thresholds(self.feature[split], self.bin[split])


NAMES: Final = tuple(field.name for field in fields(Tree))
"""The names of a tree's arrays."""
