"""The best split of a node, from exact integer sums alone: a pure function of its histogram.

A split's gain is G_l^2 / (H_l + l2) + G_r^2 / (H_r + l2) - G^2 / (H + l2), as in xgboost, in float64 from
integers. Of equal ones the lowest column wins; in a column missing values on the right, at the lowest bin, before
missing values on the left, at the highest bin: xgboost's order.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unalike.errors import UserError
from unalike.models.trees import Trees
from unalike.trees.arithmetic import GRID, Floats
from unalike.trees.cuts import Cuts

LEAST_GAIN: Final = 1e-6
"""A split must gain more, whatever the settings say, as in xgboost."""
POISSON_STEP: Final = 0.7
"""With counts, what a leaf may add before shrinkage, as in xgboost."""
UNBOUNDED: Final = (-np.inf, np.inf)


@dataclass(frozen=True, eq=False)
class Splits:
    """The best split of each of several nodes; ``feature`` is -1 where there is none.

    Rows in ``bin`` or a lower one go left. ``left`` are the sums of the left child, int64 [nodes, channels], and
    ``weights`` the values of both children before shrinkage.
    """

    feature: NDArray[np.int32]
    bin: NDArray[np.int32]
    missing_left: NDArray[np.uint8]
    gain: Floats
    left: NDArray[np.int64]
    weights: Floats


def channels_of(settings: Trees) -> int:
    """How many sums a slot has: first and second derivatives, and rows where a child needs more than one."""
    return 3 if settings.least_rows > 1 else 2


def least_sum(settings: Trees) -> int:
    """The least sum of second derivatives that a child has, in units of the grid; never none."""
    return min(max(1, ceil(settings.least_weight * GRID)), 2**60)


def directions(settings: Trees, features: int) -> NDArray[np.int8]:
    """For each column 1 where it may only raise what is predicted, -1 where only lower it, else 0."""
    result = np.zeros(features, np.int8)
    for sign, name in ((1, "rising"), (-1, "falling")):
        for feature in getattr(settings, name):
            if not 0 <= feature < features:
                raise UserError(
                    f"trees: {name} names column {feature}, the data have {features}: counted from 0 they are "
                    f"0 to {features - 1}."
                )
            result[feature] = sign
    return result


def first_bounds(settings: Trees) -> tuple[float, float]:
    """What the root's weight is held between."""
    return (-POISSON_STEP, POISSON_STEP) if settings.objective == "poisson" else UNBOUNDED


def is_bounded(settings: Trees) -> bool:
    """Whether weights are held between bounds, which changes how a gain is computed."""
    return bool(settings.objective == "poisson" or settings.rising or settings.falling)


def weight(g: NDArray[Any], h: NDArray[Any], settings: Trees, bounds: Floats) -> Floats:
    """The value of a node before shrinkage, -G / (H + l2) within its bounds; 0 where H is below what is needed.

    ``g`` and ``h`` are integer sums; ``bounds`` has the lower and upper bound in its last axis.
    """
    enough = h >= least_sum(settings)
    down = np.where(enough, h / GRID + settings.l2, 1.0)
    value = np.where(enough, -(g / GRID) / down, 0.0)
    return np.minimum(np.maximum(value, bounds[..., 0]), bounds[..., 1]) + 0.0  # never minus zero


def _score(g: NDArray[Any], h: NDArray[Any], settings: Trees, bounds: Floats) -> Floats:
    """What a node's sums are worth: the part of a gain that is its own."""
    enough = h >= least_sum(settings)
    G, down = g / GRID, np.where(enough, h / GRID + settings.l2, 1.0)
    if is_bounded(settings):
        w = weight(g, h, settings, bounds)
        return np.where(enough, -(2.0 * G * w + down * (w * w)), 0.0)
    return np.where(enough, G * G / down, 0.0)


