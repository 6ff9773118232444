"""Rows of bytes in a temporary file, for what does not fit into memory."""

from __future__ import annotations

import tempfile
import threading
from typing import IO

from unalike.errors import UserError


class RowFile:
    """A file without a name, which ends with the process. A row that nobody refers to any more makes room."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as its rows
        self._end = 0
        self._free: dict[int, list[int]] = {}
        self._one_at_a_time = threading.Lock()

    @property
    def size(self) -> int:
        """The bytes of the file, rows that are free again included."""
        return self._end

    def write(self, row: bytes) -> StoredRow:
        """Write a row to a free place of its length, else to the end."""
        free = self._free.get(len(row))
        with self._one_at_a_time:
            place = free.pop() if free else self._end
            try:
                self._file.seek(place)
                self._file.write(row)
                self._file.flush()
            except OSError as error:
                raise UserError(
                    f"What parties keep does not fit into {tempfile.gettempdir()} ({error.strerror}). Free some "
                    "space there, or set TMPDIR to a larger disk."
                ) from None
            self._end = max(self._end, place + len(row))
        return StoredRow(self, place, len(row))

    def read(self, place: int, length: int) -> bytes:
        """The bytes of a row."""
        with self._one_at_a_time:
            self._file.seek(place)
            return self._file.read(length)

    def forget(self, place: int, length: int) -> None:
        """Let the place of a row be used again."""
        self._free.setdefault(length, []).append(place)


class StoredRow:
    """Where a row is in a file. Its place is free again as soon as nothing refers to it."""

    __slots__ = ("_file", "_length", "_place")

    def __init__(self, file: RowFile, place: int, length: int) -> None:
        self._file, self._place, self._length = file, place, length

    def __len__(self) -> int:
        return self._length

    def __del__(self) -> None:
        self._file.forget(self._place, self._length)

    def read(self) -> bytes:
        """The bytes of the row, from the file."""
        return self._file.read(self._place, self._length)
