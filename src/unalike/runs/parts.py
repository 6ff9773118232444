"""The kinds of parts that a run is made of. A registry is imported when it is asked for: some load torch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from unalike.registry import Registry

PARTS = {
    "dataset": ("unalike.data", "DATASETS"),
    "partition": ("unalike.partition", "PARTITIONS"),
    "algorithm": ("unalike.algorithms", "ALGORITHMS"),
    "optimiser": ("unalike.rounds.optimisers", "OPTIMISERS"),
    "model": ("unalike.models", "MODELS"),
    "loss": ("unalike.models", "LOSSES"),
    "channel": ("unalike.channels", "CHANNELS"),
    "cohort": ("unalike.rounds.cohorts", "COHORTS"),
}
"""By field of RunSpec, the module and the name of its registry."""


def registry(field: str) -> Registry[Any]:
    """The registry of the parts that a field of RunSpec names."""
    module, name = PARTS[field]
    found: Registry[Any] = getattr(import_module(module), name)
    return found
