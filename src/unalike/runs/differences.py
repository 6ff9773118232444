"""In what runs differ, so that whoever compares them knows whether the comparison is fair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SAME_FOR_A_FAIR_COMPARISON = ("dataset", "partition", "parties", "rounds", "seed", "score")
"""Where runs differ in one of these, a better figure says nothing about the algorithm."""


def differences(specs: Sequence[Mapping[str, Any]]) -> tuple[list[str], dict[str, Any]]:
    """The fields in which the specs differ, in the order of the specs, and the values of those that they share."""
    names = dict.fromkeys(name for spec in specs for name in spec)
    differing = [name for name in names if len({repr(spec.get(name)) for spec in specs}) > 1]
    return differing, {name: specs[0].get(name) for name in names if name not in differing}
