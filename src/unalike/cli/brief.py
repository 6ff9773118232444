"""Parts of a run as short as they can be told: label-dirichlet(0.1), not all of its parameters."""

from __future__ import annotations

from typing import Any

from unalike.runs.parts import PARTS, registry
from unalike.runs.results import brief as brief_part

_WHOLE = ("model",)
"""Parts that are told in full: to know what is as by default would load torch."""


def brief(field: str, value: Any) -> str:
    """A field of a run's spec for people: a part without the parameters at the end that are as by default."""
    if value is None:
        return "?"
    return brief_part(registry(field), value) if field in PARTS and field not in _WHOLE else str(value)
