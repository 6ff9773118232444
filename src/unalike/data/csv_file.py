"""The columns of a CSV file: cut into texts by pyarrow where it is installed, else by Python's csv.

Both make the same columns of the same files. Whatever is not plain, and every mistake, is left to Python's, which
is slower, and knows the line.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unalike.data.columns import Column
from unalike.data.distinct import Distinct
from unalike.data.files import check_file, check_names, check_size, one_column, unreadable
from unalike.errors import UserError, together

_AT_ONCE = 1_000  # rows that are taken apart together
_BLOCK = 2**22  # bytes that pyarrow takes apart together
_LONGEST = 100_000  # characters of a text: Python's csv refuses longer ones (131,072), and is asked then
_NAMES = {"tab": "\t", "\\t": "\t", "semicolon": ";", "comma": ",", "space": " ", "bar": "|"}


@dataclass(frozen=True)
class CSVFile:
    """A CSV file and how it is to be read: the first line names the columns, quotes as in RFC 4180."""

    path: Path
    delimiter: str = ","
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        object.__setattr__(self, "delimiter", _NAMES.get(self.delimiter, self.delimiter))
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
            raise UserError(
                f"csv's delimiter must be one character, got {self.delimiter!r}. Use comma, semicolon or tab."
            )
        try:
            codecs.lookup(self.encoding)
            "".encode(self.encoding)  # not all codecs are of texts
        except (LookupError, ValueError, UnicodeError):
            raise UserError(
                f"csv's encoding {self.encoding!r} is not known. Use utf-8, latin-1 or cp1252."
            ) from None

    def content(self) -> bytes:
        """The bytes of the file, in UTF-8 whatever its encoding is."""
        check_file(self.path)
        try:
            found = self.path.read_bytes()
            return found if self._is_utf8 else found.decode(self.encoding).encode()
        except OSError as error:
            raise unreadable(self.path, error) from None
        except UnicodeError as error:
            raise self.not_text(error) from None

    @property
    def _is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig")

    def not_text(self, error: UnicodeError) -> UserError:
        """The error for bytes that are no text in the encoding."""
        line = error.object.count(b"\n", 0, error.start) + 1 if isinstance(error, UnicodeDecodeError) else 1
        said = (
            "Say another encoding"
            if not self._is_utf8
            else f"Say what it is, such as csv:{self.path}(encoding=latin-1)"
        )
        name = "UTF-8" if self._is_utf8 else self.encoding
        return UserError(f"{self.path}, line {line} is not {name}. {said}, or save the table as UTF-8.")

    def columns(self) -> list[Column]:
        """The columns; blank lines are left out."""
        names, each = by_pyarrow(self) or by_csv(self)
        lines = LineNumbers(self, len(each[0][0]))
        return [Column(name, *one, lines) for name, one in zip(names, each, strict=True)]


Encoded = tuple[NDArray[np.int32], tuple[str, ...]]


def by_csv(file: CSVFile) -> tuple[list[str], list[Encoded]]:
    """The names of the columns, and the codes and texts of each, by Python's csv; mistakes are named by line."""
    content = file.content()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise file.not_text(error) from None
    rows = _Rows(file, content)
    names = rows.names()
    known = [Distinct() for _ in names]
    codes: list[list[NDArray[np.int32]]] = [[] for _ in names]
    while some := rows.some():
        for own, distinct, cells in zip(codes, known, zip(*some, strict=True), strict=True):
            own.append(distinct.codes(cells))
    check_size(file.path, len(codes[0]))
    return names, [(np.concatenate(own), tuple(texts)) for own, texts in zip(codes, known, strict=True)]


