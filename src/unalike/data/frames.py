"""Data frames of pandas or polars, and Arrow tables: their columns go the way of a CSV file's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np

from unalike.data.columns import Column, Declared
from unalike.data.dataset import Dataset
from unalike.data.declared import declare
from unalike.data.roles import Missing, Roles
from unalike.data.table import coded
from unalike.errors import UserError
from unalike.tallies import Kind

_GONE = ("NAType", "NaTType")  # what pandas has where there is no value; it is not needed here to ask for it


def is_frame(value: Any) -> bool:
    """Whether it is a data frame of pandas or polars, or a table of Arrow."""
    return type(value).__module__.split(".")[0] in ("pandas", "polars", "pyarrow") and hasattr(value, "columns")


def frame_columns(frame: Any) -> list[Column]:
    """The columns of a data frame; one that holds else than texts, numbers, truth values or dates is unusable."""
    names = [str(name) for name in getattr(frame, "column_names", None) or frame.columns]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(f"The data frame has the column {twice[0]!r} twice. Rename one.")
    if not names or not len(frame):
        raise UserError("The data frame has no rows. Check where it comes from.")
    each = zip(names, (frame[own] for own in _keys(frame)), strict=True)
    return [_said(column_of(name, _listed(series)), series) for name, series in each]


def _said(column: Column, series: Any) -> Column:
    """The column, as a category where the frame says that it is one (``astype("category")``)."""
    said = str(getattr(series, "dtype", "")) == "category" and not column.unusable
    return replace(column, declared=Declared("category")) if said else column


def column_of(name: str, values: Sequence[Any]) -> Column:
    """The column of these values, one for each row."""
    try:
        return Column.of(name, [_text(value) for value in values])
    except TypeError as error:
        return replace(Column.of(name, [""] * len(values)), unusable=str(error))


def _keys(frame: Any) -> list[Any]:
    return list(getattr(frame, "column_names", None) or frame.columns)


def _listed(series: Any) -> list[Any]:
    """The values as Python's own numbers, texts and dates."""
    for way in ("to_list", "tolist", "to_pylist"):
        if hasattr(series, way):
            return list(getattr(series, way)())
    raise UserError(f"A column of the data frame is a {type(series).__name__}. Give one value for each row.")


def _text(value: Any) -> str:
    """A value as a CSV file would have it; TypeError with the name of its type where it cannot."""
    if isinstance(value, str):
        return value
    if value is None or type(value).__name__ in _GONE:
        return ""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, date):  # or a time of a day, of any zone
        return value.isoformat()
    if isinstance(value, Number | Decimal) and not isinstance(value, complex):
        return str(value)
    raise TypeError(type(value).__name__)


def of_frame(
    frame: Any,
    y: Any,
    label: str | None,
    parties: Any,
    test: Any,
    name: str,
    missing: Missing,
    ignore: tuple[str, ...],
    task: Kind,
    types: str = "",
    categories: tuple[str, ...] = (),
) -> Dataset:
    """The data set of a data frame; ``label`` and ``parties`` name columns, or ``y`` and ``parties`` are values.

    ``test`` is a fraction, None, or test rows of their own: a frame, or a frame and its labels.
    """
    if y is not None and label is not None:
        raise UserError(f"The labels are given twice: as y, and as the column {label!r}. Leave one out.")
    columns = declare(frame_columns(frame), types, categories)
    party = parties if isinstance(parties, str) else ""
    if y is not None:
        label = str(getattr(y, "name", None) or "y")
        columns = _with(columns, label, y)
    if parties is not None and not party:
        party = "parties"
        columns = _with(columns, party, parties)
    roles = Roles.choose(columns, label or "", party, ignore)
    fraction = test if isinstance(test, int | float) else None
    made = coded(name, roles, fraction, missing, task)
    if test is None or fraction is not None:
        return made
    others, y_test = (test, None) if is_frame(test) else test[:2]
    columns = declare(frame_columns(others), types, categories)
    columns = columns if y_test is None else _with(columns, roles.label.name, y_test)
    assert made.schema is not None
    x_test, y_test = made.schema.code(columns, missing)
    return replace(made, x_test=x_test, y_test=y_test, group_test=None)


def _with(columns: list[Column], name: str, values: Any) -> list[Column]:
    """The columns and one more, which has a value for each row."""
    found = values if isinstance(values, list | tuple) else _listed(values)
    rows = len(columns[0].places)
    if len(found) != rows:
        raise UserError(f"{name} has {len(found)} values, but there are {rows} rows. Give one for each row.")
    if any(column.name == name for column in columns):
        raise UserError(
            f"The data frame has a column {name!r} already. Rename it, or name it as label or parties."
        )
    return [*columns, column_of(name, found)]
