"""The columns of a Parquet file, read as text like those of a CSV file, and no more of it than fits the memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from unalike.data.columns import Column, check_file, check_names, check_size, unreadable
from unalike.data.parquet_size import claimed_size
from unalike.errors import UserError

VARIABLE = "UNALIKE_TABLE_GB"
_DEFAULT = 4.0  # gigabytes
_CELL = 100  # bytes of memory that a value takes, as the text that it is read as


def read_parquet(path: Path) -> list[Column]:
    """The columns of a Parquet file of numbers, dates, texts and truth values; null and NaN are missing.

    A column of another type is not read, and can only be ignored. A table that would take more memory than
    ``UNALIKE_TABLE_GB`` gigabytes (default 4) is refused before it is unpacked: a small file can hold a huge one.
    """
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise UserError("Parquet files need pyarrow. Install it: pip install 'unalike[parquet]'.") from None
    check_file(path)
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            check_names(path, [str(name).strip() for name in schema.names])
            check_size(path, file.metadata.num_rows)
            usable = [field.name for field in schema if _usable(field.type)]
            _check_memory(path, set(usable))
        texts = [field.name for field in schema if field.name in usable and _is_text(field.type)]
        # Without read_dictionary, a long text that many rows share would be there once for every row.
        with parquet.ParquetFile(path, read_dictionary=texts) as file:
            table = file.read(columns=usable, use_threads=False)
        cells = {name: _cells(table.column(name)) for name in usable}
    except (OSError, ArrowException, ValueError, OverflowError) as error:  # also no UTF-8, or the year 10000
        raise unreadable(path, error) from None
    places = range(1, table.num_rows + 1)
    return [
        Column(field.name.strip(), cells[field.name], places, "row")
        if field.name in cells
        else Column(field.name.strip(), (), places, "row", str(field.type))
        for field in schema
    ]


def _value_type(kind: Any) -> Any:
    from pyarrow import types

    return kind.value_type if types.is_dictionary(kind) else kind


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(_value_type(kind)) or types.is_large_string(_value_type(kind)))


def _usable(kind: Any) -> bool:
    from pyarrow import types

    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_null, types.is_decimal)
    dates = (types.is_date, types.is_timestamp)
    return _is_text(kind) or any(test(_value_type(kind)) for test in (*numbers, *dates))


def _cells(values: Any) -> list[str]:
    """The values of a column as texts; a date in ISO's way of writing, a time in UTC."""
    import pyarrow

    cells: list[str] = []
    for chunk in values.chunks:
        words, places = chunk, None
        if pyarrow.types.is_dictionary(chunk.type):
            words, places = chunk.dictionary, chunk.indices
        if pyarrow.types.is_timestamp(words.type):  # nanoseconds would need pandas, other zones a list of zones
            zone = "UTC" if words.type.tz else None
            words = words.cast(pyarrow.timestamp("us", zone), safe=False)
        found = ["" if word is None else str(word) for word in words.to_pylist()]
        cells += (
            found if places is None else ["" if place is None else found[place] for place in places.to_pylist()]
        )
    return cells


def _check_memory(path: Path, columns: set[str]) -> None:
    """Refuse a table that would not fit, by its number of values and by what its pages unpack to."""
    limit, (values, unpacked) = memory_limit(), claimed_size(path, columns)
    needed = _CELL * values + unpacked
    if needed > limit:
        raise UserError(
            f"{path} holds {values:,} values that need {needed / 1e9:.2g} GB of memory, more than "
            f"{limit / 1e9:g} GB. Take fewer columns or rows, or set {VARIABLE} to more."
        )


def memory_limit() -> float:
    """Bytes of memory that a table may take: ``UNALIKE_TABLE_GB`` gigabytes, or four."""
    text = os.environ.get(VARIABLE, "")
    try:
        limit = float(text) if text else _DEFAULT
    except ValueError:
        limit = -1.0
    if not 0 < limit < 1e9:
        raise UserError(f"{VARIABLE} must be a number of gigabytes above 0, got {text[:40]!r}. Use {_DEFAULT:g}.")
    return limit * 1e9
