"""Integer noise that hides one row, sampled exactly, and how much it hides.

Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy" (arXiv:2004.00010): P(x) is
proportional to exp(-x^2 / (2 sigma^2)) on the integers. All arithmetic is on integers and all random numbers come
from the operating system, so there is no floating-point leak.
"""

from __future__ import annotations

import math
from fractions import Fraction
from secrets import randbelow

import numpy as np
from numpy.typing import NDArray

from unalike.secure.crypto.errors import CryptoError


def sample(sigma: float | Fraction, count: int) -> NDArray[np.int64]:
    """``count`` independent draws of the discrete Gaussian with the parameter ``sigma`` (Algorithm 3)."""
    if not (math.isfinite(sigma) and 0 < sigma <= 2**40) or count < 0:
        raise CryptoError(f"Noise needs 0 < sigma <= 2^40 and count >= 0, got sigma={sigma}, count={count}.")
    variance = Fraction(sigma) ** 2
    return np.array([_gaussian(variance) for _ in range(count)], np.int64)


def epsilon(sigma: float, sensitivity: float, delta: float) -> float:
    """The epsilon of (epsilon, delta)-differential privacy of a vector with this noise on every entry.

    Neighbouring data differ in one row that is changed (not added or removed); ``sensitivity`` is the largest
    Euclidean distance between the vectors of two neighbours. Counts of labels: sqrt(2). Cumulative counts over C
    labels: sqrt(C - 1). Releasing k such vectors multiplies the squared sensitivity by k.

    The noise gives rho = sensitivity^2 / (2 sigma^2) of concentrated privacy (Theorem 4), and epsilon is the
    least over alpha > 1 of rho alpha + ln(1 / (alpha delta)) / (alpha - 1) + ln(1 - 1 / alpha) (Proposition 12).
    This is never more than rho + 2 sqrt(rho ln(1 / delta)). Noise too small to hide anything gives infinity.
    """
    if not (0 < sigma < math.inf and 0 <= sensitivity < math.inf and 0 < delta < 1):
        raise CryptoError(
            f"epsilon needs sigma > 0, sensitivity >= 0, 0 < delta < 1; got {sigma}, {sensitivity}, {delta}."
        )
    ratio = sensitivity / sigma
    rho = ratio * ratio / 2  # not **, which raises an error where this is infinite
    if rho < 1e-290:  # rho vanishes before its root does
        return ratio * math.sqrt(2 * math.log(1 / delta))
    if rho > 1e290:
        return math.inf
    above = np.exp(np.linspace(math.log(1e-6), math.log(1e9), 20_001))  # alpha - 1: any alpha is a valid bound
    alpha = 1 + above
    bounds = rho * alpha - np.log(alpha * delta) / above + np.log(above / alpha)
    return max(0.0, min(float(bounds.min()), rho + 2 * math.sqrt(rho * math.log(1 / delta))))


def _gaussian(variance: Fraction) -> int:
    """Algorithm 3: a discrete Laplace draw, kept with the right probability."""
    scale = math.isqrt(variance.numerator // variance.denominator) + 1  # floor(sigma) + 1
    while True:
        draw = _laplace(scale)
        if _bernoulli_exp((abs(draw) - variance / scale) ** 2 / (2 * variance)):
            return draw


def _laplace(scale: int) -> int:
    """Algorithm 2 with s = 1: P(x) proportional to exp(-|x| / scale)."""
    while True:
        rest = randbelow(scale)
        if not _bernoulli_exp(Fraction(rest, scale)):
            continue
        whole = 0
        while _bernoulli_exp(Fraction(1)):
            whole += 1
        magnitude = rest + scale * whole
        negative = randbelow(2) == 1
        if not (negative and magnitude == 0):  # zero must not count twice
            return -magnitude if negative else magnitude


def _bernoulli_exp(gamma: Fraction) -> bool:
    """True with the probability exp(-gamma) (Algorithm 1)."""
    while gamma > 1:
        if not _bernoulli_exp(Fraction(1)):
            return False
        gamma -= 1
    k = 1
    while randbelow(gamma.denominator * k) < gamma.numerator:
        k += 1
    return k % 2 == 1
