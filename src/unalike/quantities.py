"""Losses, bytes and seconds as people read them, on terminals and in notebooks alike."""

from __future__ import annotations

import math

MISSING = "–"
"""What stands where there is no value."""


def number(value: float | None) -> str:
    """A loss with three decimals, a huge one with three digits; None is a dash."""
    return MISSING if value is None else f"{value:.3f}" if abs(value) < 1000 else f"{value:.3g}"


def size(count: float) -> str:
    """Bytes in units of a thousand."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def duration(seconds: float) -> str:
    """Seconds as a person would say it."""
    if 0 < seconds < 0.095:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    for unit, length, below in (("min", 60, "s"), ("h", 3600, "min"), ("d", 86400, "h")):
        part = {"s": 1, "min": 60, "h": 3600}[below]
        if whole < length * {"min": 60, "h": 24, "d": math.inf}[unit]:
            return f"{whole // length} {unit} {whole % length // part} {below}"
    raise AssertionError("the last unit has no limit")
