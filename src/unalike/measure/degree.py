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
    of the four that does not depend on the order of labels, to the last bit: whoever numbers the classes anew gets
    the same number. The others can double or halve.

Labels are names, such as kinds of animals, unless somebody says that they are in order: so total variation is the
degree that stands first for labels ("tv"). Kolmogorov-Smirnov stands first for features, and on request for labels
that have an order ("cdf": the distance of the CDFs that the paper adds up).

G includes the party's own rows, so no degree exceeds 1 - its share of the rows (weighting "rows").

No finite sample is exactly like the whole: ``expected`` tells what an even, random split would show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from unalike.data.dataset import Array
from unalike.errors import UserError, unknown
from unalike.measure.cdf import Cdf
from unalike.measure.support import DistributionPolicy, Of

Headline = Literal["tv", "cdf"]
"""Which degree stands first: total variation, or the Kolmogorov-Smirnov distance of the CDFs."""
METRIC: Mapping[Headline, str] = {"tv": "total_variation", "cdf": "kolmogorov_smirnov"}
"""By headline, its field of a ``Degree``."""
SHORT: Mapping[Headline, str] = {"tv": "TV", "cdf": "K-S"}
"""By headline, its name in tables and figures."""
_ORDERED = {"K-S": "kolmogorov_smirnov", "area": "area", "CvM": "cramer_von_mises"}
_BOUNDS: Mapping[Headline, tuple[float, float]] = {"tv": (0.25, 0.5), "cdf": (0.15, 0.3)}  # docs/measure.md
_DRAWS = 1024
_MOST_NUMBERS = 1 << 18  # in all draws together; of 64 bins, 4096 random bridges over all dimensions
_SEED = 1933  # constant: the same distribution always has the same expectation


@dataclass(frozen=True)
class Degree:
    """Four distances from 0 (identical) to 1; the module's text says what each means."""

    kolmogorov_smirnov: float
    area: float
    cramer_von_mises: float
    total_variation: float

    def at(self, headline: Headline) -> float:
        """The degree that stands first in tables and figures: total variation, or Kolmogorov-Smirnov."""
        value: float = getattr(self, METRIC[headline])
        return value


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


def headline(of: Of, wish: str | None = None) -> Headline:
    """The degree that stands first: the one wished for, else "tv" of labels and "cdf" of features."""
    if wish is None:
        return "tv" if of == "labels" else "cdf"
    if wish == "tv" and of == "features":
        raise UserError("The degree tv of features would depend on how wide their bins are. Use cdf.")
    for known in get_args(Headline):
        if wish == known:
            return known  # type: ignore[no-any-return]
    raise unknown("degree", wish, get_args(Headline))


def shown(of: Of, first: Headline) -> dict[str, str]:
    """The degrees that a table shows, by short name, the headline first; where labels have no order, only that."""
    variation = {SHORT["tv"]: METRIC["tv"]} if of == "labels" else {}
    return variation if first == "tv" else {**_ORDERED, **variation}


def distances(one: Cdf, other: Cdf) -> Array:
    """The four distances in each dimension, stacked first in the order of ``Degree``; symmetric."""
    along = _sizes(one.values - other.values, (one.pdf + other.pdf) / 2)
    return np.concatenate([along, [_any_order(np.abs(one.pdf - other.pdf)) / 2]]).clip(0, 1)


def expected(policy: DistributionPolicy, everyone: Cdf, rows: int) -> Degree:
    """The degree that ``rows`` rows, drawn at random from all rows, would show on average (mean over dimensions).

    F - G is then a Brownian bridge in G's points times sqrt((1 - n_k/n) / n_k) (n_k rows of n, drawn without
    replacement). Total variation: a step of the bridge over a label with the share g is normal with the variance
    g (1 - g), so that sum sqrt(2 / pi g (1 - g)) / 2 is expected. The other three are means over random bridges: a
    continuous variable has 0.87 / sqrt(n_k) for Kolmogorov-Smirnov where n_k is small beside n; labels have less.
    With the weighting "parties" 1 - 1/N stands for 1 - n_k/n, which is exact where all parties have as many rows.
    """
    others = 1 - rows / everyone.rows if policy.weighting == "rows" else 1 - 1 / policy.parties
    spread = math.sqrt(max(others, 0.0) / rows)
    return _degree((spread * _bridge_sizes(everyone)).clip(0, 1))


def compare(policy: DistributionPolicy, own: Cdf, everyone: Cdf, parties: int) -> OwnDegrees:
    """Step 10, a party: its degrees. ``parties`` are those whose rows are in ``everyone``."""
    found = distances(own, everyone)
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


def _any_order(sizes: Array) -> Array:
    """Their sum along the last axis, with the same bits in whatever order they are."""
    total: Array = np.sort(sizes, axis=-1).sum(axis=-1)
    return total


def _sizes(difference: Array, weights: Array) -> Array:
    """The sizes of d = F - G that depend on the order of points, where ``weights`` are the steps of H."""
    inner = np.abs(difference[..., :-1])
    before = np.concatenate([np.zeros_like(difference[..., :1]), difference[..., :-1]], axis=-1)
    squares = before**2 + before * difference + difference**2
    return np.stack(
        [
            inner.max(axis=-1, initial=0.0),
            inner.mean(axis=-1) if inner.shape[-1] else np.zeros(inner.shape[:-1]),
            np.sqrt((weights * squares).sum(axis=-1).clip(0)),
        ]
    )


@lru_cache(maxsize=4)  # the same for all parties
def _bridge_sizes(everyone: Cdf) -> Array:
    """The expected sizes of a Brownian bridge in the points of G, averaged over the dimensions."""
    steps = everyone.pdf
    draws = int(np.clip(_MOST_NUMBERS // steps.size, 32, _DRAWS))
    noise = np.random.default_rng(_SEED).standard_normal((draws, *steps.shape)) * np.sqrt(steps)
    walk = noise.cumsum(axis=-1)
    bridge = walk - everyone.values * walk[..., -1:]
    varying = _any_order(np.sqrt(2 / math.pi * steps * (1 - steps))) / 2
    return np.append(_sizes(bridge, steps).mean(axis=(1, 2)), varying.mean())


def meaning(of: Of, first: Headline, mean: float, chance: float) -> str:
    """A federation's mean degree in words, beside what chance makes of it; bounds are those of docs/measure.md."""
    if mean <= 1.5 * chance:
        return f"That is what chance makes of a random split: no sign that the parties' {of} differ."
    mild, clear = _BOUNDS[first]
    how = "mildly" if mean < mild else "clearly" if mean < clear else "strongly"
    share, value = f"{100 * mean:.0f}", "label" if of == "labels" else "value"
    if first == "tv":
        what = f"on average {share} % of a party's rows would have to change their label to be distributed as"
        return f"The parties are {how} unlike: {what} those of all parties together."
    what = f"up to some {value}, a party has on average {share} percentage points more or fewer of its rows"
    return f"The parties are {how} unlike: {what} than all parties together."
