"""The columns of a table of the user's own: read as text, their types inferred, mistakes named by line."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from unalike.data.dataset import Array
from unalike.errors import UserError

Kind = Literal["number", "binary", "category", "constant", "identifier"]

MISSING = frozenset(
    ("", "?", "na", "n/a", "nan", "+nan", "-nan", "null")
)  # in any case, blanks around them left out
BINARY = (("no", "yes"), ("false", "true"), ("n", "y"), ("f", "t"))  # the second is 1
MOST_CATEGORIES = 1000
_SHARE_OF_NUMBERS = 0.95  # from this share on a column is one of numbers, and an odd text in it a mistake
_FEWEST_IDENTIFIERS = 20  # in a shorter table, values that all differ do not show an identifier


class Inferred(NamedTuple):
    """What is known of one column, for showing."""

    column: str
    type: Kind
    missing: int
    distinct: int


@dataclass(frozen=True, eq=False)
class Column:
    """One column as it was read; ``places`` are the rows' numbers in the file, and ``unit`` what they count."""

    name: str
    cells: Sequence[str]
    places: Sequence[int] = field(repr=False)
    unit: str = "line"

    @cached_property
    def complete(self) -> Array | None:
        """The numbers, where every cell is a finite one, else None: the usual case, and a fast one."""
        try:
            found = np.array(list(map(float, self.cells)))
        except ValueError:
            return None
        return found if np.isfinite(found).all() and "_" not in "".join(self.cells) else None

    @cached_property
    def counts(self) -> Counter[str]:
        """How often every text is there."""
        return Counter(self.cells)

    @cached_property
    def gaps(self) -> frozenset[str]:
        """The texts in this column that mean that there is no value."""
        if self.complete is not None:
            return frozenset()
        return frozenset(text for text in self.counts if text.strip().lower() in MISSING)

    @cached_property
    def missing(self) -> int:
        """How many values are missing."""
        return sum(self.counts[text] for text in self.gaps)

    @cached_property
    def absent(self) -> Array:
        """A mask of the rows whose value is missing."""
        if not self.gaps:
            return np.zeros(len(self.cells), bool)
        return np.array([text in self.gaps for text in self.cells], bool)

    @cached_property
    def values(self) -> dict[str, str]:
        """Every text that is a value, and that value without the blanks around it."""
        return {text: text.strip() for text in self.counts if text not in self.gaps}

    @cached_property
    def distinct(self) -> frozenset[str]:
        """The values that occur."""
        return frozenset(self.values.values())

    @cached_property
    def variety(self) -> int:
        """How many different values occur."""
        return len(self.distinct) if self.complete is None else len(np.unique(self.complete))

    @cached_property
    def kind(self) -> Kind:
        """The type that the values show; only text is a category, numbers stay numbers."""
        present = len(self.cells) - self.missing
        if self.variety <= 1:
            return "constant"
        if self.complete is not None:
            return "number"
        numbers = sum(self.counts[text] for text, value in self.values.items() if number(value) is not None)
        if numbers >= _SHARE_OF_NUMBERS * present:
            return "number"
        if any({value.lower() for value in self.distinct} == set(pair) for pair in BINARY):
            return "binary"
        if present >= _FEWEST_IDENTIFIERS and self.variety == present:
            return "identifier"
        return "category"

    def numbers(self) -> Array:
        """The values as numbers, NaN where missing; a text or an infinity is an error that names the line."""
        if self.complete is not None:
            return self.complete
        known = {text: number(value) for text, value in self.values.items()} | dict.fromkeys(self.gaps, math.nan)
        for text, value in known.items():
            if value is None:
                raise self.mistake(text, f"{text[:30]!r}", "is not a number. Mend it, or leave it empty.")
            if math.isinf(value):
                raise self.mistake(text, f"{text[:30]!r}", "is not finite. Mend it, or leave it empty.")
        return np.array([known[text] for text in self.cells], np.float64)

    def where(self, keep: Array) -> Column:
        """The column with the rows that ``keep`` marks."""
        cells, places = compress(self.cells, keep), compress(self.places, keep)
        return Column(self.name, tuple(cells), tuple(places), self.unit)

    def mistake(self, text: str, shown: str, rule: str) -> UserError:
        """The error for a text, at the first place where it stands."""
        place = self.places[self.cells.index(text)]
        return UserError(f"column {self.name}: {shown} in {self.unit} {place} {rule}")


