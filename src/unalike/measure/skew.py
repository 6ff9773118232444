"""Figures of label and quantity skew, from how many rows of each label each party holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unalike.data.dataset import Array
from unalike.errors import UserError

_BLOCK = 1 << 20  # numbers in one block of pairs: large enough for numpy, small enough for the cache


@dataclass(frozen=True, eq=False)
class LabelSkew:
    """How unalike the labels of K parties are; all logarithms are to base 2.

    ``p_k`` is the label distribution of party k, ``n_k`` its number of rows, ``g`` the label distribution of
    all rows together, ``H(p) = -sum_c p_c log p_c``. A mean over pairs is over the K (K - 1) / 2 unordered
    pairs and is 0 for a single party.

    entropy: ``H(p_k)`` in bits for each party: 0 for a single label, log2 C for C even labels.
    total_variation: ``1/2 sum_c |p_kc - g_c|`` for each party, in [0, 1].
    jensen_shannon: mean over pairs of the distance ``sqrt(H((p + q) / 2) - (H(p) + H(q)) / 2)``, in [0, 1].
    hellinger: mean over pairs of ``sqrt(1/2 sum_c (sqrt p_c - sqrt q_c)^2)``, in [0, 1].
    quantity_imbalance: ``1 - H(n / sum n) / log K``: 0 for equal sizes, towards 1 where one party has all.
    """

    entropy: Array
    total_variation: Array
    jensen_shannon: float
    hellinger: float
    quantity_imbalance: float


def label_skew(counts: Array) -> LabelSkew:
    """The skew of a party-by-label table of counts; time grows with parties squared times labels."""
    _check(counts)
    table = counts.astype(np.float64)
    sizes = table.sum(axis=1)
    shares = table / sizes[:, None]
    everyone = table.sum(axis=0) / table.sum()
    jensen_shannon, hellinger = _mean_over_pairs(shares)
    return LabelSkew(
        entropy=_entropy(shares),
        total_variation=np.abs(shares - everyone).sum(axis=1) / 2,
        jensen_shannon=jensen_shannon,
        hellinger=hellinger,
        quantity_imbalance=_quantity_imbalance(sizes),
    )


def _check(counts: Array) -> None:
    remedy = "Give one line of counts for each party."
    if counts.ndim != 2 or 0 in counts.shape:
        raise UserError(f"A party-by-label table has two dimensions, got the shape {counts.shape}. {remedy}")
    if not np.isfinite(counts).all() or counts.min() < 0:
        raise UserError(f"Counts must be finite and >= 0, got {counts.min()}. {remedy}")
    empty = np.flatnonzero(counts.sum(axis=1) == 0)
    if len(empty):
        raise UserError(f"Party {empty[0]} has no rows, so no label distribution. Leave it out.")


def _entropy(shares: Array) -> Array:
    """The entropy in bits of each distribution along the last axis, with 0 log 0 = 0."""
    # + 0.0 turns the -0.0 of a single label into 0.0
    entropy: Array = -(shares * np.log2(np.where(shares > 0, shares, 1))).sum(axis=-1) + 0.0
    return entropy


def _mean_over_pairs(shares: Array) -> tuple[float, float]:
    """The mean Jensen-Shannon and Hellinger distances, a block of parties against all later ones at a time."""
    parties, labels = shares.shape
    pairs = parties * (parties - 1) // 2
    if pairs == 0:
        return 0.0, 0.0
    entropy, roots = _entropy(shares), np.sqrt(shares)
    jensen_shannon = hellinger = 0.0
    step = max(1, _BLOCK // (parties * labels))
    for first in range(0, parties, step):
        block = slice(first, min(first + step, parties))
        later = slice(first, parties)
        width, height = parties - first, block.stop - first
        divergence = _entropy((shares[block, None] + shares[None, later]) / 2)
        divergence -= (entropy[block, None] + entropy[None, later]) / 2
        once = np.triu(np.ones((height, width), bool), k=1)  # each pair once, no party with itself
        # clip: rounding may leave -1e-17 where two parties are alike.
        jensen_shannon += float(np.sqrt(divergence.clip(0, 1))[once].sum())
        squares = ((roots[block, None] - roots[None, later]) ** 2).sum(axis=-1) / 2
        hellinger += float(np.sqrt(squares.clip(0, 1))[once].sum())
    return jensen_shannon / pairs, hellinger / pairs


def _quantity_imbalance(sizes: Array) -> float:
    if len(sizes) == 1:
        return 0.0
    even = float(_entropy(sizes / sizes.sum())) / float(np.log2(len(sizes)))
    return min(max(1.0 - even, 0.0), 1.0)
