"""Every cohort is as likely as any other."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unalike.rounds.cohorts.cohort import CohortRule, KnownParties, register_cohort


@register_cohort("uniform")
class Uniform(CohortRule):
    """Any cohort of the size is as likely as any other; nothing is known of parties."""

    uniform: ClassVar[bool] = True

    def draw(self, random: np.random.Generator, known: KnownParties, size: int) -> list[int]:
        """So many parties, drawn without replacement."""
        drawn: list[int] = random.choice(known.parties, size, replace=False).tolist()
        return drawn
