"""The label of a table: its classes, and the refusal of what is no class but a quantity or an identifier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unalike.data.columns import Column
from unalike.data.dataset import Array
from unalike.data.limits import FEW_CATEGORIES, too_many
from unalike.data.numerals import mostly_numbers, number, plain_number
from unalike.errors import UserError

PREDICTED = "Numbers are predicted with task=regression."
NO_NUMBERS = "Real sites cannot predict numbers yet."


def number_classes(column: Column) -> tuple[Array, tuple[str, ...]]:
    """The number of every row's class, and the classes: sorted, numbers by their size (1.0 is the class 1)."""
    values = dict(column.values)
    if all(number(value) is not None for value in values.values()):
        values = {text: plain_number(value) for text, value in values.items()}
    classes = class_names(values.values())
    if len(classes) < 2:
        raise UserError(f"The label {column.name} is {classes[0]!r} in every row. It needs two classes or more.")
    check_labels(column.name, len(classes), column.rows)
    check_quantity(column.name, classes)
    places = {name: place for place, name in enumerate(classes)}
    return column.spread({text: places[value] for text, value in values.items()}, -1), classes


def read_targets(column: Column) -> Array:
    """The numbers of a label that is to be predicted as a number."""
    values = column.numbers() if column.kind == "number" else None
    if values is None:
        if column.variety < 2:
            raise UserError(f"The label {column.name} is {min(column.distinct)!r} in every row. It must vary.")
        raise UserError(
            f"The label {column.name} has {column.kind} values such as {min(column.distinct)[:30]!r}, and "
            "task=regression predicts numbers. Name a column of numbers, or leave task out."
        )
    return values


def check_labels(label: str, classes: int, rows: int, remedy: str = PREDICTED) -> None:
    """Refuse a label with so many values that each has a few rows only, as an identifier or a quantity has."""
    if too_many(classes, rows):
        raise UserError(
            f"The label {label} has {classes} different values in {rows} rows. "
            f"Is it a number to predict, or an identifier? {remedy} Name a column of classes."
        )


def check_quantity(label: str, classes: tuple[str, ...], remedy: str = PREDICTED) -> None:
    """Refuse a label that is a quantity, such as an age, of which each value would be a class of its own.

    These are more than 20 values, (nearly) all of them numbers or dates, unless they are the codes 0, 1, 2, ...
    or 1, 2, 3, ... without a gap, as those of letters or of kinds of objects are. ``classes`` are sorted.
    """
    count = len(classes)
    codes = [{str(number) for number in range(first, first + count)} for first in (0, 1)]
    if count > FEW_CATEGORIES and mostly_numbers(classes) and set(classes) not in codes:
        raise UserError(
            f"The label {label} has {count} different numbers, from {classes[0]} to {classes[-1]}: a quantity. "
            f"{remedy} Cut it into ranges, or write classes as texts, such as c17."
        )


def class_names(values: Iterable[str]) -> tuple[str, ...]:
    """The different values, sorted; by their size where all are numbers."""
    found = set(values)
    return tuple(sorted(found, key=float) if all(number(value) is not None for value in found) else sorted(found))


def class_places(column: Column, classes: Sequence[str]) -> dict[str, int | None]:
    """The place among ``classes`` of every text of a label, as it is or as a plain number; None: there is none."""
    places = {name: place for place, name in enumerate(classes)}
    return {text: places.get(value, places.get(plain_number(value))) for text, value in column.values.items()}
