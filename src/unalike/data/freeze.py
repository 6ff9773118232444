"""A table as it is now, as the content of a CSV or Parquet file that stays: a database goes on changing."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from unalike.data.columns import Column
from unalike.errors import UserError


def _csv(columns: Sequence[Column]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in columns)
    writer.writerows(zip(*(column.cells for column in columns), strict=True))
    return text.getvalue().encode()


def _parquet(columns: Sequence[Column]) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError(
            "Parquet files need pyarrow: pip install 'unalike[parquet]'. Or name a .csv file."
        ) from None
    data = io.BytesIO()
    # Texts, not types: so the table is read by the same rules as here.
    parquet.write_table(pyarrow.table({column.name: list(column.cells) for column in columns}), data)
    return data.getvalue()


FREEZE: dict[str, Callable[[Sequence[Column]], bytes]] = {".csv": _csv, ".parquet": _parquet}
"""By the ending of a file's name: its content, made of columns that can be used."""
