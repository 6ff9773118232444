"""A site's own log of every message: when, which way, what kind, how many bytes, their hash, and what came of it.

One JSON line a message, appended and synced. Each line holds the hash of the line before, so that a line that was
removed or changed afterwards shows (``check``).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unalike.engine.files import storage_error, write_all
from unalike.errors import UserError

FILE = "audit.jsonl"
_FIRST = "0" * 64


class Audit:
    """The log in a folder, open for appending by one process."""

    def __init__(self, folder: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._path, self._now = folder / FILE, now
        self._last = _FIRST
        try:
            lines = _lines(self._path)
            if lines:
                self._last = hashlib.sha256(lines[-1]).hexdigest()
            self._cut(sum(map(len, lines)))  # a line torn by a crash: the message had no answer either
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
            "before": self._last,
        }
        data = json.dumps(line).encode() + b"\n"
        whole = self._path.stat().st_size if self._path.exists() else 0
        try:
            with self._path.open("ab", buffering=0) as file:
                write_all(file, data)
                os.fsync(file.fileno())
        except OSError as error:
            with suppress(OSError):  # half a line would make all that follow look like a change
                self._cut(whole)
            raise storage_error(self._path, error) from error
        self._last = hashlib.sha256(data).hexdigest()

    def _cut(self, size: int) -> None:
        if self._path.exists() and self._path.stat().st_size > size:
            with self._path.open("r+b") as file:
                file.truncate(size)


def read_audit(folder: Path) -> list[dict[str, Any]]:
    """All lines; a UserError names the first that was changed or follows one that is missing.

    That the last lines are missing does not show in the log itself.
    """
    try:
        lines = _lines(folder / FILE)
    except OSError as error:
        raise storage_error(folder / FILE, error, "read") from error
    last, rows = _FIRST, []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or row.get("before") != last:
            raise UserError(
                f"{folder / FILE}: line {number} does not follow the line before it: the log was changed."
            )
        rows.append(row)
        last = hashlib.sha256(line).hexdigest()
    return rows


def _lines(path: Path) -> list[bytes]:
    """The whole lines of the log; the last may still be on its way."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    return lines if not lines or lines[-1].endswith(b"\n") else lines[:-1]
