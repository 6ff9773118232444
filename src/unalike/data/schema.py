"""An agreed coding of tables that may not be pooled: each site describes its own, all code theirs alike.

A description holds what must be known to agree: the columns and their types, the values of categories and labels,
and of numbers the count, the mean and the sum of squared deviations of the training rows. No row is in it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from unalike.data.columns import BINARY, MOST_CATEGORIES, Column, number
from unalike.data.dataset import Array
from unalike.data.table import Missing, Roles, class_names, complete, plain_number, test_rows
from unalike.errors import UserError

Kind = Literal["number", "binary", "category"]
_YES = {pair[1] for pair in BINARY}
_DIGITS = 6  # of the agreed constants: what is beyond says more about single rows than about scale
MOST_COLUMNS = 100_000


@dataclass(frozen=True)
class Described:
    """One column of one site."""

    name: str
    kind: Kind
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
        """Ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Description:
        """What :meth:`to_dict` gave; ValueError where it did not."""
        try:
            columns = tuple(Described(**{**c, "values": _texts(c.get("values", ()))}) for c in values["columns"])
            made = cls(str(values["label"]), _texts(values["classes"]), columns, int(values["rows"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a description of a table: {error}") from None
        for column in columns:
            numbers = (column.mean, column.squares)
            if column.kind not in ("number", "binary", "category") or not isinstance(column.name, str):
                raise ValueError(f"column {column.name!r} has no known kind: {column.kind!r}")
            if not all(isinstance(v, int | float) and math.isfinite(v) for v in numbers) or column.squares < 0:
                raise ValueError(f"column {column.name!r} has a mean or deviation that is no number")
            if not isinstance(column.count, int) or not 0 <= column.count <= 2**53:
                raise ValueError(f"column {column.name!r} has an impossible count")
        if not 0 < made.rows <= 2**53 or len(columns) > MOST_COLUMNS:
            raise ValueError("an impossible number of rows or columns")
        return made


@dataclass(frozen=True)
class Field:
    """How one column is coded at every site."""

    name: str
    kind: Kind
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

    def code(self, column: Column) -> list[Array]:
        """The coded columns, float32."""
        made: list[Array]
        if self.kind == "number":
            values = (column.numbers() - self.shift) / self.scale
            made = [np.where(column.absent, 0.0, values).astype(np.float32)]
        elif self.kind == "binary":
            made = [np.array([text.strip().lower() in _YES for text in column.cells], np.float32)]
        else:
            cells = np.array([column.values.get(text, "") for text in column.cells], dtype=object)
            made = [(cells == value).astype(np.float32) for value in self.values]
        return made + [column.absent.astype(np.float32)] * self.indicate


@dataclass(frozen=True)
class Schema:
    """The coding that all sites agreed on."""

    label: str
    classes: tuple[str, ...]
    fields: tuple[Field, ...]
    ignore: tuple[str, ...] = ()
    """columns that vary nowhere"""
    features: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = [name for one in self.fields for name in one.coded]
        twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
        if twice:
            raise UserError(
                f"The coded column {min(twice)!r} would be there twice. Rename a column at every site."
            )
        object.__setattr__(self, "features", tuple(names))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {k: v for k, v in asdict(self).items() if k != "features"}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Schema:
        """What :meth:`to_dict` gave; ValueError where it did not."""
        try:
            fields = tuple(Field(**{**f, "values": _texts(f.get("values", ()))}) for f in values["fields"])
            made = cls(values["label"], _texts(values["classes"]), fields, _texts(values.get("ignore", ())))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a schema: {error}") from None
        for one in fields:
            if one.kind not in ("number", "binary", "category") or not (
                one.scale > 0 and math.isfinite(one.shift)
            ):
                raise ValueError(f"column {one.name!r} has no usable coding")
        return made

    @property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def code(self, columns: Sequence[Column], missing: Missing) -> tuple[Array, Array]:
        """A site's table as rows (float32) and labels; a UserError names the column that does not fit."""
        named = {column.name: column for column in columns}
        wanted = [one.name for one in self.fields]
        for name in (self.label, *wanted):
            if name not in named:
                raise UserError(f"column {name}: it was agreed on, but is not in this table. Add it.")
        roles = complete(Roles(named[self.label], None, tuple(named[name] for name in wanted)), missing)
        labels = _label_texts(roles.label)
        unknown = sorted(set(labels) - set(self.classes))
        if unknown:
            raise UserError(
                f"column {self.label}: the label {unknown[0]!r} was not agreed on ({', '.join(self.classes)})."
            )
        index = {name: place for place, name in enumerate(self.classes)}
        parts = [
            part for one, column in zip(self.fields, roles.features, strict=True) for part in one.code(column)
        ]
        x = np.stack(parts, axis=1)
        if not np.isfinite(x).all():
            raise UserError("A value is too large for its agreed scale. Rescale the column at every site.")
        return x, np.array([index[text] for text in labels])


def describe(
    columns: Sequence[Column], label: str, ignore: tuple[str, ...], missing: Missing, test: float
) -> Description:
    """What a site tells of its table; numbers are of its training rows alone."""
    roles = complete(Roles.choose(columns, label, "", ignore), missing)
    labels = _label_texts(roles.label)
    classes = class_names(labels)
    codes = {name: place for place, name in enumerate(classes)}
    y = np.array([codes[text] for text in labels])
    train = ~test_rows(y, np.zeros(len(y), np.int64), test)
    told = tuple(_described(column, train) for column in roles.features)
    return Description(roles.label.name, classes, told, int(train.sum()))


def agree(descriptions: Mapping[str, Description]) -> Schema:
    """The schema of all sites' tables, or a UserError that names the column and the site that do not fit."""
    (first_name, first), *others = descriptions.items()
    for name, other in others:
        if other.label != first.label:
            raise UserError(
                f"{name} predicts column {other.label!r}, {first_name} {first.label!r}. Agree on one --label."
            )
    wanted = [column.name for column in first.columns]
    for name, other in others:
        there = {column.name for column in other.columns}
        for column in sorted(set(wanted) ^ there):
            has, lacks = (name, first_name) if column in there else (first_name, name)
            raise UserError(f"column {column}: {has} has it, {lacks} does not. Add it, or let all ignore it.")
    fields, constant = [], []
    for column in wanted:
        each = {name: next(c for c in one.columns if c.name == column) for name, one in descriptions.items()}
        made = _field(column, each)
        if made is None:
            constant.append(column)
        else:
            fields.append(made)
    if not fields:
        raise UserError("No column varies at any site, so there is nothing to learn from. Check the tables.")
    classes = class_names([name for one in descriptions.values() for name in one.classes])
    if len(classes) < 2:
        raise UserError(f"The label {first.label} is {classes[0]!r} at every site. It needs two classes or more.")
    return Schema(first.label, classes, tuple(fields), tuple(constant))


def _field(column: str, each: Mapping[str, Described]) -> Field | None:
    indicate = any(one.missing for one in each.values())
    told = {name: one for name, one in each.items() if one.count}
    kinds = {one.kind: name for name, one in told.items()}
    if "number" in kinds and len(kinds) > 1:
        other = next(kind for kind in kinds if kind != "number")
        raise UserError(
            f"column {column}: {kinds['number']} has numbers, {kinds[other]} has texts "
            f"({', '.join(told[kinds[other]].values[:3])}). Code it alike at every site."
        )
    if "number" in kinds:
        shift, scale = _pooled(list(told.values()))
        return None if scale == 0 and not indicate else Field(column, "number", shift, scale or 1.0, (), indicate)
    values = sorted({value for one in told.values() for value in one.values})
    if len(values) < 2 and not indicate:
        return None
    if len(values) > MOST_CATEGORIES:
        raise UserError(f"column {column}: {len(values)} categories over all sites, more than {MOST_CATEGORIES}.")
    if values and any({value.lower() for value in values} <= set(pair) for pair in BINARY):
        return Field(column, "binary", indicate=indicate)
    return Field(column, "category", values=tuple(values), indicate=indicate)


def _pooled(each: Sequence[Described]) -> tuple[float, float]:
    """Mean and deviation over all sites' training rows (Chan et al. 1983), to six digits."""
    count = sum(one.count for one in each)
    mean = sum(one.mean * (one.count / count) for one in each)
    squares = sum(one.squares + one.count * (one.mean - mean) ** 2 for one in each)
    deviation = math.sqrt(squares / count)
    return _rounded(mean), 0.0 if deviation <= 1e-9 * abs(mean) else _rounded(deviation)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _described(column: Column, train: Array) -> Described:
    missing = bool(column.missing)
    known = [text for text, use in zip(column.cells, train & ~column.absent, strict=True) if use]
    if column.kind == "identifier":
        raise UserError(
            f"column {column.name}: every value differs, as an identifier's. Ignore it: --ignore {column.name}"
        )
    texts = {column.values[text] for text in known}
    if column.kind == "number" or (column.kind == "constant" and all(number(text) is not None for text in texts)):
        values = column.numbers()[train & ~column.absent]
        if not len(values):
            return Described(column.name, "number", missing=missing)
        mean = float(values.mean())
        squares = float(((values - mean) ** 2).sum())
        if not math.isfinite(squares):
            raise UserError(f"column {column.name}: its values are too large to standardise. Rescale them.")
        return Described(column.name, "number", (), len(values), mean, squares, missing)
    kind: Kind = "binary" if column.kind == "binary" else "category"
    return Described(column.name, kind, tuple(sorted(texts)), len(known), missing=missing)


def _label_texts(column: Column) -> list[str]:
    """Every row's class; a number is written one way (1.0 is the class 1)."""
    values = {text: plain_number(value) for text, value in column.values.items()}
    return [values[text] for text in column.cells]


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"expected texts, got {values!r}"[:200])
    return tuple(values)