def best_splits(
    hist: NDArray[np.int64],
    cuts: Cuts,
    settings: Trees,
    allowed: NDArray[np.bool_] | None = None,
    bounds: Floats | None = None,
) -> Splits:
    """The best split of each node of ``hist``, int64 [nodes, slots, channels].

    ``allowed`` says which columns may be split on; ``bounds``, float64 [nodes, 2], what weights are held between.
    """
    nodes = len(hist)
    if bounds is None:
        bounds = np.tile(np.array(first_bounds(settings)), (nodes, 1))
    begins, lasts = cuts.offsets[:-1], cuts.offsets[1:] - 1
    widths = np.diff(cuts.offsets)
    # Sums up to and with each bin of its column; whole columns are one node's sums.
    running = np.cumsum(hist, axis=1)
    before = np.repeat(running[:, begins] - hist[:, begins], widths, axis=1)
    present = running - before
    total = present[:, lasts[0]]
    missing = np.repeat(hist[:, lasts], widths, axis=1)
    may = np.repeat(np.ones(cuts.features, bool) if allowed is None else allowed, widths)
    may[lasts] = False  # behind the missing there is nothing to the right
    signs = np.repeat(directions(settings, cuts.features), widths)
    gains = [gains_of(left, total, may, signs, settings, bounds) for left in (present, present + missing)]
    order = _order(cuts.offsets)
    best = order[np.argmax(np.concatenate(gains, axis=1)[:, order], axis=1)]
    slot, to_left = best % cuts.slots, best // cuts.slots
    every = np.arange(nodes)
    gain, left = np.where(to_left, gains[1][every, slot], gains[0][every, slot]), present[every, slot].copy()
    left[to_left == 1] += missing[every, slot][to_left == 1]
    feature = np.searchsorted(cuts.offsets, slot, side="right") - 1
    bin = slot - cuts.offsets[feature]
    unseen = ~missing[every, slot].any(axis=1)
    larger = left[:, 1] > (total - left)[:, 1]
    none = ~((gain > LEAST_GAIN) & (gain >= settings.gain))
    feature, bin = np.where(none, -1, feature), np.where(none, -1, bin)
    weights = np.stack([weight(part[:, 0], part[:, 1], settings, bounds) for part in (left, total - left)], axis=1)
    return Splits(
        feature.astype(np.int32),
        bin.astype(np.int32),
        np.where(none, 0, np.where(unseen, larger, to_left)).astype(np.uint8),
        np.where(none, 0.0, gain),
        np.where(none[:, None], 0, left),
        np.where(none[:, None], 0.0, weights),
    )


def _order(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """In which order splits are looked at: numbers below the number of slots have missing values on the right."""
    pairs = itertools.pairwise(offsets.tolist())
    slots = int(offsets[-1])
    return np.concatenate([[*range(a, b), *range(slots + b - 1, slots + a - 1, -1)] for a, b in pairs])


def gains_of(
    left: NDArray[np.int64],
    total: NDArray[np.int64],
    may: NDArray[np.bool_],
    signs: NDArray[np.int8],
    settings: Trees,
    bounds: Floats,
) -> Floats:
    """The gain of each split of nodes, float64 [nodes, splits]; minus infinity where it may not be.

    ``left`` are the sums that go left, int64 [nodes, splits, channels], and ``total`` those of the nodes.
    """
    right = total[:, None] - left
    least, around = least_sum(settings), bounds[:, None]
    fits = may & (left[..., 1] >= least) & (right[..., 1] >= least)
    if left.shape[2] == 3:
        fits &= (left[..., 2] >= settings.least_rows) & (right[..., 2] >= settings.least_rows)
    if signs.any():
        lower = weight(left[..., 0], left[..., 1], settings, around)
        upper = weight(right[..., 0], right[..., 1], settings, around)
        fits &= np.where(signs > 0, lower <= upper, np.where(signs < 0, lower >= upper, True))
    whole = _score(total[:, 0], total[:, 1], settings, bounds)[:, None]
    parts = _score(left[..., 0], left[..., 1], settings, around) + _score(
        right[..., 0], right[..., 1], settings, around
    )
    return np.where(fits, parts - whole, -np.inf)
