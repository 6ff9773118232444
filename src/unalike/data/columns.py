"""The columns of a table of the user's own: read as text, their types inferred, mistakes named by line."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from unalike.data.dataset import Array
from unalike.data.numerals import (
    PLAIN,
    SHARE_OF_NUMBERS,
    WAYS,
    Reading,
    any_number,
    comma_number,
    in_threes,
    number,
    other_date,
)
from unalike.errors import UserError

Kind = Literal["number", "date", "binary", "category", "constant", "identifier", "unclear", "unusable"]

MISSING = frozenset(
    ("", "?", "na", "n/a", "nan", "+nan", "-nan", "null")
)  # in any case, blanks around them left out
KEY = "the rows' key"  # why a column that tells rows apart cannot be used
BINARY = (("no", "yes"), ("false", "true"), ("n", "y"), ("f", "t"))  # the second is 1
MOST_CATEGORIES = 1000
FEW_CATEGORIES = 20  # so many are never too many
FEWEST_ROWS = 5  # of a category, on average: of fewer little can be learnt, and much told of single rows
_MOST_SHARED = 2**16  # texts of a table that are looked up, so that each is in memory once
_FEWEST_IDENTIFIERS = 20  # in a shorter table, values that all differ do not show an identifier


class Inferred(NamedTuple):
    """What is known of one column, for showing."""

    column: str
    type: Kind
    missing: int
    distinct: int


@dataclass(frozen=True, eq=False)
class Column:
    """One column as it was read; ``places`` are the rows' numbers in the file, and ``unit`` what they count.

    ``unusable`` is the type of a column that is neither number nor text nor date: its cells are not read. Or it is
    ``KEY``: such a column is never learnt from, and need not be ignored by name.
    """

    name: str
    cells: Sequence[str]
    places: Sequence[int] = field(repr=False)
    unit: str = "line"
    unusable: str = ""

    @classmethod
    def of(cls, name: str, cells: Sequence[str], first: int = 1, unit: str = "row") -> Column:
        """The column of these texts, one for each row; an empty text is a missing value."""
        return cls(name, cells, range(first, first + len(cells)), unit)

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
        """The different values of the column, without blanks around them and without missing ones."""
        return frozenset(self.values.values())

    @cached_property
    def variety(self) -> int:
        """How many different values occur."""
        return len(self.distinct) if self.complete is None else len(np.unique(self.complete))

    @cached_property
    def reading(self) -> Reading | None:
        """The way in which (nearly) all values are numbers; None where they are texts, or not clear."""
        if self.complete is not None:
            return PLAIN
        commas = [value for value in self.distinct if "," in value]
        for way in sorted(WAYS, key=lambda way: -self._rows_that(way.read)):
            if way.read is comma_number and all(map(in_threes, commas)):  # 1,234 may be 1234: so it is not taken
                continue
            if self._mostly(way.read):
                return way
        return None

    def _rows_that(self, read: Callable[[str], float | None]) -> int:
        """In how many rows the value can be read so."""
        return sum(self.counts[text] for text, value in self.values.items() if read(value) is not None)

    def _mostly(self, read: Callable[[str], float | None]) -> bool:
        return self._rows_that(read) >= SHARE_OF_NUMBERS * (len(self.cells) - self.missing)

    @cached_property
    def kind(self) -> Kind:
        """The type that the values show; only text is a category, numbers stay numbers."""
        present = len(self.cells) - self.missing
        if self.unusable:
            return "unusable"
        if self.variety <= 1:
            return "constant"
        if self.reading is not None:
            return self.reading.kind
        if self._mostly(any_number) or self._mostly(other_date):
            return "unclear"
        if any({value.lower() for value in self.distinct} == set(pair) for pair in BINARY):
            return "binary"
        if present >= _FEWEST_IDENTIFIERS and self.variety == present:
            return "identifier"
        return "category"

    def check_feature(self) -> None:
        """Refuse a column that cannot be coded: an identifier, or numbers that may mean this or that."""
        if self.kind == "identifier":
            raise UserError(
                f"column {self.name}: every value differs, as an identifier's. Set ignore={self.name}."
            )
        if self.kind == "unclear":
            odd = next(value for text in self.cells if number(value := self.values.get(text, "0")) is None)
            if other_date(odd) is not None:
                raise UserError(
                    f"column {self.name}: {odd[:30]!r} may be a date, but not in the ISO way. Write all dates of "
                    f"the column as 2024-12-31, or set ignore={self.name}."
                )
            raise UserError(
                f"column {self.name}: it is not clear which number {odd[:30]!r} is. Write all numbers of the "
                f"column as 1234.5, or set ignore={self.name}."
            )

    def numbers(self) -> Array:
        """The values as numbers, NaN where missing; a text or an infinity is an error that names the line."""
        if self.complete is not None:
            return self.complete
        kind, read = self.reading or PLAIN
        known = {text: read(value) for text, value in self.values.items()} | dict.fromkeys(self.gaps, math.nan)
        for text, value in known.items():
            if value is None:
                raise self.mistake(text, f"{text[:30]!r}", f"is not a {kind}. Mend it, or leave it empty.")
            if math.isinf(value):
                raise self.mistake(text, f"{text[:30]!r}", "is not finite. Mend it, or leave it empty.")
        return np.array([known[text] for text in self.cells], np.float64)

    def where(self, keep: Array) -> Column:
        """The column with the rows that ``keep`` marks."""
        cells, places = compress(self.cells, keep), compress(self.places, keep)
        return Column(self.name, tuple(cells), tuple(places), self.unit)

    def gap(self, remedy: str) -> UserError:
        """The error for a value that is missing, at the first place where one is."""
        first = next(text for text in self.cells if text in self.gaps)
        rest = f" ({self.missing} in all)" if self.missing > 1 else ""
        return self.mistake(first, "the value", f"is missing{rest}. {remedy}")

    def mistake(self, text: str, shown: str, rule: str) -> UserError:
        """The error for a text, at the first place where it stands."""
        place = self.places[self.cells.index(text)]
        return UserError(f"column {self.name}: {shown} in {self.unit} {place} {rule}")


def too_many(values: int, rows: int) -> bool:
    """Whether a column with so many different texts in so many rows is none of categories or classes."""
    return values > MOST_CATEGORIES or values > max(FEW_CATEGORIES, rows / FEWEST_ROWS)


def check_few(column: str, values: int, rows: int) -> None:
    """Refuse a column of texts with too many different ones, such as names, identifiers or free text.

    Each would become a column of its own that is nearly always 0; and sites would tell each other these values.
    """
    if too_many(values, rows):
        raise UserError(
            f"column {column}: {values} different texts in {rows} rows are too many for categories (at most "
            f"{MOST_CATEGORIES}, and {FEWEST_ROWS} rows of each on average). Group them, or set ignore={column}."
        )


def read_csv(path: Path, delimiter: str) -> list[Column]:
    """The columns of a CSV file: UTF-8, the first line names them, quotes as in RFC 4180, blank lines left out."""
    delimiter = {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise UserError(f"csv's delimiter must be one character, got {delimiter!r}. Use ',' or ';' or tab.")
    reader = csv.reader(_lines(path), delimiter=delimiter, strict=True)
    names: list[str] = []
    cells: list[list[str]] = []
    places: list[int] = []
    known: dict[str, str] = {}
    try:
        for row in filter(None, reader):
            if not names:
                names = [name.strip() for name in row]
                check_names(path, names)
                cells = [[] for _ in names]
                continue
            if len(row) != len(names):
                raise UserError(
                    f"{path}, line {reader.line_num} has {len(row)} values, but there are {len(names)} columns. "
                    "Mend that line."
                )
            for own, text in zip(cells, row, strict=True):
                own.append(known.setdefault(text, text))  # what many rows share is in memory once
            places.append(reader.line_num)
            if len(known) > _MOST_SHARED:
                known.clear()
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}. Mend the quotes there.") from None
    if not names:
        raise UserError(f"{path} is empty. It needs a line of column names, and rows.")
    check_size(path, len(places))
    return [Column(name, own, places) for name, own in zip(names, cells, strict=True)]


def _lines(path: Path) -> Iterable[str]:
    """The lines of a text file in UTF-8, all of which is read and checked first."""
    check_file(path)
    try:
        data = path.read_bytes()
        data.decode("utf-8")
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line} is not UTF-8. Save the table as UTF-8.") from None
    return io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline="")  # a byte order mark is left out


def check_file(path: Path) -> None:
    """Refuse a folder, and what has no end or can be read once only: a device, a pipe."""
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a device or a pipe"
        raise UserError(f"{path} is {what}, not a file. Save the table in a file, and name that.")


def unreadable(path: Path, error: Exception) -> UserError:
    """The error for a table that cannot be read."""
    if not path.exists():
        return UserError(f"There is no file {path}. Check the path; it starts at the working directory.")
    reason = " ".join(str(error).split())[:200].rstrip(".")
    return UserError(f"Cannot read {path}: {reason}. Is it a table of that format?")


def check_size(path: Path, rows: int) -> None:
    """Refuse a table without rows."""
    if rows == 0:
        raise UserError(f"{path} has column names but no rows. Add rows.")


def check_names(path: Path, names: list[str]) -> None:
    """Refuse a table whose columns have no names, or not names of their own."""
    if all(number(name) is not None for name in names):
        raise UserError(f"{path} has no column names: its first line is numbers. Add a line of names.")
    if "" in names:
        raise UserError(f"{path}: column {names.index('') + 1} has no name. Name every column.")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(f"{path} has the column {twice[0]!r} twice; is its first line not the names? Rename one.")
