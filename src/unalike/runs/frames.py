"""Rows of figures as a DataFrame of pandas or polars, whichever is there. Neither is needed for anything else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, get_args

from unalike.errors import UserError, unknown

Library = Literal["pandas", "polars"]


def frame(rows: Sequence[Mapping[str, Any]], kind: Library | None = None) -> Any:
    """The rows as a DataFrame, a column for each figure; what is within a figure has a dot: ``parties.worst``.

    Lists (one value for each party) have no place in a column and are left out. Where ``kind`` is not given,
    pandas comes before polars.
    """
    flat = [dict(_flat(row)) for row in rows]
    columns = dict.fromkeys(name for row in flat for name in row)
    values = {name: [row.get(name) for row in flat] for name in columns}
    library = _library(kind)
    if library.__name__ == "polars":
        return library.DataFrame(values, strict=False)
    return library.DataFrame(values)


def names_in(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The figures in the rows that are numbers, as the columns of a DataFrame are named."""
    found = (name for row in rows for name, value in _flat(row) if isinstance(value, int | float))
    return list(dict.fromkeys(found))


def _flat(row: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif not isinstance(value, list | tuple):
            yield f"{before}{name}", value


def _library(kind: str | None) -> Any:
    known = get_args(Library)
    if kind is not None and kind not in known:
        raise unknown("kind of DataFrame", str(kind), known)
    wanted = known if kind is None else (kind,)
    there = next((name for name in wanted if find_spec(name) is not None), None)
    if there is None:
        raise UserError(
            f"A DataFrame needs {' or '.join(wanted)}. Install one: pip install {wanted[0]}. "
            "The rows as a list of dictionaries are in .rows."
        )
    return import_module(there)
