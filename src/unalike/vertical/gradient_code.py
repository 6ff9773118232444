"""First and second derivatives of a row as one signed integer, whose sums are taken apart again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unalike.secure.crypto.packing import digits
from unalike.trees.arithmetic import SHIFT
from unalike.trees.objective import GREATEST

GREATEST_DERIVATIVES: Final = {"binary": (1.0, 0.25), "softmax": (1.0, 0.5), "squared-error": (GREATEST, 1.0)}
"""What the first and the second derivative of a row are at most, by objective."""


@dataclass(frozen=True)
class GradientCode:
    """How derivatives on the grid are one integer, g 2^low + h, such that sums of so many rows do not mix."""

    low: int
    high: int

    @classmethod
    def of(cls, objective: str, rows: int) -> GradientCode:
        """The code for sums of up to so many rows: all roles know it from what is public."""
        widths = [
            (rows * int(most * 2**SHIFT)).bit_length() + 1
            for most in GREATEST_DERIVATIVES.get(objective, (GREATEST, GREATEST))
        ]
        return cls(widths[1], widths[0])

    @property
    def bits(self) -> int:
        """The bits of a coded sum, with its sign."""
        return self.low + self.high

    def coded(self, g: NDArray[Any], h: NDArray[Any]) -> list[int]:
        """Derivatives, or their sums, as integers."""
        return [(a << self.low) + b for a, b in zip(g.tolist(), h.tolist(), strict=True)]

    def sums(self, integers: Sequence[int]) -> NDArray[np.int64]:
        """The sums in coded integers, int64 [count, 2]; CryptoError where one is too great."""
        found = [digits(integer, (self.low, self.high)) for integer in integers]
        return np.array([pair[::-1] for pair in found], np.int64).reshape(-1, 2)
