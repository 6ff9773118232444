"""How the columns of a table become numbers: the coding that a model was trained with, and needs ever after."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from unalike.data.columns import BINARY, Column
from unalike.data.dataset import Array, Units
from unalike.data.labels import class_places, read_targets
from unalike.data.limits import MOST_CATEGORIES
from unalike.data.numerals import plain_number
from unalike.data.roles import Missing, Roles, complete
from unalike.errors import UserError

CodedKind = Literal["number", "date", "binary", "category", "ordinal"]
MEASURED: frozenset[CodedKind] = frozenset(("number", "date", "ordinal"))  # coded by shift and scale
MOST_COLUMNS = 100_000
_YES = {"1", *(pair[1] for pair in BINARY)}


@dataclass(frozen=True)
class Field:
    """How one column is coded in every table."""

    name: str
    kind: CodedKind
    shift: float = 0.0
    scale: float = 1.0
    values: tuple[str, ...] = ()
    indicate: bool = False
    """whether a column tells where the value is missing"""

    @property
    def coded(self) -> list[str]:
        """The names of the coded columns."""
        names = [f"{self.name}_{value}" for value in self.values] if self.kind == "category" else [self.name]
        return names + [f"{self.name}_missing"] * self.indicate

    def read(self, column: Column) -> Array:
        """Every row's value as one number: a number or date as it is, 1 for yes, the place of a category.

        A category that the coding does not have is at the place -1, and so is a missing one; of ordinal values,
        these are NaN.
        """
        if self.kind == "ordinal":
            return places_of(column, self.values)
        if self.kind in MEASURED:
            if (column.reading is None or column.reading.kind != self.kind) and column.values:
                raise UserError(
                    f"column {self.name}: {self.kind}s were agreed on, and it has none. Code it alike."
                )
            return column.numbers()
        if self.kind == "binary":
            yes = {text: plain_number(value.lower()) in _YES for text, value in column.values.items()}
            return column.spread(yes, False)
        return column.spread(_places(column, self.values), -1)

    def code(self, values: Array, absent: Array, keep: bool = False) -> list[Array]:
        """What was read as the net sees it: one array or, for a category, one for each of its values.

        A missing value is 0 everywhere, or NaN where it is to ``keep`` being one.
        """
        if self.kind in MEASURED:
            made = [np.where(absent | np.isnan(values), 0.0, (values - self.shift) / self.scale)]
        elif self.kind == "binary":
            made = [values]
        else:
            made = [values == place for place in range(len(self.values))]
        if keep:
            made = [np.where(absent, np.nan, part) for part in made]
        return [part.astype(np.float32) for part in made + [absent] * self.indicate]


def _places(column: Column, values: Sequence[str]) -> dict[str, int]:
    """The place among ``values`` of every text, as it is or as a plain number; those without one are left out."""
    return {text: place for text, place in class_places(column, values).items() if place is not None}


def places_of(column: Column, order: Sequence[str]) -> Array:
    """The place of every row's value in an order, 0 for the least; NaN where it is missing or not in it."""
    return column.spread({text: float(place) for text, place in _places(column, order).items()}, np.nan)


def fit(column: Column, train: Array, indicate: bool) -> Field | None:
    """The coding of a column by its training rows; None for one that does not vary.

    Numbers are standardised by the mean and standard deviation (1 where they do not vary) of these rows, and
    categories are those that they have.
    """
    indicate = indicate and column.missing > 0
    if column.kind == "constant":  # at most, where it is missing tells something
        return Field(column.name, "category", indicate=True) if indicate else None
    if column.kind == "number" or column.kind == "date":
        return Field(column.name, column.kind, *_scale(column, column.numbers(), train), indicate=indicate)
    column.check_feature()
    if column.kind == "binary":
        return Field(column.name, "binary", indicate=indicate)
    if column.kind == "ordinal" and column.declared:
        places = places_of(column, column.declared.order)
        return Field(column.name, "ordinal", *_scale(column, places, train), column.declared.order, indicate)
    return Field(column.name, "category", values=tuple(column.seen(train)), indicate=indicate)


def _scale(column: Column, values: Array, train: Array) -> tuple[float, float]:
    """The mean and the standard deviation of the training rows."""
    known = values[train & ~column.absent]
    if not len(known):
        return 0.0, 1.0
    if known.min() == known.max():  # rounding could leave a tiny deviation to divide by
        return float(known[0]), 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(known.mean()), float(known.std())
    if not np.isfinite(deviation):  # every value would be 0, which is finite
        raise UserError(f"column {column.name}: its values are too large to standardise. Rescale them.")
    return mean, deviation


