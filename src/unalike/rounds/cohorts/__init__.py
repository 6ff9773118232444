"""Who takes part in a round: one file for each way to choose the cohort (docs/cohorts.md)."""

from __future__ import annotations

from unalike.rounds.cohorts import clustered, label_balanced, power_of_choice, uniform
from unalike.rounds.cohorts.cohort import COHORTS, CohortRule, KnownParties, register_cohort

__all__ = [
    "COHORTS",
    "CohortRule",
    "KnownParties",
    "clustered",
    "label_balanced",
    "power_of_choice",
    "register_cohort",
    "uniform",
]
