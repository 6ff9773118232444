"""In what runs differ, so that whoever compares them knows whether the comparison is fair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unalike.runs.meaning import brief_model

SAME_FOR_A_FAIR_COMPARISON = ("dataset", "partition", "parties", "rounds", "seed", "score")
"""Where runs differ in one of these, a better figure says nothing about the algorithm."""


def differences(specs: Sequence[Mapping[str, Any]]) -> tuple[list[str], dict[str, Any]]:
    """The fields in which the specs differ, in the order of the specs, and the values of those that they share.

    A field that a spec lacks because it decides nothing there, as the batch size of trees, is compared among the
    others.
    """
    from unalike.runs.spec import RunSpec

    always = {field.name for field in RunSpec.options() if field.default is not None}
    names = dict.fromkeys(name for spec in specs for name in spec)
    found = {name: [spec.get(name) for spec in specs if name in spec or name not in always] for name in names}
    differing = [name for name in names if len(set(map(repr, found[name]))) > 1]
    return differing, {name: found[name][0] for name in names if name not in differing}


def field_told(name: str, value: Any) -> str:
    """A field and its value for people."""
    return f"{name} {brief_model(str(value)) if name == 'model' else value}"
