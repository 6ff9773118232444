"""How algorithms stand against FedAvg over several comparisons."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unalike.ranking.ranking import ALPHA

REFERENCE = "fedavg"
"""What every other algorithm has to beat."""
FORBIDDEN = "pooled"
"""Training on all rows in one place is shown beside the others, and is never advised: rows may not be pooled."""
DRAW = 0.1
"""Percentage points up to which a difference counts as none: the tables are rounded to this."""

Comparison = Mapping[str, float]
"""By algorithm, how much better its score is than FedAvg's, in runs that differ in the algorithm alone.

In percentage points of a fraction such as accuracy, in percent of FedAvg's of a number (``Scale.gain``).
"""


@dataclass(frozen=True)
class Standing:
    """One algorithm's record against FedAvg; gains are as in a :data:`Comparison`.

    chance: how often it was better, a draw counting half, shrunk towards one half as by two further draws, since a
    few comparisons say little.
    p: how likely gains as good as these are if it is no better than FedAvg (``p_value``).
    """

    algorithm: str
    comparisons: int
    better: int
    worse: int
    median_gain: float
    worst_gain: float
    chance: float
    p: float

    @property
    def shown_better(self) -> bool:
        """Whether chance hardly explains its gains; with fewer than five comparisons it always might."""
        return self.p < ALPHA

    def named(self, algorithm: str) -> Standing:
        """The same record under another text of the algorithm."""
        return replace(self, algorithm=algorithm)


def standings(comparisons: Sequence[Comparison], reference: str = REFERENCE) -> list[Standing]:
    """The algorithms' records: those that are shown to be better than the reference, FedAvg; it; and all others.

    Within these, the best chance first, of equals the larger median: so nothing goes before FedAvg, which is the
    simplest and costs least, because chance favoured it.
    """
    gains: dict[str, list[float]] = {reference: [0.0] * len(comparisons)}
    for comparison in comparisons:
        for name, gain in comparison.items():
            if name not in (reference, FORBIDDEN):
                gains.setdefault(name, []).append(gain)
    made = [_standing(name, found) for name, found in gains.items() if found]
    return sorted(made, key=lambda one: (_group(one, reference), -one.chance, -one.median_gain, one.algorithm))


def p_value(gains: Sequence[float]) -> float:
    """Wilcoxon's signed-rank test, one-sided and exact: draws are left out, equal sizes share their rank.

    If an algorithm is no better than FedAvg, each gain is as likely to be a loss of the same size. p is the chance
    that the ranks of the gains by size, those of losses left out, then add up to at least what they do here.
    """
    rounded = [round(gain, 9) for gain in gains if abs(gain) > DRAW + 1e-9]
    sizes = [abs(gain) for gain in rounded]
    doubled = [sum(2 * (other < size) + (other == size) for other in sizes) + 1 for size in sizes]
    chances = np.ones(1)  # of each sum of doubled ranks
    for rank in doubled:
        chances = (np.pad(chances, (0, rank)) + np.pad(chances, (rank, 0))) / 2
    reached = sum(rank for rank, gain in zip(doubled, rounded, strict=True) if gain > 0)
    return min(float(chances[reached:].sum()), 1.0)


def _group(one: Standing, reference: str) -> int:
    if one.algorithm == reference:
        return 1
    return 0 if one.shown_better else 2


def _standing(name: str, gains: list[float]) -> Standing:
    better = sum(gain > DRAW + 1e-9 for gain in gains)
    worse = sum(gain < -DRAW - 1e-9 for gain in gains)
    return Standing(
        algorithm=name,
        comparisons=len(gains),
        better=better,
        worse=worse,
        median_gain=statistics.median(gains),
        worst_gain=min(gains),
        chance=((better - worse) / 2 + len(gains) / 2 + 1) / (len(gains) + 2),
        p=p_value(gains),
    )
