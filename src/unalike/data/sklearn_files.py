"""The small data sets in scikit-learn's package, read without importing it, which would take a second."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from unalike.data.dataset import Array
from unalike.errors import UserError


def packaged(name: str) -> Path:
    """The file of that name among scikit-learn's own data."""
    spec = importlib.util.find_spec("sklearn")
    places = [] if spec is None else spec.submodule_search_locations or []
    for place in places:
        path = Path(place) / "datasets" / "data" / name
        if path.is_file():
            return path
    raise UserError(f"scikit-learn's file {name} is missing. Install it again: pip install scikit-learn.")


def read_numbers(name: str, delimiter: str | None = None) -> Array:
    """The numbers in one of scikit-learn's files, which may be compressed."""
    path = packaged(name)
    try:
        table: np.ndarray[Any, Any] = np.loadtxt(path, delimiter=delimiter)
    except (OSError, ValueError, EOFError):
        raise UserError(
            f"{path} is damaged. Install it again: pip install --force-reinstall scikit-learn."
        ) from None
    return table


def read_table(name: str) -> tuple[Array, Array, tuple[str, ...]]:
    """The features, labels and names of the classes of a table, whose first line is rows, columns, classes."""
    path = packaged(name)
    with path.open(encoding="utf-8") as lines:
        rows, columns, *classes = next(lines).strip().split(",")
        table: np.ndarray[Any, Any] = np.loadtxt(lines, delimiter=",", ndmin=2)
    if table.shape != (int(rows), int(columns) + 1):
        raise UserError(f"{path} is damaged. Install it again: pip install --force-reinstall scikit-learn.")
    return table[:, :-1], table[:, -1].astype(np.int64), tuple(classes)
