"""New rows for a model that is trained already: checked against its coding, and coded piece by piece."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unalike.data.columns import BINARY, Column
from unalike.data.dataset import Array
from unalike.data.labels import class_places
from unalike.data.numerals import PLAIN, Reading, days, plain_number
from unalike.data.roles import Missing
from unalike.data.schema import MEASURED, Field, Schema
from unalike.errors import UserError, nearest

Unknown = Literal["error", "zeros"]
"""What becomes of a category, or of a gap in a column, that was not there when the coding was made."""
_YES_OR_NO = {"0", "1", *(word for pair in BINARY for word in pair)}
_USUAL = {"number": PLAIN, "date": Reading("date", days)}
_WRITTEN = {
    "number": "Write it as 1234.5 is written, or say decimal=comma",
    "date": "Write it as 2024-12-31 is written, or say dates=%d.%m.%Y",
}
_FEW = 5


@dataclass(frozen=True, eq=False)
class NewRows:
    """The rows of a table whose every value was checked; ``code`` makes them ready for a net."""

    schema: Schema
    usable: Array
    """a mask of the table's rows that are here: where rows with a missing value are dropped, those without one"""
    values: tuple[Array, ...]
    absent: tuple[Array, ...]
    labels: Array | None
    """the class of every row that is here, -1 where it is not known, or the number to predict, NaN where it is not
    known; None where no row tells it"""
    keep: bool = False
    """whether a missing value stays one, as NaN"""

    def code(self, places: Array) -> Array:
        """The rows at these places, counted among those that are here, as the net sees them (float32)."""
        each = zip(self.schema.fields, self.values, self.absent, strict=True)
        parts = [part for one, v, gone in each for part in one.code(v[places], gone[places], self.keep)]
        return np.stack(parts, axis=1)


def read_new_rows(
    schema: Schema, columns: Sequence[Column], missing: Missing, unknown: Unknown = "error"
) -> NewRows:
    """The rows of a table, if the coding fits them; a UserError names the column, the value and its line.

    The label's column may be there or not; columns that the coding does not have are not looked at.
    """
    named = {column.name: column for column in columns}
    others = named.keys() - {schema.label, *(one.name for one in schema.fields)}
    own = [_needed(one.name, named, others) for one in schema.fields]
    usable = np.ones(own[0].rows, bool)
    for column in own if missing == "drop" else ():
        usable &= ~column.absent
    if not usable.any():
        raise UserError("Every row has a missing value, and such rows are left out. Fill them in.")
    label = named.get(schema.label)
    if not usable.all():
        own = [column.where(usable) for column in own]
        label = label and label.where(usable)
    values = [_read(one, column, missing, unknown) for one, column in zip(schema.fields, own, strict=True)]
    labels = None if label is None else _labels(schema.classes, label)
    absent = tuple(column.absent for column in own)
    return NewRows(schema, usable, tuple(values), absent, labels, keep=missing == "keep")


def _needed(name: str, named: Mapping[str, Column], others: Iterable[str]) -> Column:
    """The column of that name; where there is none, one of the ``others`` may have been meant."""
    column = named.get(name)
    if column is None:
        near = nearest(name, others)
        remedy = f"Add it, or is it {near!r}? Then rename that." if near else "Add it."
        if len(named) == 1 and ";" in next(iter(named)):
            remedy = "Separate columns with commas, or say what is between them: delimiter=semicolon."
        raise UserError(f"column {name}: the model needs it, and it is not in this table. {remedy}")
    if column.unusable:
        raise UserError(f"column {name}: {column.unusable} cannot be used. Make it a number, a date or a text.")
    return column


def _read(one: Field, column: Column, missing: Missing, unknown: Unknown) -> Array:
    """The column's values as numbers, once every one of them is known to fit."""
    if column.missing and not one.indicate and missing != "keep" and unknown == "error":
        raise column.gap("Nothing was missing there in training: fill it in, or use --unknown zeros.")
    if one.kind in MEASURED and one.kind != "ordinal":
        return _numbers(one, column)
    if unknown == "error":
        _check_categories(one, column)
    return one.read(column)


def _numbers(one: Field, column: Column) -> Array:
    reading = column.reading
    if reading is None or reading.kind != one.kind:
        reading = _USUAL[one.kind]
    if column.complete is None or one.kind != "number":
        for text, value in column.values.items():
            found = reading.read(value)
            if found is None or math.isinf(found):
                rule = f"is not a {one.kind}, as it was in training. {_WRITTEN[one.kind]}."
                raise column.mistake(text, repr(text[:30]), rule)
    with np.errstate(over="ignore", invalid="ignore"):
        values = one.read(column)
        finite = np.isfinite(one.code(values, column.absent)[0])
    if not finite.all():
        text = column.texts[column.codes[int(np.argmin(finite))]]
        raise column.mistake(text, repr(text[:30]), "is too large for the scale of training. Mend it.")
    return values


def _check_categories(one: Field, column: Column) -> None:
    known = _YES_OR_NO if one.kind == "binary" else set(one.values)
    if not known:  # it was the same in all rows: only where it is missing tells something
        return
    for text, value in column.values.items():
        if not {value.lower() if one.kind == "binary" else value, plain_number(value)} & known:
            names = "yes, no, true, false" if one.kind == "binary" else _few(one.values)
            near = nearest(value, known)
            meant = f"Is it {near!r}? " if near else ""
            rule = f"is a category that training did not have ({names}). {meant}Mend it, or use --unknown zeros."
            raise column.mistake(text, repr(text[:30]), rule)


def _labels(classes: tuple[str, ...], column: Column) -> Array | None:
    """The number of every row's class, -1 where its label is missing; None where all are.

    Without classes it is the number to predict, NaN where it is missing.
    """
    if not classes:
        return column.numbers() if column.values else None
    known = class_places(column, classes)
    for text, place in known.items():
        if place is None:
            rule = f"is none of the classes ({_few(classes)}). Mend it, leave it empty, or remove the column."
            raise column.mistake(text, f"the label {text[:30]!r}", rule)
    return column.spread(known, -1) if known else None


def _few(names: Sequence[str]) -> str:
    """The first of some names, for a line of text."""
    return ", ".join(names[:_FEW]) + (", ..." if len(names) > _FEW else "")
