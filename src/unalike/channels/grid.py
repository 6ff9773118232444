"""Fixed point: numbers as whole multiples of a power of two, whose sums are exact and hide nothing by rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from unalike.channels.errors import ChannelError
from unalike.channels.layout import Array, Layout
from unalike.channels.setting import ChannelSetting
from unalike.channels.stage import Grid, Hidden
from unalike.errors import UserError

FEWEST_BITS = 6
"""Bits after the point below which a grid is refused as too coarse."""


def fraction_bits(hidden: Hidden, cohort: int) -> int:
    """How many bits after the point fit, so that no sum over the cohort can wrap."""
    largest = hidden.largest(cohort)
    bits = math.floor(math.log2(largest / hidden.range)) if largest else -1
    while bits >= FEWEST_BITS and _steps(hidden.range, bits) > largest:
        bits -= 1
    if bits < FEWEST_BITS:
        raise UserError(
            f"A range of {hidden.range:g} leaves {cohort} parties fewer than {FEWEST_BITS} bits after the point. "
            "Lower the range, or use more bits: masked(64), encrypted(limbs=2)."
        )
    return bits


def weighted(vector: Array, layout: Layout, head: Sequence[float], scale: float) -> Array:
    """What is added: entries times weight / scale (plain ones as they are), then weight and weight x loss."""
    vector = vector.astype(np.float64)
    if not head:
        return vector
    share = head[0] / scale
    return np.concatenate([vector * layout.weights(share), [share], [share * loss for loss in head[1:]]])


def encode(
    values: Array, layout: Layout, hidden: Hidden, setting: ChannelSetting, towards_zero: bool, places: Array
) -> Grid:
    """The values of these places on the grid; one beyond the range is an error, never a wrap."""
    bits = fraction_bits(hidden, setting.cohort)
    beyond = np.flatnonzero(~(np.abs(values) <= hidden.range))
    if len(beyond):
        place, after = int(beyond[0]), int(beyond[0]) - len(places)
        name = layout.key_at(int(places[place])) if after < 0 else ("weight", "loss")[after]
        value = float(values[place])
        raise ChannelError(
            f"Party {setting.party}'s {name} has the value {value:.6g}, beyond the channel's range of "
            f"{hidden.range:g}. Write range={_next_power(abs(value)):g}, or clip first."
        )
    scaled = np.ldexp(values, bits)
    rounded = np.trunc(scaled) if towards_zero else np.rint(scaled)
    return hidden.split(rounded.astype(np.int64), setting.cohort)


def decode(total: Grid, size: int, hidden: Hidden, setting: ChannelSetting) -> Array:
    """The sum of values from the sum of grids."""
    bits = fraction_bits(hidden, setting.cohort)
    length = len(hidden.split(np.zeros(size, np.int64), setting.cohort))
    if not isinstance(total, np.ndarray) or total.dtype != np.int64 or total.shape != (length,):
        raise ChannelError(f"The sum must have {length} whole numbers (int64).")
    total = hidden.join(total, setting.cohort)
    most = setting.cohort * _steps(hidden.range, bits)
    if len(total) and max(int(total.max()), -int(total.min())) > most:
        raise ChannelError(f"The sum has entries beyond {most}, which {setting.cohort} parties cannot add up to.")
    return np.ldexp(total.astype(np.float64), -bits)


def _steps(range: float, bits: int) -> int:
    """The grid steps of the largest value, rounding included."""
    return math.ceil(math.ldexp(range, bits))


def _next_power(value: float) -> float:
    return 2.0 ** math.ceil(math.log2(value)) if 0 < value < 1e300 else value
