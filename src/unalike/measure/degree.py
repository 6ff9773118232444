"""How far a party's distribution is from that of all parties, in numbers from 0 (identical) to 1.

F is the party's CDF and G the global one, known in P points (labels in their order, or bins); f and g are their
steps. With d = F - G:

kolmogorov_smirnov: max |d|. The largest share of rows by which the party is ahead or behind anywhere: 0.3 means
    that for some label or value, 30 percentage points more (or fewer) of its rows come up to there. 1: the two
    have nothing in common and one lies wholly before the other.
area: the mean of |d| over the first P - 1 points. That is the Wasserstein-1 (earth mover's) distance where
    neighbouring points are 1 / (P - 1) apart, that is divided by the range: how far an average row would have to
    move, as a share of the range. 1: all rows of one at one end, all of the other at the other end.
cramer_von_mises: sqrt(3 I), where I is the integral of d^2 over H = (F + G) / 2 with rows of one point spread
    evenly over it: I = sum over points of h_j (d_{j-1}^2 + d_{j-1} d_j + d_j^2) / 3. I is at most 1/3, and is 1/3
    where one lies wholly before the other: a typical rather than the largest |d|, and no feature's scale matters.
total_variation: sum |f - g| / 2. The share of the party's rows that would have to change their label. The only one
    of the four that does not depend on the order of labels; for nominal labels, such as kinds of animals, read it
    beside the others: they can be small where neighbouring labels stand in for each other.

G includes the party's own rows, so no degree exceeds 1 - its share of the rows (weighting "rows").

No finite sample is exactly like the whole: ``expected`` tells what an even, random split would show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from unalike.data.dataset import Array
from unalike.measure.cdf import Cdf
from unalike.measure.support import DistributionPolicy

_DRAWS = 1024
_MOST_NUMBERS = 1 << 22  # in all draws together
_SEED = 1933  # constant: the same distribution always has the same expectation


@dataclass(frozen=True)
class Degree:
    """Four distances from 0 (identical) to 1; the module's text says what each means."""

    kolmogorov_smirnov: float
    area: float
    cramer_von_mises: float
    total_variation: float


@dataclass(frozen=True)
class OwnDegrees:
    """A party's exact degrees, which it keeps (``publish`` tells what leaves it).

    mean, worst: over the dimensions, which for labels is one. dimensions: each of them.
    expected: ``mean`` as a random even split into parties of these sizes would show it.
    share: its share of all rows. quantity: its distance to an equal share.
    """

    mean: Degree
    worst: Degree
    dimensions: tuple[Degree, ...]
    expected: Degree
    share: float
    quantity: float


def distances(one: Array, other: Array) -> Array:
    """The four distances of CDFs along the last axis, stacked first in the order of ``Degree``; symmetric."""
    weights = (_steps(one) + _steps(other)) / 2
    return _sizes(one - other, weights).clip(0, 1)


def degree(one: Array, other: Array) -> Degree:
    """The distance of two CDFs that are known in the same points."""
    return _degree(distances(one, other))


def expected(policy: DistributionPolicy, everyone: Cdf, rows: int) -> Degree:
    """The degree that ``rows`` rows, drawn at random from all rows, would show on average (mean over dimensions).

    F - G is then a Brownian bridge in G's points times sqrt((1 - n_k/n) / n_k) (n_k rows of n, drawn without
    replacement); means over random bridges. A continuous variable has 0.87 / sqrt(n_k) for Kolmogorov-Smirnov
    where n_k is small beside n; labels have less. With the weighting "parties" 1 - 1/N stands for 1 - n_k/n, which
    is exact where all parties have as many rows.
    """
    others = 1 - rows / everyone.rows if policy.weighting == "rows" else 1 - 1 / policy.parties
    spread = math.sqrt(max(others, 0.0) / rows)
    return _degree((spread * _bridge_sizes(everyone)).clip(0, 1))


def compare(policy: DistributionPolicy, own: Cdf, everyone: Cdf, parties: int) -> OwnDegrees:
    """Step 10, a party: its degrees. ``parties`` are those whose rows are in ``everyone``."""
    found = distances(own.values, everyone.values)
    fair = everyone.rows / parties
    return OwnDegrees(
        mean=_degree(found.mean(axis=1)),
        worst=_degree(found.max(axis=1)),
        dimensions=tuple(map(_degree, found.T)),
        expected=expected(policy, everyone, own.rows),
        share=min(own.rows / everyone.rows, 1.0),
        quantity=1 - min(own.rows, fair) / max(own.rows, fair),
    )


def _degree(four: Array) -> Degree:
    return Degree(*map(float, four))


def _steps(cdf: Array) -> Array:
    return np.diff(cdf, axis=-1, prepend=0.0)


def _sizes(difference: Array, weights: Array) -> Array:
    """The four sizes of d = F - G, where ``weights`` are the steps of H."""
    inner = np.abs(difference[..., :-1])
    before = np.concatenate([np.zeros_like(difference[..., :1]), difference[..., :-1]], axis=-1)
    squares = before**2 + before * difference + difference**2
    return np.stack(
        [
            inner.max(axis=-1, initial=0.0),
            inner.mean(axis=-1) if inner.shape[-1] else np.zeros(inner.shape[:-1]),
            np.sqrt((weights * squares).sum(axis=-1).clip(0)),
            np.abs(_steps(difference)).sum(axis=-1) / 2,
        ]
    )


@lru_cache(maxsize=4)  # the same for all parties
def _bridge_sizes(everyone: Cdf) -> Array:
    """The mean sizes of a Brownian bridge in the points of G, averaged over the dimensions."""
    steps = everyone.pdf
    draws = int(np.clip(_MOST_NUMBERS // steps.size, 32, _DRAWS))
    noise = np.random.default_rng(_SEED).standard_normal((draws, *steps.shape)) * np.sqrt(steps)
    walk = noise.cumsum(axis=-1)
    bridge = walk - everyone.values * walk[..., -1:]
    sizes: Array = _sizes(bridge, steps).mean(axis=(1, 2))
    return sizes


def meaning(of: str, mean: float, chance: float) -> str:
    """A federation's mean K-S in words, beside what chance makes of it; bounds are those of docs/measure.md."""
    value = "label" if of == "labels" else "value"
    if mean <= 1.5 * chance:
        return f"That is what chance makes of a random split: no sign that the parties' {of} differ."
    often = (
        f"up to some {value}, a party has on average {100 * mean:.0f} percentage points more or fewer of its rows"
    )
    how = "mildly" if mean < 0.15 else "clearly" if mean < 0.3 else "strongly"
    return f"The parties are {how} unlike: {often} than all parties together."
