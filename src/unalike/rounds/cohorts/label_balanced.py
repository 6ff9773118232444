"""Cohorts whose labels together are mixed as those of all parties are."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unalike.errors import UserError
from unalike.rounds.cohorts.cohort import Array, CohortRule, KnownParties, declared_counts, register_cohort


@register_cohort("label-balanced", paper="after Duan et al. 2019 (Astraea), arXiv:1907.01132, Algorithm 3")
class LabelBalanced(CohortRule):
    """Of ``pool`` times as many parties, drawn at random, takes those whose labels make up the population's mix.

    Greedy, as Astraea groups parties under its mediators: the first party is the first that was drawn; then,
    again and again, the one is added with which the cohort's label mix p is nearest to the mix q of all parties
    by KL(p || q) = sum_y p_y log(p_y / q_y). (Astraea's q is uniform, and it groups everybody.)

    Where all parties have the same mix of labels in the same numbers, and with pool=1, the cohorts are those of
    uniform, to the last party. A larger pool balances better and asks parties less evenly: those whose rows are
    like the population's, or make up for many others, are asked more often, so that the model is drawn to them.

    Label counts are those of the training rows, which a simulation looks at, or what parties ``declared``, the
    numbers of one party after those of another: "30 10|5 40|0 20". Real sites have nothing but what is declared.
    """

    needs_labels: ClassVar[bool] = True
    pool: float = 3.0
    declared: str = ""

    def __post_init__(self) -> None:
        if self.declared:
            declared_counts(self.declared)
        if not 1 <= self.pool < float("inf"):
            raise UserError(f"label-balanced's pool must be 1 or more, got {self.pool}. At 1 it is uniform.")

    @property
    def reveals(self) -> str:
        """The table of labels, party by party."""
        how = "declared to have" if self.declared else "has"
        return f"how many training rows of each label every party {how}"

    def draw(self, random: np.random.Generator, known: KnownParties, size: int) -> list[int]:
        """The first ``size`` of the pool are uniform's cohort: ties go to whoever was drawn first."""
        assert known.labels is not None
        first = random.choice(known.parties, size, replace=False)
        others = random.permutation(np.setdiff1d(np.arange(known.parties), first))
        pool = np.concatenate([first, others])[: round(self.pool * size)]
        chosen = balanced(known.labels[pool], known.labels.sum(axis=0), size)
        return [int(pool[place]) for place in chosen]


def balanced(counts: Array, whole: Array, size: int) -> list[int]:
    """The places of ``size`` rows of ``counts``, chosen one by one so that their sum is mixed as ``whole``."""
    chosen, left = [0], list(range(1, len(counts)))
    total = counts[0].astype(np.float64)
    share = whole / whole.sum()
    while len(chosen) < size:
        gaps = divergence(total + counts[left], share)
        best = left.pop(int(np.argmin(gaps)))
        chosen.append(best)
        total = total + counts[best]
    return chosen


def divergence(counts: Array, share: Array) -> Array:
    """KL of the label mix of each row of counts from ``share``, which has a part of every label that occurs."""
    mix = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ratio = np.divide(mix, share, out=np.ones_like(mix), where=(share > 0) & (mix > 0))
    gaps: Array = (mix * np.log(ratio)).sum(axis=1)
    return gaps
