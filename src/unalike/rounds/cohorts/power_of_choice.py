"""Those of some candidates whom the model serves worst."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from unalike.errors import UserError
from unalike.rounds.cohorts.cohort import CohortRule, KnownParties, register_cohort


@register_cohort("power-of-choice", paper="Cho, Wang and Joshi 2020, arXiv:2010.01243, section 4")
class PowerOfChoice(CohortRule):
    """Draws ``d`` candidates in proportion to their rows; those with the highest loss of the model are asked.

    The candidates are sent the model and answer with its mean loss on their training rows: an exchange more in
    every round, whose bytes are counted. d=0 is twice the cohort. Faster where some parties lag behind, and
    biased: the model is drawn to parties with high losses, the more so the larger d. In the paper who is asked is
    averaged plainly; here by rows, as everywhere.

    Two engines agree on losses up to rounding; where that decides between two candidates, so do their cohorts.
    """

    by_loss: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True
    d: int = 0

    def __post_init__(self) -> None:
        if self.d < 0:
            raise UserError(f"power-of-choice's d must be 0 or more, got {self.d}. At 0 it is twice the cohort.")

    @property
    def reveals(self) -> str:
        """Sizes, and the losses that are asked for."""
        return "how many training rows every party has, and the model's loss on those of every candidate"

    def check(self, known: KnownParties, size: int) -> None:
        """Refuse fewer candidates than are to be chosen, or more than there are."""
        if self.d and not size <= self.d <= known.parties:
            raise UserError(
                f"power-of-choice's d must be from the cohort's size, {size}, to the number of parties, "
                f"{known.parties}, got {self.d}. At 0 it is twice the cohort."
            )

    def draw(self, random: np.random.Generator, known: KnownParties, size: int) -> list[int]:
        """The candidates, in the order in which they were drawn."""
        assert known.rows is not None
        count = min(self.d or 2 * size, known.parties)
        drawn: list[int] = random.choice(
            known.parties, count, replace=False, p=known.rows / known.rows.sum()
        ).tolist()
        return drawn

    def choose(self, candidates: Sequence[int], losses: Sequence[float], size: int) -> list[int]:
        """Those with the highest losses; of equal ones, whoever was drawn first."""
        order = np.argsort(-np.asarray(losses), kind="stable")[:size]
        return [candidates[place] for place in order]
