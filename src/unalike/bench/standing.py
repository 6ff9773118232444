"""How algorithms stand against each other over several comparisons."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.stats import rankdata

REFERENCE = "fedavg"
"""What every other algorithm has to beat."""

Comparison = Mapping[str, float]
"""Accuracies in percent by algorithm, of runs that differ in the algorithm alone."""


@dataclass(frozen=True)
class Standing:
    """One algorithm's record. Gains are over FedAvg, in percentage points, where both were tried.

    mean_rank: over all comparisons it took part in, 1 is best; equals share a rank. chance: how often it was
    better than FedAvg, a draw counting half, shrunk towards one half as by two further draws (few comparisons
    say little).
    """

    algorithm: str
    comparisons: int
    mean_rank: float
    best: int
    better: int
    worse: int
    median_gain: float | None
    worst_gain: float | None
    chance: float


def standings(comparisons: Sequence[Comparison]) -> list[Standing]:
    """The algorithms' records, best mean rank first; of equals, the one that was best more often."""
    ranks: dict[str, list[float]] = {}
    gains: dict[str, list[float]] = {}
    wins: dict[str, int] = {}
    for comparison in comparisons:
        order = rankdata([-accuracy for accuracy in comparison.values()])
        for (name, accuracy), rank in zip(comparison.items(), order, strict=True):
            # Out of as many as there are: 2 of 3 is not what 2 of 10 is.
            ranks.setdefault(name, []).append(float(rank))
            wins[name] = wins.get(name, 0) + (accuracy == max(comparison.values()))
            if REFERENCE in comparison:
                gains.setdefault(name, []).append(accuracy - comparison[REFERENCE])
    made = [_standing(name, ranks[name], wins[name], gains.get(name, [])) for name in ranks]
    return sorted(made, key=lambda one: (one.mean_rank, -one.best, one.algorithm))


def _standing(name: str, ranks: list[float], best: int, gains: list[float]) -> Standing:
    better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    draws = len(gains) - better - worse
    return Standing(
        algorithm=name,
        comparisons=len(ranks),
        mean_rank=statistics.fmean(ranks),
        best=best,
        better=better,
        worse=worse,
        median_gain=statistics.median(gains) if gains else None,
        worst_gain=min(gains) if gains else None,
        chance=(better + draws / 2 + 1) / (len(gains) + 2),
    )
