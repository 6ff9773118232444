"""Leases: a run's folder belongs to one process of one host, also where the file system ignores locks.

A network file system may grant the same lock on two hosts. So whoever works in a folder also keeps a small file in
it, made by an exclusive create (which such file systems do in one step), and renews it every half minute. Its age
is taken by the file system's own clock, so hosts need not agree on the time. One that was not renewed for two
minutes is of a host that died, and is taken over.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from unalike.errors import UserError
from unalike.runs.files import list_folder, open_file, read_bytes, storage_error, write_all

RENEW_SECONDS = 30.0
STALE_SECONDS = 120.0
"""A lease that nobody renewed for so long is of a dead host. Several renewals may get lost before that."""
_NAME = re.compile(r"lease-(\d{1,9})")


class InUse(UserError):
    """Another process is at work in the folder."""


@dataclass(frozen=True)
class Holder:
    """Who has a folder, as its lease says."""

    host: str = "another host"
    machine: str = ""
    """Tells hosts of one name apart, and one that was started again from before."""
    pid: int = 0
    since: str = ""
    deaths: int = 0
    """How many processes in a row died in this folder without a round more, before this one."""
    rounds: int = 0
    """The most that were ever recorded when it began: whether it came further."""


class Lease:
    """One process's hold on a folder. Made by ``Lease.take``; ends with ``release``, or by not being renewed."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock
        self._renewed = clock()
        self._lost = False
        self._over = threading.Event()

    @classmethod
    def take(cls, folder: Path, rounds: str, *, clock: Callable[[], float] = time.time) -> Lease:
        """Take the folder, or raise ``InUse``. Who calls this holds the folder's lock on this host already.

        Each of two who do so at the same moment makes a file before it looks for others, so never both go on; it
        may be neither, and they are to try again. ``rounds`` names the file with a line a round.
        """
        found = list(_leases(folder))
        path = folder / f"lease-{1 + max((number for number, _, _ in found), default=0)}"
        recorded = _count(folder / rounds)
        died = max((_deaths(holder, recorded) for _, _, holder in found), default=0)
        furthest = max([recorded, *(holder.rounds for _, _, holder in found)])
        about = Holder(socket.gethostname(), machine(), os.getpid(), _said_now(), died, furthest)
        try:
            _make(path, json.dumps(asdict(about)).encode())
        except FileExistsError:
            raise InUse(f"{folder} is being taken by another process. Try again.") from None
        except OSError as error:
            raise storage_error(path, error) from error
        others = [(other, holder) for _, other, holder in _leases(folder) if other != path]
        for other, holder in others:
            left = STALE_SECONDS - (_written(path) - _written(other))
            if holder.machine != about.machine and left >= 0:
                _remove(path)
                raise InUse(
                    f"{folder} is in use on {holder.host} (pid {holder.pid}). Wait for it; if that host is dead, "
                    f"for {left:.0f} seconds."
                )
        for other, _ in others:
            _remove(other)
        return cls(path, clock)

    def keep(self) -> None:
        """Renew it from a thread of its own, however long a round takes."""
        threading.Thread(target=self._keep, daemon=True, name="lease").start()

    def _keep(self) -> None:
        while not self._over.wait(RENEW_SECONDS) and not self._lost:
            self.renew()

    def renew(self) -> None:
        """Say that the process is alive. Where somebody took the folder over, it is lost for good."""
        if self._over.is_set():
            return
        try:
            os.utime(self._path)  # the file system's own clock
            self._renewed = self._clock()
        except FileNotFoundError:
            self._lost = not self._over.is_set()
        except OSError:  # the network is down: it may come back in time
            pass

    def check(self) -> None:
        """Raise ``InUse`` if the folder is somebody else's by now, as after a host that slept for minutes."""
        if self._clock() - self._renewed > 2 * RENEW_SECONDS:
            self.renew()
        if self._lost:
            raise InUse(
                f"{self._path.parent} was taken over by another process, since this one had not been heard of for "
                f"{STALE_SECONDS:.0f} seconds. It goes on there."
            )

    def release(self) -> None:
        """Give the folder back, so that others may take it."""
        self._over.set()
        _remove(self._path)


def held_elsewhere(folder: Path, now: float | None = None) -> bool:
    """Whether another host is at work in the folder, by this host's clock: for a look, not for taking it."""
    now = time.time() if now is None else now
    return any(
        holder.machine != machine() and now - _written(path) <= STALE_SECONDS
        for _, path, holder in _leases(folder)
    )


def deaths(folder: Path, rounds: str) -> int:
    """How many processes in a row died in the folder without a round more; counts one that is alive, too."""
    recorded = _count(folder / rounds)
    return max((_deaths(holder, recorded) for _, _, holder in _leases(folder)), default=0)


def _deaths(holder: Holder, recorded: int) -> int:
    """The count once this holder has died, where so many rounds are recorded by now."""
    return 1 if recorded > holder.rounds else holder.deaths + 1


@cache
def machine() -> str:
    """This host since it was started; processes of one such host see each other's locks."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()}-{uuid.getnode():x}"


def _leases(folder: Path) -> Iterator[tuple[int, Path, Holder]]:
    for path in list_folder(folder):
        if (found := _NAME.fullmatch(path.name)) is not None:
            yield int(found[1]), path, _holder(path)


def _make(path: Path, data: bytes) -> None:
    """Make the file, with all that is in it, unless there is one: both in one step, where links can be made."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.unalike-tmp")
    try:
        with open_file(temporary, "xb") as file, suppress(OSError):  # a full disk: an empty one says enough
            write_all(file, data)
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            raise
        except OSError:  # no links on this file system
            with open_file(path, "xb") as file, suppress(OSError):
                write_all(file, data)
    finally:
        _remove(temporary)


def _holder(path: Path) -> Holder:
    """What a lease says; one whose writer was killed at once, or that is gone, says nothing."""
    try:
        values = json.loads(read_bytes(path) or b"")
        kinds = {name: type(value) for name, value in asdict(Holder()).items()}
        return Holder(**{name: values[name] for name, kind in kinds.items() if type(values[name]) is kind})
    except (UserError, ValueError, KeyError, TypeError, RecursionError):
        return Holder()


def _written(path: Path) -> float:
    """When a file was last written, by the clock of its file system; one that is gone, very long ago."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _count(rounds: Path) -> int:
    """How many lines a file has."""
    return (read_bytes(rounds) or b"").count(b"\n")


def _said_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
