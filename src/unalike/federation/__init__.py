"""Real sites: the same algorithms, between processes that keep their data to themselves."""

from __future__ import annotations

FIXED = (
    "dataset",
    "partition",
    "parties",
    "engine",
    "device",
    "code",
    "public",
    "newcomers",
    "test_by",
    "evaluate_parties",
)
"""Fields of a run's spec that a federation does not choose: its sites and their tables decide them."""
