"""Who holds a lock, found out by looking alone: nothing is locked, opened for writing or touched."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from unalike.runs.files import is_held

Held = Callable[[Path], bool]
"""Whether a process holds the lock with this file."""

_TABLE = Path("/proc/locks")


def held_now(table: Path = _TABLE) -> Held:
    """Which locks of this machine are held at this moment, as the system's own table tells it.

    To try a lock would keep out a run that starts just then. Where the system has no such table (macOS), a lock
    counts as held while the process lives whose number is beside it; a lock without a number is tried.
    """
    try:
        lines = table.read_text().splitlines()
    except OSError:
        return _by_number
    found: dict[int, set[str]] = {}
    for line in lines:
        words = line.split()
        if len(words) >= 6 and words[1] != "->":  # an arrow is before those who wait
            device, _, inode = words[5].rpartition(":")
            with suppress(ValueError):
                found.setdefault(int(inode), set()).update((device, words[4]))

    def held(path: Path) -> bool:
        try:
            state = path.stat()
        except OSError:
            return False
        known = found.get(state.st_ino, ())
        device = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}"
        # Some file systems show programs another device than the table does: there, who holds it tells.
        return bool(known) and (device in known or _number(path) in known)

    return held


def _by_number(path: Path) -> bool:
    number = _number(path)
    if not number:
        return not (path.parent / "spec.toml").exists() and is_held(path)
    if os.name == "nt":  # where no signal can be sent that does nothing
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's process
        return True
    return True


def _number(path: Path) -> str:
    """The number of the process that took the lock, if it left one; as text."""
    try:
        return str(int(path.with_name(f"{path.name}.pid").read_bytes()[:20]))
    except (OSError, ValueError):
        return ""
