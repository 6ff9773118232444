"""rounds.jsonl: one line a round, appended, sound up to wherever a kill or a power cut tore it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from unalike.engine.checkpoint import JSON
from unalike.engine.files import atomic_write, storage_error, sync_folder, write_all


class RoundsFile:
    """rounds.jsonl, open for appending."""

    def __init__(self, path: Path, needs: Collection[str]) -> None:
        self._path = path
        data = read_bytes(path) or b""
        rows, self._size = sound_rows(data, needs)
        self._last = len(rows)
        self.cut = self._size < len(_whole(data))
        self._saved = False  # the rows of a killed process may not be on the disk yet
        if self.cut:
            atomic_write(path.with_name(f"{path.name}.damaged"), data)
        try:
            self._file = path.open("ab", buffering=0)
            self._file.truncate(self._size)
        except OSError as error:
            raise storage_error(path, error) from error

    def append(self, row: Mapping[str, JSON]) -> bool:
        """Whether the row was new."""
        number = row["round"]
        if type(number) is not int:
            raise ValueError(f"A row's 'round' must be an int, got {number!r}.")
        if number <= self._last:
            return False
        if number != self._last + 1:
            raise ValueError(f"Round {number} does not follow round {self._last}.")
        line = json.dumps(finite(row), allow_nan=False).encode() + b"\n"
        try:
            self._file.truncate(self._size)  # should cutting off have failed below
            write_all(self._file, line)
        except BaseException as error:  # also Ctrl-C: what follows must not be glued to half a line
            with suppress(OSError):
                self._file.truncate(self._size)
            if isinstance(error, OSError):
                raise storage_error(self._path, error) from error
            raise
        self._size += len(line)
        self._last = number
        self._saved = False
        return True

    def forget_after(self, round: int) -> None:
        """Cut off the rows after a round."""
        if round >= self._last:
            return
        lines = _whole(read_bytes(self._path) or b"").splitlines(keepends=True)[:round]
        try:
            self._file.truncate(sum(map(len, lines)))
        except OSError as error:
            raise storage_error(self._path, error) from error
        self._size, self._last, self._saved = sum(map(len, lines)), round, False

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
        """No more rows."""
        with suppress(OSError):  # sync has reported what matters
            self._file.close()


def read_bytes(path: Path) -> bytes | None:
    """What a file holds; None where there is none."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise storage_error(path, error, "read") from error


def _whole(data: bytes) -> bytes:
    """``data`` without its torn end: half a line of a kill, lines with the zero bytes of a power cut."""
    end = data.rfind(b"\n") + 1
    while end:
        start = data.rfind(b"\n", 0, end - 1) + 1
        if b"\0" not in data[start:end]:
            break
        end = start
    return data[:end]


def sound_rows(data: bytes, needs: Collection[str] = ()) -> tuple[list[dict[str, JSON]], int]:
    """The leading rows that are whole and of rounds 1, 2, 3, ..., and how many bytes they take."""
    rows: list[dict[str, JSON]] = []
    size = 0
    for line in data.split(b"\n")[:-1]:
        try:
            row = json.loads(line)
        except ValueError:
            break
        if not isinstance(row, dict) or row.get("round") != len(rows) + 1:
            break
        if not all(isinstance(row.get(key), int | float) for key in needs):
            break
        rows.append(row)
        size += len(line) + 1
    return rows, size


def finite(value: JSON) -> Any:
    """``value`` with null for the floats that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
