"""An agreed coding of tables that may not be pooled: each site describes its own, all code theirs alike."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from unalike.data.columns import BINARY, MOST_CATEGORIES, Column
from unalike.data.dataset import Array, Units
from unalike.data.labels import NO_NUMBERS, check_quantity, class_names
from unalike.data.sites.description import (
    MOST_COLUMNS,
    Described,
    Description,
    Kind,
    check_kind,
    is_number,
    label_texts,
    texts,
)
from unalike.data.table import Missing, Roles, complete
from unalike.errors import UserError

MEASURED: frozenset[Kind] = frozenset(("number", "date"))  # coded by shift and scale
_YES = {pair[1] for pair in BINARY}
_DIGITS = 6  # of the agreed constants: what is beyond says more about single rows than about scale


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

    def read(self, column: Column) -> Array:
        """Every row's value as one number: a number or date as it is, 1 for yes, the place of a category.

        A category that was not agreed on has the place -1, and so has a missing one.
        """
        if self.kind in MEASURED:
            if column.values and (column.reading is None or column.reading.kind != self.kind):
                raise UserError(
                    f"column {self.name}: {self.kind}s were agreed on, and it has none. Code it alike."
                )
            return column.numbers()
        if self.kind == "binary":
            return np.array([text.strip().lower() in _YES for text in column.cells])
        places = {value: place for place, value in enumerate(self.values)}
        known = {text: places.get(value, -1) for text, value in column.values.items()}
        return np.array([known.get(text, -1) for text in column.cells])

    def code(self, values: Array, absent: Array) -> list[Array]:
        """What was read as the net sees it: one array or, for a category, one for each of its values."""
        if self.kind in MEASURED:
            made = [np.where(absent, 0.0, (values - self.shift) / self.scale)]
        elif self.kind == "binary":
            made = [values]
        else:
            made = [values == place for place in range(len(self.values))]
        return [part.astype(np.float32) for part in made + [absent] * self.indicate]


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
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise UserError(
                f"The coded column {min(twice)!r} would be there twice. Rename a column at every site."
            )
        object.__setattr__(self, "features", tuple(names))

    @property
    def units(self) -> Units:
        """From coded columns back to the values in the tables."""
        numbers = {one.name: (one.shift, one.scale) for one in self.fields}
        each = np.array([numbers.get(name, (0.0, 1.0)) for name in self.features])
        return Units(each[:, 0], each[:, 1])

    def to_dict(self) -> dict[str, Any]:
        """The same as dicts and lists that JSON can hold, without what follows from the rest."""
        return {k: v for k, v in asdict(self).items() if k != "features"}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Schema:
        """What :meth:`to_dict` gave; ValueError where it did not."""
        try:
            fields = tuple(Field(**{**f, "values": texts(f.get("values", ()))}) for f in values["fields"])
            label, classes = values["label"], texts(values["classes"])
            ignore = texts(values.get("ignore", ()))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a schema: {error}"[:200]) from None
        for one in fields:
            check_kind(one)
            numbers = is_number(one.shift) and is_number(one.scale) and one.scale > 0
            if not numbers or type(one.indicate) is not bool or len(one.values) > MOST_CATEGORIES:
                raise ValueError(f"column {one.name!r} has no usable coding")
        if not isinstance(label, str) or len(set(classes)) < max(2, len(classes)):
            raise ValueError("no label, or not two different classes")
        if not 0 < len(fields) <= MOST_COLUMNS:
            raise ValueError("an impossible number of columns")
        return cls(label, classes, fields, ignore)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def check(self, own: Description) -> None:
        """Refuse a coding of other columns than a site's own plan gives away, or of another kind."""
        if self.label != own.label:
            raise UserError(f"the schema predicts {self.label!r}, not {own.label!r} as this site's plan says.")
        kinds = {one.name: one.kind for one in self.fields}
        strange = sorted({*kinds, *self.ignore} ^ {one.name for one in own.columns})
        if strange:
            raise UserError(f"column {strange[0]}: by this site's plan and table, other columns are used.")
        for one in own.columns:
            kind = kinds.get(one.name)
            if one.count and kind is not None and kind != one.kind and MEASURED & {kind, one.kind}:
                raise UserError(f"column {one.name}: the schema takes it for a {kind}, here it is a {one.kind}.")

    def code(self, columns: Sequence[Column], missing: Missing) -> tuple[Array, Array]:
        """A site's table as rows (float32) and labels; a UserError names the column that does not fit."""
        named = {column.name: column for column in columns}
        wanted = [one.name for one in self.fields] + list(self.ignore)  # a row is dropped as when it was described
        for name in (self.label, *wanted):
            if name not in named:
                raise UserError(f"column {name}: it was agreed on, but is not in this table. Add it.")
        roles = complete(Roles(named[self.label], None, tuple(named[name] for name in wanted)), missing)
        labels = label_texts(roles.label)
        unknown = sorted(set(labels) - set(self.classes))
        if unknown:
            raise UserError(
                f"column {self.label}: the label {unknown[0]!r} was not agreed on ({', '.join(self.classes)})."
            )
        index = {name: place for place, name in enumerate(self.classes)}
        with np.errstate(over="ignore", invalid="ignore"):
            parts = [
                part
                for one, column in zip(self.fields, roles.features, strict=False)
                for part in one.code(one.read(column), column.absent)
            ]
        x = np.stack(parts, axis=1)
        if not np.isfinite(x).all():
            column = self.features[int(np.argmin(np.isfinite(x).all(axis=0)))]
            raise UserError(f"column {column}: a value is too large for its agreed scale. Rescale it everywhere.")
        return x, np.array([index[text] for text in labels])


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
    check_quantity(first.label, classes, NO_NUMBERS)
    return Schema(first.label, classes, tuple(fields), tuple(constant))


def _field(column: str, each: Mapping[str, Described]) -> Field | None:
    indicate = any(one.missing for one in each.values())
    told = {name: one for name, one in each.items() if one.count}
    kinds = {one.kind: name for name, one in told.items()}
    measured: Kind | None = next((kind for kind in kinds if kind in MEASURED), None)
    other = next((kind for kind in kinds if kind != measured), None)
    if measured and other:
        has = f"{other}s" if other in MEASURED else f"texts ({', '.join(told[kinds[other]].values[:3])})"
        raise UserError(
            f"column {column}: {kinds[measured]} has {measured}s, {kinds[other]} has {has}. "
            f"Code it alike at every site."
        )
    if measured:
        try:
            shift, scale = _pooled(list(told.values()))
        except OverflowError:
            raise UserError(f"column {column}: its values are too large to standardise. Rescale them.") from None
        return None if scale == 0 and not indicate else Field(column, measured, shift, scale or 1.0, (), indicate)
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
    if not math.isfinite(deviation):
        raise OverflowError
    return _rounded(mean), 0.0 if deviation <= 1e-9 * abs(mean) else _rounded(deviation)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
