"""Which columns trees go by: how often they are looked at, and how much that helps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from unalike.trees.ensemble import Ensemble

Array = NDArray[Any]
MOST_SHOWN = 20
"""Columns whose importance the result of a run tells."""


@dataclass(frozen=True, eq=False)
class Importance:
    """By column: what its splits gain, how much they cover, and how many there are, over all trees.

    ``gain`` is the sum of what splits at the column take from the loss; ``cover`` the sum of second derivatives
    of the rows that come to them, which for squared error is their number.
    """

    names: tuple[str, ...]
    gain: Array
    cover: Array
    splits: Array

    @property
    def shares(self) -> Array:
        """The share of each column in the gain of all of them; zeros where nothing was ever split."""
        total = self.gain.sum()
        share: Array = self.gain / total if total > 0 else np.zeros(len(self.gain))
        return share

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A line for each column that is looked at, the one with the greatest gain first."""
        order = np.lexsort((np.arange(len(self.gain)), -self.gain))
        return [
            {
                "column": self.names[place],
                "share": float(self.shares[place]),
                "gain": float(self.gain[place]),
                "cover": float(self.cover[place]),
                "splits": int(self.splits[place]),
            }
            for place in order
            if self.splits[place]
        ]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int | slice) -> Any:
        return self.rows[place]

    def __repr__(self) -> str:
        lines = [f"  {row['share']:6.1%}  {row['column']} ({row['splits']:,}x)" for row in self.rows[:10]]
        more = [f"  ... and {len(self.rows) - 10} more"] if len(self.rows) > 10 else []
        return "\n".join(["Importance, by share of the gain:", *lines, *more])


def importance_of(ensemble: Ensemble, names: Sequence[str]) -> Importance:
    """What the columns of these names are to the trees."""
    nodes = ensemble.nodes
    inner = nodes["left"] >= 0
    feature = nodes["feature"][inner]

    def by_column(weights: Array | None) -> Array:
        return np.bincount(feature, weights, minlength=ensemble.features)

    gain, cover = (by_column(nodes[name][inner]) for name in ("gain", "cover"))
    return Importance(tuple(names), gain, cover, by_column(None))
