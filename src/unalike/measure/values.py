"""What callers give as a party's labels or features, checked: a mistake is one line that names the party."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from unalike.data.dataset import Array
from unalike.errors import UserError
from unalike.measure.support import Of, Values, named
from unalike.measure.wire import MOST_LETTERS, is_name

MOST_ROWS = 2**53


def read_values(party: str, values: Any, of: Of) -> Values:
    """A party's rows of each label, or its features."""
    if of == "features":
        return _features(party, values)
    found: dict[str, int] = {}
    for label, rows in values.items() if isinstance(values, Mapping) else _counted(party, values):
        name = _name(party, label)
        found[name] = found.get(name, 0) + _rows(party, name, rows)
    return found


def _features(party: str, values: Any) -> Array:
    if isinstance(values, Mapping):
        raise UserError(f"{named(party)} has labels where features are measured. Give [rows, dimensions].")
    try:
        table = np.asarray(values)
        if table.dtype.kind == "O":  # Python numbers of several kinds
            table = table.astype(np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise UserError(f"{named(party)}'s features are no table of numbers. Give [rows, dimensions].") from error
    if table.dtype.kind not in "biuf":
        raise UserError(f"{named(party)}'s features are {table.dtype}, not real numbers. Turn them into numbers.")
    return table


def _counted(party: str, values: Any) -> Iterable[tuple[Any, int]]:
    """Labels with how many rows have them; a label may come more than once."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufU" and values.ndim == 1:
        labels, rows = np.unique(values, return_counts=True)
        return zip(labels.tolist(), rows.tolist(), strict=True)
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise UserError(f"{named(party)}'s labels must be a list with one label for each row.")
    return ((label, 1) for label in values)


def _name(party: str, label: Any) -> str:
    if isinstance(label, float) and label.is_integer():
        label = int(label)  # one label, however the number is written
    fine = isinstance(label, str | numbers.Real) and label == label  # not NaN
    if not fine or not is_name(str(label)):
        raise UserError(
            f"{named(party)} has the label {str(label)[:40]!r}. Labels are numbers, or text of at most "
            f"{MOST_LETTERS} letters. Name such rows, or leave them out."
        )
    return str(label)


def _rows(party: str, label: str, rows: Any) -> int:
    number: Any = rows.item() if isinstance(rows, np.generic) else rows
    fine = isinstance(number, int | float) and abs(number) <= MOST_ROWS and number == int(number)
    if not fine:
        what = f"{str(rows)[:40]} rows of the label {label[:40]!r}"
        raise UserError(f"{named(party)} has {what}. Counts are whole numbers up to 2^53.")
    return int(number)
