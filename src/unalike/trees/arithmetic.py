"""Exponential and logarithm from additions, multiplications and divisions alone: the same bits on every machine.

The library functions of C and numpy differ in their last bits between machines; a gradient that is rounded to
another point of the grid would make another tree. These stay within a few units in the last place of the truth.
"""

from __future__ import annotations

from math import factorial
from typing import Final

import numpy as np
from numpy.typing import NDArray

SHIFT: Final = 20
GRID: Final = float(2**SHIFT)
"""Gradients, losses and leaf sums are integers: so many make one."""
LOG2_E: Final = 1.4426950408889634
LN2_HIGH: Final = 0.6931471803691238
LN2_LOW: Final = 1.9082149292705877e-10
FARTHEST: Final = 700.0
"""Exponents beyond are taken for this one."""
EXP_TERMS: Final = tuple(1.0 / factorial(n) for n in range(13, -1, -1))
LOG_TERMS: Final = tuple(2.0 / n for n in range(21, 0, -2))

Floats = NDArray[np.float64]


def exp(x: Floats) -> Floats:
    """e to the power of ``x``, which is held within 700 of 0."""
    x = np.minimum(np.maximum(x, -FARTHEST), FARTHEST)
    power = np.rint(x * LOG2_E)
    rest = (x - power * LN2_HIGH) - power * LN2_LOW
    result = np.full_like(rest, EXP_TERMS[0])
    for term in EXP_TERMS[1:]:
        result = result * rest + term
    return np.asarray(np.ldexp(result, power.astype(np.int32)), np.float64)


def log(x: Floats) -> Floats:
    """The natural logarithm of positive numbers."""
    part, power = np.frexp(x)
    low = part < 0.7071067811865476
    part, power = np.where(low, part * 2.0, part), np.where(low, power - 1, power).astype(np.float64)
    s = (part - 1.0) / (part + 1.0)
    square = s * s
    result = np.full_like(s, LOG_TERMS[0])
    for term in LOG_TERMS[1:]:
        result = result * square + term
    return power * LN2_HIGH + (power * LN2_LOW + s * result)


def on_grid(x: Floats) -> NDArray[np.int64]:
    """Numbers as integers of the grid, halves to the even one."""
    return np.rint(x * GRID).astype(np.int64)
