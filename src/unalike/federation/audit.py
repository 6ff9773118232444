"""A site's own log of every message: when, which way, what kind, how many bytes, their hash, and what came of it.

One JSON line a message, appended and synced. Each line holds the hash of the line before, so that a line that was
removed or changed afterwards shows (``check``).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unalike.engine.files import storage_error
from unalike.errors import UserError

FILE = "audit.jsonl"
_FIRST = "0" * 64


class Audit:
    """The log in a folder, open for appending by one process."""

    def __init__(self, folder: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._path, self._now = folder / FILE, now
        self._last = _FIRST
        lines = self._path.read_bytes().splitlines(keepends=True) if self._path.exists() else []
        if lines and not lines[-1].endswith(b"\n"):  # torn by a crash: the message had no answer either
            lines.pop()
            with self._path.open("r+b") as file:
                file.truncate(sum(map(len, lines)))
        if lines:
            self._last = hashlib.sha256(lines[-1]).hexdigest()

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
        try:
            with self._path.open("ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise storage_error(self._path, error) from error
        self._last = hashlib.sha256(data).hexdigest()


def read_audit(folder: Path) -> list[dict[str, Any]]:
    """All lines; a UserError names the first that was changed or follows one that is missing."""
    try:
        lines = (folder / FILE).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    last, rows = _FIRST, []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = {}
        if row.get("before") != last:
            raise UserError(
                f"{folder / FILE}: line {number} does not follow the line before it: the log was changed."
            )
        rows.append(row)
        last = hashlib.sha256(line).hexdigest()
    return rows
