"""Figures of a run as the engine writes them: what else a hand or another program left in its files is dropped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

_NUMBERS = {
    *("round", "rounds", "accuracy", "loss", "train_loss", "validation_accuracy", "validation_loss"),
    *("cohort", "bytes_up", "bytes_down", "seconds", "weights"),
}
_TEXTS = {"engine", "why_this_engine", "version", "torch", "data_sha256", "weights_sha256", "server_sha256"}


def sound(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures without those of another kind than theirs, such as a text for an accuracy.

    NaN and infinities become None, as when the engine writes them.
    """
    made = {}
    for name, value in figures.items():
        found = _sound(name, value)
        if found is not None or value is None or isinstance(value, float):
            made[name] = found
    return made


def _sound(name: str, value: Any) -> Any:
    """The value, what is left of it, or None."""
    if name in _NUMBERS:
        return value if _is_number(value) else None
    if name in _TEXTS:
        return value if isinstance(value, str) else None
    if name not in ("parties", "personal", "degrees", "traffic", "selected"):
        return value
    if not isinstance(value, Mapping):
        return None
    if name == "selected":
        return sound(value)
    if name == "traffic":
        return {side: _numbers(found) for side, found in value.items() if isinstance(found, Mapping)}
    return _numbers(value)


def _numbers(table: Mapping[str, Any]) -> dict[str, Any]:
    """Its numbers, and its lists of numbers, such as each party's accuracy."""
    return {
        name: value
        for name, value in table.items()
        if value is None
        or _is_number(value)
        or (isinstance(value, list) and all(each is None or _is_number(each) for each in value))
    }


def _is_number(value: Any) -> TypeGuard[float]:
    return (isinstance(value, float) and math.isfinite(value)) or (type(value) is int and abs(value) < 2**63)