@dataclass(frozen=True)
class Schema:
    """The coding of a whole table: made from training rows, or agreed on by sites that may not pool theirs.

    ``classes`` are empty where a number is predicted. Together with ``missing`` it is all that it takes to code a
    table of new rows (:func:`unalike.data.new_rows.read_new_rows`).
    """

    label: str
    classes: tuple[str, ...]
    fields: tuple[Field, ...]
    ignore: tuple[str, ...] = ()
    """columns that vary nowhere"""
    missing: Missing = "error"
    """what became of missing values when the rows were in one place; sites have it in their plan"""
    features: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names: dict[str, None] = {}
        for one in self.fields:
            for name in one.coded:
                if name in names:
                    raise UserError(
                        f"column {one.name}: its coded column {name!r} is there already. It would be there twice: "
                        "rename one, in every table."
                    )
                names[name] = None
        object.__setattr__(self, "features", tuple(names))

    @property
    def units(self) -> Units:
        """From coded columns back to the values in the tables."""
        numbers = {one.name: (one.shift, one.scale) for one in self.fields if one.kind in MEASURED}
        each = np.array([numbers.get(name, (0.0, 1.0)) for name in self.features])
        return Units(each[:, 0], each[:, 1])

    def to_dict(self) -> dict[str, Any]:
        """The same as dicts and lists that JSON can hold, without what follows from the rest."""
        values = {k: v for k, v in asdict(self).items() if k != "features"}
        if self.missing == "error":
            del values["missing"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Schema:
        """What :meth:`to_dict` gave; ValueError where it did not."""
        try:
            fields = tuple(Field(**{**f, "values": texts(f.get("values", ()))}) for f in values["fields"])
            label, classes = values["label"], texts(values["classes"])
            ignore, missing = texts(values.get("ignore", ())), values.get("missing", "error")
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a schema: {error}"[:200]) from None
        for one in fields:
            check_kind(one)
            numbers = is_number(one.shift) and is_number(one.scale) and one.scale > 0
            if not numbers or type(one.indicate) is not bool or len(one.values) > MOST_CATEGORIES:
                raise ValueError(f"column {one.name!r} has no usable coding")
        if not isinstance(label, str) or len(set(classes)) < len(classes) or len(classes) == 1:
            raise ValueError("no label, or not two different classes")
        if not 0 < len(fields) <= MOST_COLUMNS:
            raise ValueError("an impossible number of columns")
        if missing not in get_args(Missing):
            raise ValueError(f"missing is {str(missing)[:40]!r}")
        return cls(label, classes, fields, ignore, missing)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def code(self, columns: Sequence[Column], missing: Missing) -> tuple[Array, Array]:
        """A table as rows (float32) and labels; a UserError names the column that does not fit."""
        named = {column.name: column for column in columns}
        wanted = [one.name for one in self.fields] + list(self.ignore)  # a row is dropped as when it was described
        for name in (self.label, *wanted):
            if name not in named:
                raise UserError(f"column {name}: it was agreed on, but is not in this table. Add it.")
        roles = complete(Roles(named[self.label], None, tuple(named[name] for name in wanted)), missing)
        return self.rows(roles.features, missing), self._answers(roles.label)

    def rows(self, columns: Sequence[Column], missing: Missing) -> Array:
        """The rows (float32) of a table whose gaps were looked at."""
        named = {column.name: column for column in columns}
        x = np.empty((columns[0].rows, len(self.features)), np.float32)
        place = iter(range(len(self.features)))
        with np.errstate(over="ignore", invalid="ignore"):
            for one in self.fields:
                column = named[one.name]
                for part in one.code(one.read(column), column.absent, missing == "keep"):
                    x[:, next(place)] = part
        if np.isinf(x).any():
            feature = self.features[int(np.argmax(np.isinf(x).any(axis=0)))]
            raise UserError(f"column {feature}: a value is too large for its agreed scale. Rescale it everywhere.")
        return x

    def _answers(self, label: Column) -> Array:
        """The class of every row, or the number to predict."""
        if not self.classes:
            return read_targets(label)
        places = class_places(label, self.classes)
        unknown = sorted(label.values[text] for text, place in places.items() if place is None)
        if unknown:
            raise UserError(
                f"column {self.label}: the label {unknown[0]!r} was not agreed on ({', '.join(self.classes)})."
            )
        return label.spread(places, -1)


def check_kind(one: Any) -> None:
    """ValueError unless it has a name and a kind that is known."""
    if not isinstance(one.name, str) or one.kind not in get_args(CodedKind):
        raise ValueError(f"column {str(one.name)[:60]!r} has no known kind: {str(one.kind)[:60]!r}")


def is_number(value: object) -> bool:
    """Whether it is a finite number; whole ones may be too large for a float."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max  # type: ignore[arg-type]


def texts(values: Any) -> tuple[str, ...]:
    """A list of texts as it comes from JSON; TypeError where it is none."""
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"expected texts, got {values!r}"[:200])
    return tuple(values)
