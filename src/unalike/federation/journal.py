"""A file to which lines are only ever added, each on the disk before anything that depends on it is done.

A line that a crash has torn was never relied on, and is cut off; what was changed in any other way is an error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from unalike.errors import UserError
from unalike.runs.files import open_file, read_bytes, storage_error, sync_folder, write_all
from unalike.runs.seals import read_chain, seal


class Journal:
    """Sealed JSON lines in a file that one process adds to; ``rows`` are those that were there at the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        data = read_bytes(path) or b""
        found = read_chain(data)
        if found.damage is not None:
            # An empty one instead would let what was answered once be asked again.
            raise UserError(f"Cannot read {path}: {found.damage}. Restore it, or join anew in another folder.")
        self.rows = found.rows
        self._size, self._seal = found.ends[-1]
        if len(data) > self._size:
            self._cut()

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a line; it is on the disk when this returns, or it is not there at all."""
        data, made = seal(row, self._seal)
        try:
            new = not self._path.exists()
            try:
                with open_file(self._path, "ab") as file:
                    write_all(file, data)
                    os.fsync(file.fileno())
                if new:
                    sync_folder(self._path.parent)
            except OSError:
                with suppress(UserError):  # half a line would make all that follow look like a change
                    self._cut()
                raise
        except OSError as error:
            raise storage_error(self._path, error) from error
        self._size, self._seal = self._size + len(data), made

    def _cut(self) -> None:
        try:
            if self._path.exists():
                with self._path.open("r+b") as file:
                    file.truncate(self._size)
        except OSError as error:
            raise storage_error(self._path, error) from error
