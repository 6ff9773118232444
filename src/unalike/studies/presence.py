"""Who is at work: studies that run in a folder, so that another terminal can see and stop them; runs likewise.

A running study holds a lock on a file of its own, which no other process's number can be mistaken for. To stop it,
a file is put beside the lock, which it looks for now and then.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from unalike.runs.files import atomic_write, list_folder, make_folder, storage_error

FOLDER = ".studies"
_LOCK, _STOP = ".running", ".stop"


class Presence:
    """Says, while it is entered, that a study runs here."""

    def __init__(self, runs: Path, name: str) -> None:
        self._folder = runs / FOLDER
        self._place = self._folder / f"{name}.{os.getpid()}-{secrets.token_hex(4)}"
        self._stack = ExitStack()

    def __enter__(self) -> Presence:
        make_folder(self._folder)
        lock = FileLock(self._place.with_name(self._place.name + _LOCK), timeout=0)
        try:
            lock.acquire()
        except OSError as error:
            raise storage_error(Path(lock.lock_file), error) from error
        self._stack.callback(_remove, Path(lock.lock_file))
        self._stack.callback(_remove, self._stop_file)
        self._stack.callback(lock.release)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._stack.close()

    @property
    def _stop_file(self) -> Path:
        return self._place.with_name(self._place.name + _STOP)

    @property
    def asked_to_stop(self) -> bool:
        """Whether somebody wants this study to stop."""
        return self._stop_file.exists()


def running(runs: Path, name: str) -> list[Path]:
    """The locks of the processes that run the study here; those of dead ones are cleared away."""
    alive = []
    for path in list_folder(runs / FOLDER):
        if (
            path.name.startswith(f"{name}.")
            and path.suffix == _LOCK
            and path.stem.count(".") == name.count(".") + 1
        ):
            if _held(path):
                alive.append(path)
            else:
                _remove(path)
                _remove(path.with_suffix(_STOP))
    return alive


def stop(runs: Path, name: str, patience: float = 120.0) -> tuple[int, int]:
    """Ask all processes that run the study to stop, and wait; how many there were, and how many are left."""
    asked = running(runs, name)
    for path in asked:
        atomic_write(path.with_suffix(_STOP), b"")
    end = time.monotonic() + patience
    left = asked
    while left and time.monotonic() < end:
        left = [path for path in left if path.exists() and _held(path)]
        if left:
            time.sleep(0.1)
    return len(asked), len(left)


def _held(path: Path) -> bool:
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True
    except (OSError, NotImplementedError):
        return False


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
