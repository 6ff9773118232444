"""The columns of a Parquet file, read as text like those of a CSV file, and no more of it than fits the memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unalike.data.columns import Column
from unalike.data.distinct import in_order
from unalike.data.files import check_file, check_names, check_size, unreadable
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
        each = {name: _encoded(table.column(name)) for name in usable}
    except (OSError, ArrowException, ValueError, OverflowError) as error:  # also no UTF-8, or the year 10000
        raise unreadable(path, error) from None
    rows = table.num_rows
    unread = np.zeros(rows, np.int32), ("",)
    return [
        Column(
            field.name.strip(),
            *each.get(field.name, unread),
            range(1, rows + 1),
            "row",
            "" if field.name in each else str(field.type),
        )
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


def _encoded(values: Any) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """The codes and texts of a column; a date is in ISO's way of writing, a time in UTC."""
    import pyarrow

    codes: list[NDArray[Any]] = []
    texts: list[str] = [""]  # what is null
    for chunk in values.chunks:
        one = chunk if pyarrow.types.is_dictionary(chunk.type) else _comparable(chunk).dictionary_encode()
        words = _comparable(one.dictionary).to_pylist()
        codes.append(one.indices.cast(pyarrow.int64()).fill_null(-len(texts)).to_numpy() + len(texts))
        texts += ["" if word is None else str(word) for word in words]
    return in_order(np.concatenate(codes), texts)


def _comparable(values: Any) -> Any:
    """Values that Python can show: nanoseconds would need pandas, other zones a list of zones."""
    import pyarrow

    if not pyarrow.types.is_timestamp(values.type):
        return values
    return values.cast(pyarrow.timestamp("us", "UTC" if values.type.tz else None), safe=False)


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