def number(text: str) -> float | None:
    """The number that ``text`` is, or None."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def read_csv(path: Path, delimiter: str) -> list[Column]:
    """The columns of a CSV file: UTF-8, the first line names them, quotes as in RFC 4180, blank lines left out."""
    delimiter = {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise UserError(f"csv's delimiter must be one character, got {delimiter!r}. Use ',' or ';' or tab.")
    try:
        text = path.read_bytes().decode("utf-8-sig")  # a byte order mark is left out
    except OSError as error:
        raise _unreadable(path, error) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line} is not UTF-8. Save the table as UTF-8.") from None
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows, places = [], []
    try:
        for row in reader:
            if row:
                rows.append(row)
                places.append(reader.line_num)
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}. Mend the quotes there.") from None
    if not rows:
        raise UserError(f"{path} is empty. It needs a line of column names, and rows.")
    names = [name.strip() for name in rows[0]]
    _check_names(path, names)
    for row, place in zip(rows, places, strict=True):
        if len(row) != len(names):
            raise UserError(
                f"{path}, line {place} has {len(row)} values, but there are {len(names)} columns. Mend that line."
            )
    _check_size(path, len(rows) - 1)
    columns = list(zip(*rows[1:], strict=True))
    return [Column(name, cells, places[1:]) for name, cells in zip(names, columns, strict=True)]


def read_parquet(path: Path) -> list[Column]:
    """The columns of a Parquet file of numbers, texts and truth values; null and NaN are missing."""
    try:
        from pyarrow import ArrowException, parquet, types
    except ImportError:
        raise UserError("Parquet files need pyarrow. Install it: pip install 'unalike[parquet]'.") from None
    try:
        table = parquet.ParquetFile(path).read()
    except (OSError, ArrowException) as error:
        raise _unreadable(path, error) from None
    _check_names(path, [str(name).strip() for name in table.column_names])
    _check_size(path, table.num_rows)
    columns = []
    places = range(1, table.num_rows + 1)
    for name, values in zip(table.column_names, table.columns, strict=True):
        kind = values.type.value_type if types.is_dictionary(values.type) else values.type
        tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_string, types.is_large_string)
        if not (any(test(kind) for test in tests) or types.is_null(kind) or types.is_decimal(kind)):
            raise UserError(f"column {name}: {kind} cannot be used. Make it a number or a text, or drop it.")
        cells = ["" if value is None else str(value) for value in values.to_pylist()]
        columns.append(Column(name.strip(), cells, places, "row"))
    return columns


def _unreadable(path: Path, error: Exception) -> UserError:
    if not path.exists():
        return UserError(f"There is no file {path}. Check the path; it starts at the working directory.")
    reason = " ".join(str(error).split())[:200]
    return UserError(f"Cannot read {path}: {reason}. Is it a table of that format?")


def _check_size(path: Path, rows: int) -> None:
    if rows == 0:
        raise UserError(f"{path} has column names but no rows. Add rows.")


def _check_names(path: Path, names: list[str]) -> None:
    if len(names) < 2:
        raise UserError(f"{path} has one column only. It needs features and a label; or set delimiter.")
    if all(number(name) is not None for name in names):
        raise UserError(f"{path} has no column names: its first line is numbers. Add a line of names.")
    if "" in names:
        raise UserError(f"{path}: column {names.index('') + 1} has no name. Name every column.")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(f"{path} has the column {twice[0]!r} twice; is its first line not the names? Rename one.")
