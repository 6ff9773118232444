"""What sites agree on that may not pool their rows: each describes its table, and all code theirs alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from unalike.data.columns import BINARY
from unalike.data.labels import NO_NUMBERS, check_quantity, class_names
from unalike.data.limits import MOST_CATEGORIES
from unalike.data.schema import MEASURED, CodedKind, Field, Schema
from unalike.data.sites.description import Described, Description
from unalike.errors import UserError

_DIGITS = 6  # of the agreed constants: what is beyond says more about single rows than about scale


def check_agreed(schema: Schema, own: Description) -> None:
    """Refuse a coding of other columns than a site's own plan gives away, or of another kind."""
    if schema.label != own.label:
        raise UserError(f"the schema predicts {schema.label!r}, not {own.label!r} as this site's plan says.")
    if not schema.classes:
        raise UserError(f"the schema has no classes of {schema.label}. {NO_NUMBERS}")
    kinds = {one.name: one.kind for one in schema.fields}
    orders = {one.name: one.values for one in schema.fields}
    strange = sorted({*kinds, *schema.ignore} ^ {one.name for one in own.columns})
    if strange:
        raise UserError(f"column {strange[0]}: by this site's plan and table, other columns are used.")
    for one in own.columns:
        kind = kinds.get(one.name)
        if one.count and kind is not None and kind != one.kind and MEASURED & {kind, one.kind}:
            raise UserError(f"column {one.name}: the schema takes it for a {kind}, here it is a {one.kind}.")
        if kind == "ordinal" and orders[one.name] != one.values:
            raise UserError(f"column {one.name}: the schema has another order of its values than the plan.")


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
    measured: CodedKind | None = next((kind for kind in kinds if kind in MEASURED), None)
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
        orders = {one.values for one in told.values()}
        if len(orders) > 1:
            raise UserError(f"column {column}: sites have its values in different orders. Say one in the plan.")
        order = next(iter(orders)) if measured == "ordinal" else ()
        return (
            None if scale == 0 and not indicate else Field(column, measured, shift, scale or 1.0, order, indicate)
        )
    values = sorted({value for one in told.values() for value in one.values})
    if len(values) < 2 and not indicate:
        return None
    if len(values) > MOST_CATEGORIES:
        raise UserError(f"column {column}: {len(values)} categories over all sites, more than {MOST_CATEGORIES}.")
    if values and (kinds.keys() == {"binary"} or any({v.lower() for v in values} <= set(p) for p in BINARY)):
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