class _Rows(Iterator[list[str]]):
    """The rows of a CSV file by Python's csv, blank lines left out."""

    def __init__(self, file: CSVFile, content: bytes) -> None:
        self._file, self._content, self.raw_names = file, content, list[str]()
        text = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline="")  # a byte order mark is left out
        self._reader = csv.reader(text, delimiter=file.delimiter, strict=True)
        self._filled = filter(None, self._reader)

    @property
    def line(self) -> int:
        """The number of the line that was read last."""
        return self._reader.line_num

    def names(self) -> list[str]:
        """The names of the columns, which come first."""
        row = next(self, None)
        if row is None:
            raise UserError(f"{self._file.path} is empty. It needs a line of column names, and rows.")
        self.raw_names = row
        names = [name.strip() for name in row]
        check_names(self._file.path, names)
        return names

    def some(self) -> list[list[str]]:
        """The next rows, many at once, which is faster; a mistake in them is looked for from the start."""
        with suppress(csv.Error):
            found = list(islice(self._filled, _AT_ONCE))
            if set(map(len, found)) <= {len(self.raw_names)}:
                return found
        if len(self.raw_names) == 1:
            raise one_column(self.raw_names[0])
        raise together(list(islice(_Rows(self._file, self._content).mistakes(), _AT_ONCE)))

    def mistakes(self) -> Iterator[UserError]:
        """What is wrong with the lines after the names."""
        width = len(self.names())
        try:
            for row in self:
                if len(row) != width:
                    what = f"line {self.line} has {len(row)} values, but there are {width} columns"
                    yield UserError(f"{self._file.path}, {what}. Mend that line.")
        except UserError as error:
            yield error

    def __next__(self) -> list[str]:
        try:
            return next(self._filled)
        except csv.Error as error:
            raise UserError(f"{self._file.path}, line {self.line}: {error}. Mend the quotes there.") from None


def by_pyarrow(file: CSVFile) -> tuple[list[str], list[Encoded]] | None:
    """What :func:`by_csv` gives, faster; None where pyarrow is not there, or the file is not a plain one."""
    try:
        import pyarrow
        from pyarrow import csv as arrow
    except ImportError:
        return None
    content = file.content()
    quotes = b'"' in content
    if (quotes and not _plain_quotes(content, file.delimiter)) or not file.delimiter.isascii():
        return None
    rows, kind = _Rows(file, content), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    try:
        names = rows.names()
        table = arrow.read_csv(
            pyarrow.py_buffer(content),
            read_options=arrow.ReadOptions(use_threads=False, block_size=_BLOCK),
            parse_options=arrow.ParseOptions(
                delimiter=file.delimiter, quote_char='"' if quotes else False, newlines_in_values=quotes
            ),
            convert_options=arrow.ConvertOptions(column_types=dict.fromkeys(rows.raw_names, kind), null_values=[]),
        )
    except (pyarrow.ArrowException, UnicodeDecodeError, UserError):  # by_csv says what it is, and where
        return None
    if table.column_names != rows.raw_names or not table.num_rows:
        return None
    columns = table.columns
    del table, content, rows  # what is no longer needed leaves the memory, one column after the other
    each = [_encoded(columns.pop(0)) for _ in names]
    pyarrow.default_memory_pool().release_unused()
    return None if any(len(text) > _LONGEST for _, texts in each for text in texts) else (names, each)


def _encoded(values: Any) -> Encoded:
    """The codes and texts of a column of pyarrow's dictionaries."""
    whole = values.unify_dictionaries().combine_chunks()
    return whole.indices.to_numpy(), tuple(whole.dictionary.to_pylist())


def _plain_quotes(content: bytes, delimiter: str) -> bool:
    """Whether every value with quotes is in quotes as a whole, and quotes in it are doubled.

    Then every second quote opens: what is before it ends a value, or is the other of a double one.
    """
    start = 3 if content.startswith(codecs.BOM_UTF8) else 0
    signs = np.frombuffer(content, np.uint8)[start:]
    places = np.flatnonzero(signs == ord('"'))
    opening, closing = places[::2], places[1::2]
    if len(opening) != len(closing):
        return False
    ends = np.frombuffer(f'"\r\n{delimiter}'.encode(), np.uint8)
    before, after = opening[opening > 0], closing[closing < len(signs) - 1]
    return bool(np.isin(signs[before - 1], ends).all() and np.isin(signs[after + 1], ends).all())


@dataclass(frozen=True)
class LineNumbers(Sequence[int]):
    """The line of every row of a CSV file. They are looked for in the file, once, when somebody asks for one."""

    file: CSVFile
    rows: int

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: Any) -> Any:
        return self._all[row]

    @cached_property
    def _all(self) -> list[int]:
        rows = _Rows(self.file, self.file.content())
        rows.names()
        return [rows.line for _ in rows]
