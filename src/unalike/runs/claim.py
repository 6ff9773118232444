"""The claim on a run's folder: its lock keeps out this host's processes, its lease those of others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from filelock import Timeout

from unalike.errors import UserError
from unalike.runs.files import file_lock, is_held, make_folder, open_file, storage_error
from unalike.runs.lease import InUse, Lease, deaths, held_elsewhere
from unalike.runs.record import ROUNDS

_LOCK = "lock"
_PID = "lock.pid"
_lent: ContextVar[dict[Path, Lease] | None] = ContextVar("lent", default=None)


@contextmanager
def claim(folder: Path) -> Iterator[Lease]:
    """Keep all others out of a folder that is there; raises ``InUse`` where they are in it."""
    lent = (_lent.get() or {}).get(folder)
    if lent is not None:
        yield lent
        return
    with ExitStack() as stack:
        _lock(folder, stack)
        lease = Lease.take(folder, ROUNDS)
        stack.callback(lease.release)
        lease.keep()
        yield lease


@contextmanager
def claimed(folder: Path) -> Iterator[Lease]:
    """Claim a folder before there is anything to write, for what is done within: its run need not claim it again.

    Preparing a run takes time, and so others who look for work take another one meanwhile.
    """
    make_folder(folder)
    with claim(folder) as lease:
        token = _lent.set({**(_lent.get() or {}), folder: lease})
        try:
            yield lease
        finally:
            _lent.reset(token)


def is_busy(folder: Path) -> bool:
    """Whether a process is at work in a run's folder. Its lock is only tried where it left its number."""
    try:
        return ((folder / _PID).exists() and is_held(folder / _LOCK)) or held_elsewhere(folder)
    except (OSError, NotImplementedError, UserError):
        return False


def died_in(folder: Path) -> int:
    """How many processes in a row died in a run's folder without a round more. Nobody must be in it."""
    return deaths(folder, ROUNDS)


def _lock(path: Path, stack: ExitStack) -> None:
    """Lock the folder until ``stack`` ends, and note who has it."""
    lock = file_lock(path / _LOCK)
    pid = path / _PID
    try:
        lock.acquire()
    except Timeout:
        raise InUse(
            f"{path} is in use by another process{_holder(pid)}. Wait for it, or choose another --runs folder."
        ) from None
    except NotImplementedError:  # how older versions of filelock say it
        raise UserError(f"{path} is on a file system without locks. Choose another --runs folder.") from None
    except OSError as error:
        raise storage_error(path / _LOCK, error) from error
    stack.callback(lock.release)
    # Beside the lock, since on Windows nobody can read a locked file. A courtesy that a full disk may refuse.
    with suppress(OSError), open_file(pid, "wb") as file:
        file.write(str(os.getpid()).encode())
    stack.callback(_forget, pid)


def _forget(pid: Path) -> None:
    with suppress(OSError):
        pid.unlink()


def _holder(pid: Path) -> str:
    try:
        return f" (pid {int(pid.read_text())})"
    except (OSError, ValueError):
        return ""
