"""Do parties mean the same by a label? Rows of one label, compared between the parties that have it.

Of the spread of the features around the mean of all rows with the same label, the share that lies between parties:

    concept = sum_c sum_k n_kc (m_kc - m_c)^2 / sum_c sum_i (x_i - m_c)^2

in each dimension, mean over dimensions; m_c is the mean of the rows with label c, m_kc that of party k's. 0: rows
of a label are alike everywhere. An even random split shows (cells - labels) / (rows - labels), where cells are the
pairs of party and label that have rows.

Other shares of the labels (label skew) leave it alone. It grows where features are shifted (P(x | y) differs with
P(x)), and where the same features have other labels (P(y | x) differs): in the second case P(x) stays as it is,
which tells the two apart. Only means are compared, and so a difference that leaves them in place is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unalike.data.dataset import Array


class Concept(NamedTuple):
    """The share between parties, and what an even random split would show."""

    degree: float
    expected: float


def concept_of(features: Sequence[Array], labels: Sequence[Array]) -> Concept:
    """From each party's rows: features [rows, dimensions] and labels [rows], whole numbers from 0 on."""
    x, y = np.concatenate(features).astype(np.float64), np.concatenate(labels)
    party = np.repeat(np.arange(len(labels)), [len(own) for own in labels])
    by_label, count = _explained(x, y)
    by_both, cells = _explained(x, y * len(labels) + party)
    spread = (x**2).sum(axis=0) - by_label
    told = spread > 1e-9 * (1 + by_label)  # a column that the label decides says nothing
    if not told.any() or len(y) <= count:
        return Concept(0.0, 0.0)
    shares = (by_both - by_label)[told] / spread[told]
    return Concept(float(shares.mean().clip(0, 1)), (cells - count) / (len(y) - count))


def _explained(x: Array, group: Array) -> tuple[Array, int]:
    """The sum over groups of n m^2 in each dimension, and how many groups there are."""
    _, number, rows = np.unique(group, return_inverse=True, return_counts=True)
    sums = np.stack([np.bincount(number, weights=column) for column in x.T], axis=1)
    return (sums**2 / rows[:, None]).sum(axis=0), len(rows)
