"""Means with their spread, and whether a difference is more than noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unalike.data.dataset import Array

ERRORS_TO_COUNT = 2.0
"""A difference counts from this many standard errors on: about 95 of 100 chance differences stay below."""


@dataclass(frozen=True)
class OverSeeds:
    """One figure over the seeds: the mean, the standard deviation (None for one seed), and each."""

    mean: float
    std: float | None
    each: tuple[float, ...]

    @classmethod
    def of(cls, values: Array) -> OverSeeds:
        """The score of one value for each seed."""
        std = float(values.std(ddof=1)) if len(values) > 1 else None
        return cls(float(values.mean()), std, tuple(values.tolist()))

    def __str__(self) -> str:
        spread = "" if self.std is None else f" ± {100 * self.std:.1f}"
        return f"{100 * self.mean:.1f}{spread}"


@dataclass(frozen=True)
class Difference:
    """How much more often ``better`` is right than ``worse`` on the same test rows, and the noise in that.

    ``error`` is the standard error, from both sources of chance: which rows happen to be in the test set, and
    which seeds were drawn.
    """

    better: str
    worse: str
    on: str
    mean: float
    error: float

    @property
    def beyond_noise(self) -> bool:
        """Whether the difference is large enough to speak of."""
        return abs(self.mean) > ERRORS_TO_COUNT * self.error

    @classmethod
    def of(cls, better: str, worse: str, on: str, right: Array, right_of_worse: Array) -> Difference:
        """The paired difference of two [seeds, rows] tables of right (1) and wrong (0) answers.

        Var = var over rows of the mean difference / rows + var over seeds of the mean difference / seeds. Each
        term already holds the part of the noise that belongs to single answers, so the sum errs on the safe side.
        """
        gap = right.astype(np.float64) - right_of_worse.astype(np.float64)
        return cls(better, worse, on, float(gap.mean()), math.sqrt(_variance(gap, 0) + _variance(gap, 1)))


def _variance(gap: Array, over: int) -> float:
    """The variance of the mean of ``gap``'s means over one axis; one row or seed tells nothing about spread."""
    means = gap.mean(axis=over)
    return float(means.var(ddof=1)) / len(means) if len(means) > 1 else 0.0
