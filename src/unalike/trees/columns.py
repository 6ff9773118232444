"""What trees look at, in words and units that people know: names of columns, thresholds as the table has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from unalike.data.dataset import Units
    from unalike.data.schema import Schema

Array = NDArray[Any]
_FEW_DIGITS = 4
"""By chance, one threshold in a thousand has a number of so few digits."""
_MOST = float(np.finfo(np.float32).max)
"""The threshold of a node where only missing numbers go right."""


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns that trees look at: their names, and how the numbers in a table were coded for training.

    A table's number v was coded as the single-precision number ``(v - shift) / scale``.
    """

    names: tuple[str, ...]
    shift: Array
    scale: Array
    schema: Schema | None = None
    gaps: bool = True
    """whether a missing number is missing to the trees, too, and not coded as 0"""

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        features: int,
        units: Units | None = None,
        schema: Schema | None = None,
        gaps: bool = True,
    ) -> Columns:
        """Those of a training: without names they are x0, x1 and so on, without units as they are."""
        shift, scale = (0.0, 1.0) if units is None else units
        each = [np.broadcast_to(np.asarray(part, np.float64), (features,)) for part in (shift, scale)]
        return cls(names_of(names, features), each[0], each[1], schema, gaps or units is None)

    def thresholds(self, feature: Array, threshold: Array) -> Array:
        """The thresholds of nodes that look at these features, in the units of the table (float64).

        A table's number is below it where its coding is below the threshold. Of the numbers that are coded as just
        the threshold it is one with few digits, if there is one: 45, and not 44.99999987.
        """
        both = np.stack([feature, threshold.astype(np.float64)], axis=-1)
        pairs, place = np.unique(both, axis=0, return_inverse=True)
        column, coded = pairs[:, 0].astype(int), pairs[:, 1].astype(np.float32)
        shift, scale = self.shift[column], self.scale[column]
        low = _least(coded, shift, scale)
        with np.errstate(over="ignore"):
            high = _least(np.nextafter(coded, np.float32(np.inf)), shift, scale)
        plain = (shift == 0) & (scale == 1)
        known = [
            _below_or_at(low[k], float(coded[k])) if plain[k] else _readable(low[k], high[k])
            for k in range(len(coded))
        ]
        return np.where(coded == _MOST, _MOST, np.clip(known, -_MOST, _MOST))[place.reshape(feature.shape)]

    def missing_left(self, threshold: Array, missing_left: Array) -> Array:
        """Whether a row whose number is missing in the table goes left: where it was coded as 0, as 0 does."""
        return missing_left > 0 if self.gaps else threshold > 0


def names_of(names: Sequence[str], features: int) -> tuple[str, ...]:
    """The names of the columns; x0, x1 and so on, where there are none."""
    return tuple(names) if len(names) == features else tuple(f"x{number}" for number in range(features))


def _least(coded: Array, shift: Array, scale: Array) -> Array:
    """The least numbers that are coded as these or as more."""
    low, high = (np.full(len(coded), _key(np.array([end]))[0]) for end in (-np.inf, np.inf))
    with np.errstate(over="ignore", invalid="ignore"):
        while (low < high).any():
            middle = (low & high) + ((low ^ high) >> 1)  # their mean, without overflow
            reached = ((_number(middle) - shift) / scale).astype(np.float32) >= coded
            low, high = np.where(reached, low, middle + 1), np.where(reached, middle, high)
    return _number(high)


def _key(number: Array) -> Array:
    """Whole numbers in the order of these float64."""
    bits = number.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def _number(key: Array) -> Array:
    """The float64 of such whole numbers."""
    return np.where(key < 0, key ^ np.int64(2**63 - 1), key).view(np.float64)


def _below_or_at(low: float, coded: float) -> float:
    """Of a number that is not coded: above ``low``, so that in single precision it is the threshold itself."""
    return _shortest(math.nextafter(low, math.inf), coded) if math.isfinite(low) else coded


def _readable(low: float, high: float) -> float:
    """The number from ``low`` to below ``high`` that a person would have written; else ``low``, if none is short.

    Numbers of a table that have many digits could lie below a longer one, and ``low`` is right for all of them.
    """
    if not math.isfinite(low) or not math.isfinite(high):
        return low
    short = _shortest(low, math.nextafter(high, low), _FEW_DIGITS)
    return _shortest(low - (high - low) / 1000, low) if math.isnan(short) else short


def _shortest(low: float, high: float, most: int = 17) -> float:
    """The number from ``low`` to ``high`` with the fewest digits; NaN where it would have more than ``most``."""
    if low <= 0 <= high:
        return 0.0
    middle = low + (high - low) / 2
    for digits in range(most):
        number = float(f"{middle:.{digits}e}")
        if low <= number <= high:
            return number
    return high if most >= 17 else math.nan
