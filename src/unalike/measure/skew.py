"""Figures of label and quantity skew, from how many rows of each label each party holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unalike.data.dataset import Array
from unalike.errors import UserError

_BLOCK = 1 << 20  # numbers in one block of pairs: large enough for numpy, small enough for the cache
MOST_PARTIES = 2000
"""Parties up to which all pairs are compared; among more of them, a sample."""
SAMPLED_PAIRS = 200_000
"""Pairs in that sample. A mean of distances in [0, 1] is then off by no more than 0.0012 as a standard error."""
_SAMPLE_SEED = 2000  # constant: the same table always gives the same figures


@dataclass(frozen=True, eq=False)
class LabelSkew:
    """How unalike the labels of K parties are; all logarithms are to base 2.

    ``p_k`` is the label distribution of party k, ``n_k`` its number of rows, ``g`` the label distribution of
    all rows together, ``H(p) = -sum_c p_c log p_c``. A mean over pairs is over the K (K - 1) / 2 unordered
    pairs and is 0 for a single party; above ``MOST_PARTIES`` it is over a fixed random sample of ``SAMPLED_PAIRS``
    of them, drawn with replacement.

    entropy: ``H(p_k)`` in bits for each party: 0 for a single label, log2 C for C even labels.
    total_variation: ``1/2 sum_c |p_kc - g_c|`` for each party, in [0, 1].
    jensen_shannon: mean over pairs of the distance ``sqrt(H((p + q) / 2) - (H(p) + H(q)) / 2)``, in [0, 1].
    hellinger: mean over pairs of ``sqrt(1/2 sum_c (sqrt p_c - sqrt q_c)^2)``, in [0, 1].
    earth_mover: mean over pairs of the earth mover's distance where any two labels are 1 apart, in [0, 1]. That is
    the total variation ``1/2 sum_c |p_c - q_c|``: the share of rows that would have to change their label. The
    order of labels plays no part, as classes have none.
    pairs: how many pairs these three means are over.
    label_entropy: ``H(g)`` in bits, of the labels of all rows together.
    quantity_entropy: ``H(n / sum n)`` in bits: log2 K for equal sizes, 0 where one party has all.
    quantity_imbalance: ``1 - H(n / sum n) / log K``: 0 for equal sizes, towards 1 where one party has all.
    """

    entropy: Array
    total_variation: Array
    jensen_shannon: float
    hellinger: float
    earth_mover: float
    pairs: int
    label_entropy: float
    quantity_entropy: float
    quantity_imbalance: float

    @property
    def estimated(self) -> bool:
        """Whether the means over pairs come from a sample of the pairs."""
        return len(self.entropy) > MOST_PARTIES


def label_skew(counts: Array) -> LabelSkew:
    """The skew of a party-by-label table of counts; time grows with pairs of parties times labels."""
    _check(counts)
    table = counts.astype(np.float64)
    sizes = table.sum(axis=1)
    shares = table / sizes[:, None]
    everyone = table.sum(axis=0) / table.sum()
    parties = len(table)
    sampled = parties > MOST_PARTIES
    distances = _mean_over_sample(shares) if sampled else _mean_over_pairs(shares)
    return LabelSkew(
        entropy=_entropy(shares),
        total_variation=np.abs(shares - everyone).sum(axis=1) / 2,
        jensen_shannon=float(distances[0]),
        hellinger=float(distances[1]),
        earth_mover=float(distances[2]),
        pairs=SAMPLED_PAIRS if sampled else parties * (parties - 1) // 2,
        label_entropy=float(_entropy(everyone)),
        quantity_entropy=float(_entropy(sizes / sizes.sum())),
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


def _distances(p: Array, q: Array) -> Array:
    """Jensen-Shannon, Hellinger and earth mover's distance of distributions along the last axis, stacked first."""
    divergence = _entropy((p + q) / 2) - (_entropy(p) + _entropy(q)) / 2
    squares = ((np.sqrt(p) - np.sqrt(q)) ** 2).sum(axis=-1) / 2
    moved = np.abs(p - q).sum(axis=-1) / 2
    # clip: rounding may leave -1e-17 where two parties are alike.
    return np.stack([np.sqrt(divergence.clip(0, 1)), np.sqrt(squares.clip(0, 1)), moved.clip(0, 1)])


def _mean_over_pairs(shares: Array) -> Array:
    """The mean distances, a block of parties against all later ones at a time."""
    parties, labels = shares.shape
    total = np.zeros(3)
    step = max(1, _BLOCK // (parties * labels))
    for first in range(0, parties, step):
        block = shares[first : first + step]
        later = shares[first:]
        once = np.triu(np.ones((len(block), len(later)), bool), k=1)  # each pair once, no party with itself
        total += _distances(block[:, None], later[None])[:, once].sum(axis=1)
    mean: Array = total / max(parties * (parties - 1) // 2, 1)
    return mean


def _mean_over_sample(shares: Array) -> Array:
    """The mean distances of ``SAMPLED_PAIRS`` random pairs of two parties, a block of pairs at a time."""
    rng = np.random.default_rng(_SAMPLE_SEED)
    parties, labels = shares.shape
    one = rng.integers(parties, size=SAMPLED_PAIRS)
    other = (one + rng.integers(1, parties, size=SAMPLED_PAIRS)) % parties  # never the same party
    total = np.zeros(3)
    step = max(1, _BLOCK // labels)
    for first in range(0, SAMPLED_PAIRS, step):
        block = slice(first, first + step)
        total += _distances(shares[one[block]], shares[other[block]]).sum(axis=1)
    mean: Array = total / SAMPLED_PAIRS
    return mean


def _quantity_imbalance(sizes: Array) -> float:
    if len(sizes) == 1:
        return 0.0
    even = float(_entropy(sizes / sizes.sum())) / float(np.log2(len(sizes)))
    return min(max(1.0 - even, 0.0), 1.0)
