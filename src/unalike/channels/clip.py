"""Clipping: no party's upload is longer than a bound."""

from __future__ import annotations

import numpy as np

from unalike.channels.channel import register_channel
from unalike.channels.layout import Array
from unalike.channels.stage import Bound, Norm
from unalike.errors import UserError

_SMALLER = 1 - 2.0**-20


@register_channel("clip", paper="McMahan et al. 2018, arXiv:1710.06963, section 3.2")
class Clip(Bound):
    """Scales a party's whole upload to a norm of at most ``bound``: v min(1, bound / ||v||)."""

    bound: float
    norm: Norm = "l2"

    def __post_init__(self) -> None:
        if not 1e-30 <= self.bound <= 1e30:
            raise UserError(f"clip's bound must be above 0 and finite, got {self.bound}. Try clip(1.0).")

    def clip(self, vector: Array) -> Array:
        """The vector itself, or a shorter one in the same direction. The bound holds after rounding, too."""
        largest = float(np.abs(vector).max(initial=0.0))
        if largest == 0:
            return vector
        # Divided by the largest entry first: squares of huge or tiny numbers do not fit into floating point.
        unit = vector.astype(np.float64) / largest
        if length(unit, self.norm) <= self.bound / largest:
            return vector
        target = self.bound / length(unit, self.norm)
        clipped: Array = (unit * target).astype(vector.dtype)
        while length(clipped, self.norm) > self.bound:
            target *= _SMALLER
            clipped = (unit * target).astype(vector.dtype)
        return clipped


def length(vector: Array, norm: Norm) -> float:
    """The norm of a vector, computed in float64."""
    vector = vector.astype(np.float64)
    return float(np.abs(vector).sum() if norm == "l1" else np.sqrt(vector @ vector))
