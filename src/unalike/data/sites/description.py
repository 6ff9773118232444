"""What a site tells of its table before anything is agreed: columns, types, values of categories, sums of numbers.

Of numbers these are the count, the mean and the sum of squared deviations of the training rows. No row is in it,
and no value of a column that looks like a name, an identifier or a free text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from unalike.data.columns import Column
from unalike.data.dataset import Array
from unalike.data.labels import NO_NUMBERS, check_labels, class_names, class_places
from unalike.data.limits import check_few
from unalike.data.numerals import plain_number
from unalike.data.roles import Missing, Roles, complete, test_rows
from unalike.data.schema import MOST_COLUMNS, CodedKind, check_kind, is_number, places_of, texts
from unalike.errors import UserError, for_each

MOST_ROWS = 2**31 - 1
"""Rows that a site can have: server and sites refuse more alike, before anything is trained."""


@dataclass(frozen=True)
class Described:
    """One column of one site."""

    name: str
    kind: CodedKind
    values: tuple[str, ...] = ()
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    missing: bool = False


@dataclass(frozen=True)
class Description:
    """What a site tells of its table before anything is agreed."""

    label: str
    classes: tuple[str, ...]
    columns: tuple[Described, ...]
    rows: int

    def to_dict(self) -> dict[str, Any]:
        """The same as dicts and lists that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Description:
        """What :meth:`to_dict` gave; ValueError where it did not."""
        try:
            columns = tuple(Described(**{**c, "values": texts(c.get("values", ()))}) for c in values["columns"])
            made = cls(values["label"], texts(values["classes"]), columns, values["rows"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a description of a table: {error}"[:200]) from None
        for column in columns:
            check_kind(column)
            if not (is_number(column.mean) and is_number(column.squares)) or column.squares < 0:
                raise ValueError(f"column {column.name!r} has a mean or deviation that is no number")
            if not is_count(column.count) or type(column.missing) is not bool:
                raise ValueError(f"column {column.name!r} has an impossible count")
        if not isinstance(made.label, str) or not made.classes:
            raise ValueError("no label")
        if not is_count(made.rows) or not made.rows:
            raise ValueError(f"{str(made.rows)[:40]} training rows; 1 to {MOST_ROWS:,} are possible")
        if len(columns) > MOST_COLUMNS:
            raise ValueError(f"{len(columns):,} columns; at most {MOST_COLUMNS:,} are possible")
        if len({column.name for column in columns}) < len(columns):
            raise ValueError("a column is there twice")
        return made


def describe(
    columns: Sequence[Column], label: str, ignore: tuple[str, ...], missing: Missing, test: float
) -> Description:
    """What a site tells of its table; numbers are of its training rows alone."""
    roles = complete(Roles.choose(columns, label, "", ignore), missing)
    classes = class_names(map(plain_number, roles.label.distinct))
    check_labels(roles.label.name, len(classes), roles.label.rows, NO_NUMBERS)
    y = roles.label.spread(class_places(roles.label, classes), -1)
    train = ~test_rows(y, np.zeros(len(y), np.int64), test)
    told = for_each(lambda column: _described(column, train), roles.features)
    if missing == "keep":  # no column is to tell where a value is missing, so nobody needs to know
        told = [replace(one, missing=False) for one in told]
    return Description(roles.label.name, classes, tuple(told), int(train.sum()))


def _described(column: Column, train: Array) -> Described:
    missing = bool(column.missing)
    column.check_feature()
    order = column.declared.order if column.declared else ()
    if column.reading is not None or order:
        kind: CodedKind = column.reading.kind if column.reading is not None else "ordinal"
        values = (places_of(column, order) if order else column.numbers())[train & ~column.absent]
        if not len(values):
            return Described(column.name, kind, order, missing=missing)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(values.mean())
            squares = float(((values - mean) ** 2).sum())
        if not math.isfinite(squares):
            raise UserError(f"column {column.name}: its values are too large to standardise. Rescale them.")
        return Described(column.name, kind, order, len(values), mean, squares, missing)
    found, count = tuple(column.seen(train)), int((train & ~column.absent).sum())
    check_few(column.name, len(found), count)
    said = column.declared.kind if column.declared else column.kind
    kind = "binary" if said == "binary" else "category"
    return Described(column.name, kind, found, count, missing=missing)


def is_count(value: object) -> bool:
    """Whether it is a whole number that rows can have."""
    return type(value) is int and 0 <= value <= MOST_ROWS
