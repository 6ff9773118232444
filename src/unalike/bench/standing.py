"""How algorithms stand against FedAvg over several comparisons."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

REFERENCE = "fedavg"
"""What every other algorithm has to beat."""
DRAW = 0.1
"""Percentage points up to which a difference counts as none: the tables are rounded to this."""

Comparison = Mapping[str, float]
"""By algorithm, its accuracy less FedAvg's in percentage points, in runs that differ in the algorithm alone."""


@dataclass(frozen=True)
class Standing:
    """One algorithm's record against FedAvg; gains are in percentage points.

    chance: how often it was better, a draw counting half, shrunk towards one half as by two further draws, since a
    few comparisons say little.
    """

    algorithm: str
    comparisons: int
    better: int
    worse: int
    median_gain: float
    worst_gain: float
    chance: float


def standings(comparisons: Sequence[Comparison]) -> list[Standing]:
    """The algorithms' records, best chance first; FedAvg stands at one half. Of equals, the larger median."""
    gains: dict[str, list[float]] = {REFERENCE: [0.0] * len(comparisons)}
    for comparison in comparisons:
        for name, gain in comparison.items():
            if name != REFERENCE:
                gains.setdefault(name, []).append(gain)
    made = [_standing(name, found) for name, found in gains.items() if found]
    # Before others that are no better comes FedAvg, which costs least.
    return sorted(made, key=lambda one: (-one.chance, one.algorithm != REFERENCE, -one.median_gain, one.algorithm))


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
    )
