"""A site's own log of every message: when, which way, what kind, how many bytes, their hash, and what came of it.

One sealed JSON line a message, appended and synced: a line that was changed, removed or added afterwards shows
(``read_audit``).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unalike.errors import UserError
from unalike.runs.files import open_file, read_bytes, storage_error, write_all
from unalike.runs.seals import SealedLines, read_chain, seal

FILE = "audit.jsonl"


class Audit:
    """The log in a folder, open for appending by one process."""

    def __init__(self, folder: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._path, self._now = folder / FILE, now
        found = _read(self._path)
        size, self._last = found.ends[-1]
        if found.damage is None:  # else what follows goes after the damage, which shows whenever the log is read
            try:
                self._cut(size)  # a line torn by a crash: the message had no answer either
            except OSError as error:
                raise storage_error(self._path, error) from error

    def note(self, way: str, raw: bytes, kind: str, outcome: str = "", **more: Any) -> None:
        """Append a message that came ``in`` or went ``out``."""
        line = {
            "time": self._now().isoformat(timespec="milliseconds"),
            "way": way,
            "kind": kind,
            "bytes": len(raw),
            "sha256": hashlib.sha256(raw).hexdigest(),
            **({"outcome": outcome} if outcome else {}),
            **more,
        }
        data, made = seal(line, self._last)
        whole = self._path.stat().st_size if self._path.exists() else 0
        try:
            with open_file(self._path, "ab") as file:
                write_all(file, data)
                os.fsync(file.fileno())
        except OSError as error:
            with suppress(OSError):  # half a line would make all that follow look like a change
                self._cut(whole)
            raise storage_error(self._path, error) from error
        self._last = made

    def _cut(self, size: int) -> None:
        if self._path.exists() and self._path.stat().st_size > size:
            with self._path.open("r+b") as file:
                file.truncate(size)


def read_audit(folder: Path) -> list[dict[str, Any]]:
    """All lines; a UserError names the first that was changed or follows one that is missing.

    That the last lines are missing does not show in the log itself.
    """
    found = _read(folder / FILE)
    if found.damage is not None:
        raise UserError(f"{folder / FILE} was changed: {found.damage}.")
    return found.rows


def _read(path: Path) -> SealedLines:
    return read_chain(read_bytes(path) or b"")
