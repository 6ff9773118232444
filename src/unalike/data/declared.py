"""What a user says of a table's columns: kinds that values cannot show, and how numbers and dates are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import get_args

from unalike.data.columns import Column, Declared, DeclaredKind
from unalike.data.numerals import WAYS, Reading, date_as, number_as
from unalike.errors import UserError, unknown

_ONE = re.compile(r"""(?:'([^']+)'|"([^"]+)"|([^\s:'"]+)):([a-z]+)(?:\(([^()]*)\))?(?=\s|$)""")
_KINDS: dict[str, DeclaredKind] = {kind: kind for kind in get_args(DeclaredKind)}
_SIGNS = {"comma": ",", "point": ".", "space": " ", "apostrophe": "'"}
_MOMENT = datetime(2024, 11, 30, 22, 14, 5, tzinfo=UTC)


def declarations(types: str, categories: Iterable[str] = ()) -> dict[str, Declared]:
    """The kinds in a text such as ``cp:category born:date grade:ordinal(low<mid<high)``, by column."""
    said = {name: Declared("category") for name in categories}
    rest = types.strip()
    while rest:
        found = _ONE.match(rest)
        if found is None:
            raise UserError(
                f"Cannot read types at {rest[:40]!r}. Write types='cp:category born:date grade:ordinal(low<high)'."
            )
        name, kind = found[1] or found[2] or found[3], _KINDS.get(found[4])
        if kind is None:
            raise unknown("kind of column", found[4], _KINDS)
        if name in said:
            raise UserError(f"types say twice what column {name} is. Say it once.")
        said[name] = Declared(kind, _order(name, found[5]) if kind == "ordinal" else ())
        rest = rest[found.end() :].lstrip()
    return said


def _order(name: str, text: str | None) -> tuple[str, ...]:
    values = tuple(value.strip() for value in (text or "").split("<"))
    if len(values) < 2 or len(set(values)) < len(values) or "" in values:
        raise UserError(
            f"types: the order of column {name} is {text or ''!r}. Write all values, the least first: "
            f"{name}:ordinal(low<mid<high)."
        )
    return values


def declare(
    columns: Sequence[Column], types: str, categories: Iterable[str] = (), *, elsewhere: bool = False
) -> list[Column]:
    """The columns with the kinds that were said; a column that is not there is an error, or is ``elsewhere``."""
    said = declarations(types, categories)
    named = {column.name for column in columns}
    for name in () if elsewhere else said:
        if name not in named:
            raise unknown("column in types or categories", name, named)
    return [replace(column, declared=said.get(column.name, column.declared)) for column in columns]


def written(columns: Sequence[Column], decimal: str, thousands: str, dates: str) -> list[Column]:
    """The columns with the ways in which numbers and dates are written in them."""
    ways = ways_of(decimal, thousands, dates)
    return list(columns) if ways == WAYS else [replace(column, ways=ways) for column in columns]


def ways_of(decimal: str, thousands: str, dates: str) -> tuple[Reading, ...]:
    """The ways to read texts as numbers: those that a column shows by itself, or those that were said."""
    ways: tuple[Reading, ...] = WAYS
    if decimal or thousands:
        group = _SIGNS.get(thousands, thousands)
        point = _SIGNS.get(decimal, decimal) or ("," if group == "." else ".")
        if point not in (",", "."):
            raise UserError(f"decimal must be comma or point, got {decimal!r}. Use decimal=comma.")
        if group not in ("", ",", ".", " ", "'") or group == point:
            raise UserError(
                f"thousands must be comma, point, space or apostrophe, not the decimal sign, got {thousands!r}."
            )
        ways = (Reading("number", number_as(point, group)), *(way for way in ways if way.kind == "date"))
    if dates:
        try:
            right = datetime.strptime(_MOMENT.strftime(dates), dates).date() == _MOMENT.date()
        except ValueError:
            right = False
        if not right:
            raise UserError(f"dates must tell day, month and year, got {dates!r}. Use dates='%d.%m.%Y'.")
        ways = (*ways, Reading("date", date_as(dates)))
    return ways
