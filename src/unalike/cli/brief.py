"""Parts of a run as short as they can be told: label-dirichlet(0.1), not all of its parameters."""

from __future__ import annotations

from typing import Any

from unalike.runs.meaning import brief_model
from unalike.runs.parts import PARTS, registry
from unalike.runs.results import brief as brief_part


def brief(field: str, value: Any) -> str:
    """A field of a run's spec for people: a part without the parameters at the end that are as by default."""
    if value is None:
        return "?"
    if field == "model":  # to know what is as by default of a net would load torch
        return brief_model(str(value))
    return brief_part(registry(field), value) if field in PARTS else str(value)
