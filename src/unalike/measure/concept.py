"""Do parties mean the same by a label? Rows of one label, compared between the parties that have it.

Of the spread of the features around the mean of all rows with the same label, the share that lies between parties:

    concept = sum_c sum_k n_kc (m_kc - m_c)^2 / sum_c sum_i (x_i - m_c)^2

in each dimension, mean over dimensions; m_c is the mean of the rows with label c, m_kc that of party k's. 0: rows
of a label are alike everywhere. An even random split shows (cells - labels) / (rows - labels), where cells are the
pairs of party and label that have rows.

Other shares of the labels (label skew) leave it alone. It grows where features are shifted (P(x | y) differs with
P(x)), and where the same features have other labels (P(y | x) differs): in the second case P(x) stays as it is.
So features must be known to be alike as a whole, and not one by one only. ``together`` is the same share, of the
products of two features and without regard to labels. Only means are compared: a difference that leaves them in
place is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unalike.data.dataset import Array
from unalike.measure.extract import PROJECTED, project


class BetweenParties(NamedTuple):
    """The share of a spread that lies between parties, and what an even random split would show."""

    degree: float
    expected: float


def concept_of(features: Sequence[Array], labels: Sequence[Array]) -> BetweenParties:
    """From each party's rows: features [rows, dimensions] and labels [rows], whole numbers from 0 on."""
    return _between(np.concatenate(features).astype(np.float64), np.concatenate(labels), _party(features))


def together_of(features: Sequence[Array]) -> BetweenParties:
    """Whether features differ two by two: the products of all pairs; of many dimensions, of a projection."""
    x = np.concatenate(features).astype(np.float64)
    if x.shape[1] > PROJECTED:
        x = project(x)
    x = x - x.mean(axis=0)
    one, other = np.triu_indices(x.shape[1])
    return _between(x[:, one] * x[:, other], np.zeros(len(x), np.int64), _party(features))


def _party(features: Sequence[Array]) -> Array:
    return np.repeat(np.arange(len(features)), [len(own) for own in features])


def _between(x: Array, group: Array, party: Array) -> BetweenParties:
    by_group, count = _explained(x, group)
    by_both, cells = _explained(x, group * (party.max() + 1) + party)
    spread = (x**2).sum(axis=0) - by_group
    told = spread > 1e-9 * (1 + by_group)  # a column that the label decides says nothing
    if not told.any() or len(x) <= count:
        return BetweenParties(0.0, 0.0)
    shares = (by_both - by_group)[told] / spread[told]
    return BetweenParties(float(shares.mean().clip(0, 1)), (cells - count) / (len(x) - count))


def _explained(x: Array, group: Array) -> tuple[Array, int]:
    """The sum over groups of n m^2 in each dimension, and how many groups there are."""
    _, number, rows = np.unique(group, return_inverse=True, return_counts=True)
    sums = np.stack([np.bincount(number, weights=column) for column in x.T], axis=1)
    return (sums**2 / rows[:, None]).sum(axis=0), len(rows)
