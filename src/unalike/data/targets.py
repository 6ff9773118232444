"""Numbers to predict: read from a column, checked, and cut into tenths where something goes by labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unalike.errors import UserError

Array = NDArray[Any]


def check_targets(targets: Any, what: str, rows: int) -> None:
    """Refuse what is not one finite number for each row."""
    if targets.ndim != 1:
        remedy = "y.ravel()" if targets.size == rows else "one column of them"
        raise UserError(f"{what} have the shape {targets.shape}, not one number for each row. Use {remedy}.")
    if len(targets) != rows:
        raise UserError(f"{what} are {len(targets)}, but there are {rows} rows. Every row needs one.")
    if targets.dtype.kind not in "iuf":
        raise UserError(f"{what} are of type {targets.dtype}, not numbers. Make them np.float64.")
    bad = int((~np.isfinite(targets.astype(np.float64))).sum())
    if bad:
        raise UserError(f"{what} hold NaN or infinite values in {bad} row(s). Remove these rows first.")


def cut_points(targets: Array, parts: int = 10) -> Array:
    """Where numbers are cut into ranges of about as many rows each; fewer ranges where numbers repeat.

    Every range has rows: each but the first starts at one of the numbers, which is not the lowest.
    """
    cuts = np.unique(np.sort(targets)[np.arange(1, parts) * len(targets) // parts])
    above: Array = cuts[cuts > targets.min()]
    return above


def ranges(targets: Array, cuts: Array) -> Array:
    """The range that each number is in, 0 for the lowest."""
    return np.searchsorted(cuts, targets, side="right")


def strata(targets: Array) -> Array:
    """Ranges to draw test rows from evenly: tenths, or fewer, of 25 rows or more, where there are few rows."""
    return ranges(targets, cut_points(targets, min(10, max(1, len(targets) // 25))))


def range_names(targets: Array, cuts: Array) -> tuple[str, ...]:
    """What to call the ranges: by their lowest and highest number."""
    place = ranges(targets, cuts)
    own = [targets[place == k] for k in range(len(cuts) + 1)]
    names = [f"{part.min():.6g} to {part.max():.6g}" for part in own]
    return tuple(names) if len(set(names)) == len(names) else _numbered(names)


def _numbered(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"range {k}: {name}" for k, name in enumerate(names))
