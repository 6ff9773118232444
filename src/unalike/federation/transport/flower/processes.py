"""Child processes: on loopback, offline, with their output in a file, and never without their parent."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from unalike.errors import UserError
from unalike.federation.transport.flower.child import GRACE
from unalike.runs.files import atomic_write, open_file

log = logging.getLogger("unalike.federation")

_LOG_LIMIT = 20 << 20
_OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}


def refuse_windows() -> None:
    """One line on a platform that real federations do not run on."""
    if os.name != "posix":
        raise UserError("Real federations run on Linux or macOS; Windows is not supported (WSL is).")


def environment(home: Path) -> dict[str, str]:
    """This process's environment, with Flower offline and its files in ``home``."""
    own = {
        **os.environ,
        **_OFFLINE,
        "FLWR_HOME": str(home),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }
    for name in ("NO_PROXY", "no_proxy"):  # a proxy for going out must not see what stays on this machine
        own[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1,localhost,::1"]))
    return own


def free_port() -> int:
    """A port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Child:
    """One process of the federation: an entry of ``child.ENTRIES`` with its arguments."""

    def __init__(self, entry: str, arguments: Sequence[str], home: Path, log: Path, **extra: str) -> None:
        self.log = log
        self._command = [
            sys.executable,
            "-P",
            "-m",
            "unalike.federation.transport.flower.child",
            entry,
            *arguments,
        ]
        self._environment = {**environment(home), **extra}
        self._process: subprocess.Popen[bytes] | None = None
        self._begin = 0

    def start(self) -> None:
        """Start the process; what it writes is appended to its log."""
        self.limit_log()
        with open_file(self.log, "ab") as output:
            self._begin = output.tell()
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=self._environment,
                umask=0o077,  # Flower's own files are this user's alone, as ours
            )

    @property
    def pid(self) -> int | None:
        """The process id, while it lives."""
        return self._process.pid if self.alive and self._process else None

    @property
    def alive(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def output(self) -> str:
        """What it has written since it was started last (the end of it, where that is long)."""
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, min(self._begin, size), size - (1 << 16)))
                return file.read().decode(errors="replace")
        except OSError:
            return ""

    def limit_log(self) -> None:
        """Move what is in a long log to ``.1``; the writer appends, so it goes on in the emptied file."""
        with suppress(OSError, UserError):
            if self.log.stat().st_size > _LOG_LIMIT:
                atomic_write(self.log.with_name(self.log.name + ".1"), self.log.read_bytes())
                os.truncate(self.log, 0)
                self._begin = 0

    def let_go(self) -> None:
        """Tell it to end; ``stop`` waits for it."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def stop(self) -> None:
        """End it: in order, and by force when it does not."""
        self.let_go()
        if self._process is not None:
            try:
                self._process.wait(GRACE + 3)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class Keeper:
    """A thread that looks at children again and again until it is closed."""

    def __init__(self, look: Callable[[], None], every: float = 0.2) -> None:
        self._look, self._every = look, every
        self.closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> None:
        """Start the thread that looks after the children."""
        self._thread.start()

    def close(self) -> None:
        """End, and wait until it has."""
        self.closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        told = ""
        while not self.closing.wait(self._every):
            try:
                self._look()
            except Exception as error:  # a full disk, no process to be had: the next look may do better
                if (line := f"{type(error).__name__}: {error}") != told:
                    log.warning("cannot look after the federation's processes (%s): trying again", line)
                    told = line


class BackOff:
    """When to try again: soon at first, later each time it fails, soon again after a good while."""

    def __init__(self, first: float = 1.0, last: float = 30.0, good: float = 60.0) -> None:
        self._first, self._last, self._good = first, last, good
        self._wait, self._started, self._due = first, 0.0, 0.0

    def started(self) -> None:
        """Note that the process was started just now: how long it lives decides when it is started again."""
        self._started, self._due = time.monotonic(), 0.0

    def due(self) -> bool:
        """Whether what is dead should be started again now."""
        now = time.monotonic()
        if not self._due:
            self._wait = self._first if now - self._started > self._good else min(self._last, self._wait * 1.6)
            self._due = now + self._wait
        return now >= self._due
