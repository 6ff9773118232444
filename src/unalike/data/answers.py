"""Labels of a Python program: texts, numbers or truth values, made places in a list of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unalike.data.arrays import as_array, check_one_each
from unalike.data.dataset import Array
from unalike.data.labels import check_labels, check_quantity
from unalike.data.numerals import plain_number
from unalike.errors import UserError, unknown

_QUANTITY = "Numbers are predicted with task='regression'."


def numbered(
    name: str, given: Sequence[Any], rows: Sequence[int], classes: Sequence[Any] | None
) -> tuple[list[Array], tuple[str, ...]]:
    """Labels of several sets of rows as places in the classes, and the classes.

    Where ``classes`` are given, whole numbers are places in them already, and texts are looked up there; else the
    classes are all labels that occur, sorted.
    """
    each = [_plain(part, f"{name}'s labels", count) for part, count in zip(given, rows, strict=True)]
    together = np.concatenate(each)
    if classes is not None:
        names = tuple(map(str, classes))
        if together.dtype.kind in "iub":
            return [part.astype(np.int64) for part in each], names
        return [_places(part, names) for part in each], names
    found, places = np.unique(together, return_inverse=True)
    names = tuple(_name(value) for value in found)
    check_labels("y", len(names), len(together), _QUANTITY)
    check_quantity("y", names, _QUANTITY)
    return list(np.split(places, np.cumsum(rows)[:-1])), names


def _name(value: Any) -> str:
    return str(value).lower() if isinstance(value, np.bool_) else plain_number(str(value))


def _plain(labels: Any, what: str, rows: int) -> Array:
    """One label for each row, as numbers, truth values or texts; floats that are whole numbers become these."""
    array: Array = as_array(labels, what)
    check_one_each(array, what, rows)
    if array.dtype.kind in "OT":
        gone = sum(value is None or type(value).__name__ == "NAType" or value != value for value in array.tolist())
        if gone:
            raise UserError(f"{what} are missing in {gone} row(s). Leave these rows out.")
        return np.array([str(value) for value in array.tolist()])
    if array.dtype.kind == "f":
        gone = int((~np.isfinite(array)).sum())
        if gone:
            raise UserError(f"{what} hold NaN or infinite values in {gone} row(s). Leave these rows out.")
        whole = array.astype(np.int64)
        return whole if (whole == array).all() else array
    if array.dtype.kind not in "iubU":
        raise UserError(f"{what} are of type {array.dtype}. Give texts or whole numbers.")
    return array


def _places(labels: Array, names: tuple[str, ...]) -> Array:
    """The place of every label in the classes."""
    found, code = np.unique(labels, return_inverse=True)
    known = {name: place for place, name in enumerate(names)}
    for value in found:
        if _name(value) not in known:
            raise unknown("class", _name(value), names)
    return np.array([known[_name(value)] for value in found])[code]
