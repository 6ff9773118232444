"""L-BFGS where no party has a whole vector: directions from inner products, and the best step along one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_LEAST_CURVATURE: Final = 1e-12
_FARTHEST: Final = 2.0**20


def combination(products: Floats, memory: int, known: int) -> Floats:
    """How much of each known vector makes the quasi-Newton direction, [2 memory + 1].

    The vectors are so many moves of the weights, the changes of the gradient that belong to them, and the
    gradient; ``products`` are all their inner products. Only the last ``known`` moves are there. It is the
    two-loop recursion in which every inner product is looked up.
    """
    found = np.zeros(2 * memory + 1)
    found[-1] = 1.0
    pairs = [
        j
        for j in range(memory - known, memory)
        if products[j, memory + j] > _LEAST_CURVATURE * products[memory + j, memory + j] > 0
    ]
    shares = {}
    for j in reversed(pairs):
        shares[j] = float(found @ products[:, j]) / products[j, memory + j]
        found[memory + j] -= shares[j]
    if pairs:
        last = pairs[-1]
        found *= products[last, memory + last] / products[memory + last, memory + last]
    for j in pairs:
        found[j] += shares[j] - float(found @ products[:, memory + j]) / products[j, memory + j]
    return -found


def best_step(slope: Callable[[float], float]) -> float:
    """Where a convex function along a line is lowest, from its slope; 0 where it does not fall at all."""
    at_zero = slope(0.0)
    if not at_zero < 0:
        return 0.0
    low, below, high = 0.0, at_zero, 1.0
    above = slope(high)
    while above < 0 and high < _FARTHEST:
        low, below, high = high, above, 2 * high
        above = slope(high)
    side = 0
    for _ in range(60):
        if abs(above) <= 1e-12 * -at_zero or not above - below > 0:
            break
        middle = high - above * (high - low) / (above - below)
        here = slope(middle)
        if abs(here) <= 1e-10 * -at_zero:
            return middle
        if here < 0:
            low, below = middle, here
            above, side = (above / 2 if side < 0 else above), -1
        else:
            high, above = middle, here
            below, side = (below / 2 if side > 0 else below), 1
    return high
