"""rounds.jsonl: one sealed line a round, appended, sound up to wherever a kill or a power cut tore it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from unalike.runs.checkpoint import JSON
from unalike.runs.files import atomic_write, open_file, read_bytes, storage_error, sync_folder, write_all
from unalike.runs.seals import read_chain, seal


class RoundsFile:
    """rounds.jsonl, open for appending. Its rows from the first damaged one on are cut off and kept aside."""

    def __init__(self, path: Path) -> None:
        self._path = path
        data = read_bytes(path) or b""
        found = read_chain(data)
        self._ends = found.ends
        self._saved = False  # the rows of a killed process may not be on the disk yet
        if found.damage:
            atomic_write(path.with_name(f"{path.name}.damaged"), data)
        try:
            self._file = open_file(path, "ab")
            self._file.truncate(self._size)
        except OSError as error:
            raise storage_error(path, error) from error

    @property
    def last(self) -> int:
        """The last round that is recorded."""
        return len(self._ends) - 1

    @property
    def seal(self) -> str:
        """The seal of the last row, which vouches for all rows."""
        return self._ends[-1][1]

    @property
    def _size(self) -> int:
        return self._ends[-1][0]

    def append(self, row: Mapping[str, JSON]) -> None:
        """Add the row of the next round."""
        number = row["round"]
        if type(number) is not int:
            raise ValueError(f"A row's 'round' must be an int, got {number!r}.")
        if number != self.last + 1:
            raise ValueError(f"Round {number} does not follow round {self.last}.")
        line, made = seal(finite(row), self.seal)
        try:
            self._file.truncate(self._size)  # should cutting off have failed below
            write_all(self._file, line)
        except BaseException as error:  # also Ctrl-C: what follows must not be glued to half a line
            with suppress(OSError):
                self._file.truncate(self._size)
            if isinstance(error, OSError):
                raise storage_error(self._path, error) from error
            raise
        self._ends.append((self._size + len(line), made))
        self._saved = False

    def forget_after(self, round: int) -> None:
        """Cut off the rows after a round."""
        if round >= self.last:
            return
        del self._ends[round + 1 :]
        self._saved = False
        try:
            self._file.truncate(self._size)
        except OSError as error:
            raise storage_error(self._path, error) from error

    def sync(self) -> None:
        """Make all rows survive a power cut."""
        if self._saved:
            return
        try:
            os.fsync(self._file.fileno())
            sync_folder(self._path.parent)
        except OSError as error:
            raise storage_error(self._path, error) from error
        self._saved = True

    def close(self) -> None:
        """Close the file; no more rows can be added."""
        with suppress(OSError):  # sync has reported what matters
            self._file.close()


def finite(value: JSON) -> Any:
    """``value`` with null for the floats that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
