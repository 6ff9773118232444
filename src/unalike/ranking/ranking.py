"""Algorithms ranked over several settings, as Demsar does (2006, JMLR 7): Friedman's test, Nemenyi's difference.

Each setting ranks the algorithms, 1 being best; equals share the mean of their ranks. Friedman's test asks whether
the mean ranks differ by more than chance; two algorithms whose mean ranks differ by less than Nemenyi's critical
difference cannot be told apart.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unalike.errors import UserError

ALPHA = 0.05
LEAST_SETTINGS = 2
"""Settings below which there is nothing to test."""
ROUGH = 10
"""Settings below which the tests are rough."""
_DIGITS = 9  # scores that differ by less come from rounding

Scores = Mapping[str, float | None]
"""By algorithm, its score in a setting, negative where less is better, so that the largest is best.

None where it failed: such share the last place.
"""


@dataclass(frozen=True)
class Ranking:
    """Mean ranks over settings, and what can be concluded from them.

    f is Iman and Davenport's (infinite where all settings agree), which is less cautious than chi2. cliques are
    the largest groups, best first, within which nobody can be told apart. The tests are None where there is
    nothing to test; ``doubt`` then says why, or warns of few settings.
    """

    settings: int
    mean_ranks: dict[str, float]
    """Best first."""
    wins: dict[str, int]
    """Settings where nobody is better: equals all win. Where all failed, nobody does."""
    alpha: float = ALPHA
    chi2: float | None = None
    chi2_p: float | None = None
    f: float | None = None
    f_p: float | None = None
    critical_difference: float | None = None
    cliques: tuple[tuple[str, ...], ...] = ()
    doubt: str = ""

    @property
    def differ(self) -> bool | None:
        """Whether the algorithms differ at all, by Iman and Davenport's test; None where nothing can be tested."""
        return None if self.f_p is None else self.f_p < self.alpha


def ranks(scores: Scores) -> dict[str, float]:
    """1 for the best; equals share the mean of their ranks, those that failed the last ones."""
    from scipy.stats import rankdata

    found = rankdata([-_score(value) for value in scores.values()])
    return {name: float(rank) for name, rank in zip(scores, found, strict=True)}


def _score(value: float | None) -> float:
    """What counts as equal is equal; who failed is last."""
    return -math.inf if value is None or math.isnan(value) else round(value, _DIGITS)


def rank(settings: Sequence[Scores], alpha: float = ALPHA) -> Ranking:
    """The ranking over settings, all of which must have the same algorithms."""
    if not 0.001 <= alpha <= 0.5:
        raise UserError(f"alpha must be from 0.001 to 0.5, got {alpha}. 0.05 is usual.")
    if any(scores.keys() != settings[0].keys() for scores in settings):
        raise ValueError("Every setting must have the same algorithms.")
    table = [ranks(scores) for scores in settings]
    names = list(settings[0]) if settings else []
    mean = {name: math.fsum(row[name] for row in table) / len(table) for name in names}
    mean = dict(sorted(mean.items(), key=lambda item: (round(item[1], _DIGITS), item[0])))
    best = [max(map(_score, scores.values())) for scores in settings]
    wins = {
        name: sum(_score(scores[name]) == top > -math.inf for scores, top in zip(settings, best, strict=True))
        for name in mean
    }
    count, k = len(table), len(names)
    if k < 2 or count < LEAST_SETTINGS:
        what = "two algorithms" if k < 2 else f"{LEAST_SETTINGS} settings"
        doubt = f"Nothing can be concluded: that takes at least {what}, and there is {min(k, count)}."
        return Ranking(count, mean, wins, alpha, doubt=doubt)
    if all(len(set(row.values())) == 1 for row in table):
        doubt = "Nothing can be concluded: in every setting all are equal."
        return Ranking(count, mean, wins, alpha, doubt=doubt)
    chi2, chi2_p, f, f_p = friedman([[row[name] for name in names] for row in table])
    difference = critical_difference(k, count, alpha)
    few = "" if count >= ROUGH else f"{count} settings are few: the tests are rough below {ROUGH}."
    return Ranking(
        count, mean, wins, alpha, chi2, chi2_p, f, f_p, difference, cliques(mean, difference), doubt=few
    )


def friedman(table: Sequence[Sequence[float]]) -> tuple[float, float, float, float]:
    """Friedman's chi2 and Iman and Davenport's F of ranks [settings, algorithms], each with its p; ties corrected.

    Where all settings agree, F is infinite, and its p the chance that random orders do: two settings are not
    enough to tell three algorithms apart. Not defined where all ranks are equal.
    """
    from scipy.stats import chi2 as chi2_distribution
    from scipy.stats import f as f_distribution

    n, k = len(table), len(table[0])
    middle = (k + 1) / 2
    between = n * math.fsum((math.fsum(row[j] for row in table) / n - middle) ** 2 for j in range(k))
    within = math.fsum((rank - middle) ** 2 for row in table for rank in row) / (n * (k - 1))
    chi2 = between / within
    rest = n * (k - 1) - chi2
    p = float(chi2_distribution.sf(chi2, k - 1))
    if rest < 1e-9 * n * (k - 1):  # all settings agree: F has no distribution there, but the chance of it is plain
        orders = math.factorial(k) // math.prod(math.factorial(ties) for ties in Counter(table[0]).values())
        return chi2, p, math.inf, float(orders) ** (1 - n)
    f = (n - 1) * chi2 / rest
    return chi2, p, f, float(f_distribution.sf(f, k - 1, (k - 1) * (n - 1)))


def critical_difference(algorithms: int, settings: int, alpha: float = ALPHA) -> float:
    """How far mean ranks must be apart to be told apart (Nemenyi)."""
    return studentised(algorithms, alpha) * math.sqrt(algorithms * (algorithms + 1) / (6 * settings))


def studentised(algorithms: int, alpha: float = ALPHA) -> float:
    """Demsar's q: the quantile of the studentised range with infinitely many degrees of freedom, over sqrt(2)."""
    from scipy.stats import studentized_range

    return float(studentized_range.isf(alpha, algorithms, math.inf)) / math.sqrt(2)


def cliques(mean_ranks: Mapping[str, float], difference: float) -> tuple[tuple[str, ...], ...]:
    """The largest groups of two or more whose mean ranks lie within the critical difference, best first."""
    order = sorted(mean_ranks, key=lambda name: (mean_ranks[name], name))
    found: list[tuple[str, ...]] = []
    reach = 0
    for start, first in enumerate(order):
        end = start
        while end < len(order) and mean_ranks[order[end]] - mean_ranks[first] <= difference + 10**-_DIGITS:
            end += 1
        if end - start > 1 and end > reach:
            found.append(tuple(order[start:end]))
        reach = max(reach, end)
    return tuple(found)
