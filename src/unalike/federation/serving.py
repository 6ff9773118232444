"""The server of a federation's folder: its port is open, and jobs that are submitted are done."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import Timeout

from unalike.errors import UserError
from unalike.federation import attempts
from unalike.federation.folders import SERVE_LOCK, ServerFolder
from unalike.federation.plan import Plan
from unalike.federation.transport.https.certificates import check_server, renew_if_due, split_address
from unalike.federation.transport.https.server import HttpsServer
from unalike.runs.files import file_lock

_LOOK = 0.1
PAUSE = 10.0
"""Seconds until a job is tried again that could not even be refused, as on a full disk."""
_SOON = 30
"""Days before its end from which on a certificate that cannot be renewed is spoken of."""


class Serving:
    """The server, while it is entered. ``address`` and ``listen`` are for one that has moved since the plan.

    ``say`` gets lines for the person who started it; what happens is in the folder's log.
    """

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        say: Callable[[str], None],
        address: str | None = None,
        listen: str | None = None,
    ) -> None:
        self._folder, self._say = folder, say
        self.address = address or plan.address
        self._host, port = split_address(self.address)
        self._lock = file_lock(folder / SERVE_LOCK)
        self.transport = HttpsServer(folder, plan.parties, listen or self._host, port, plan.most_bytes)
        self._closing = threading.Event()
        self._worker = threading.Thread(target=self._work, name="jobs", daemon=True)
        self._log = _ToLog(ServerFolder(folder))

    def __enter__(self) -> Self:
        try:
            self._lock.acquire(timeout=1.0)  # who only looks holds it for a moment
        except Timeout:
            raise UserError(f"Another process serves {self._folder}: stop it first.") from None
        try:
            self._check_certificate()
            self.transport.__enter__()
        except BaseException:
            self._lock.release()
            raise
        logging.getLogger("unalike.federation").addHandler(self._log)
        self._worker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._worker.join()
        self.transport.__exit__(kind, error, trace)
        logging.getLogger("unalike.federation").removeHandler(self._log)
        self._lock.release()

    def _check_certificate(self) -> None:
        certificates = self._folder / "certificates"
        if renew_if_due(certificates, self._host):
            self._say("The server's certificate was renewed; sites need nothing new.")
        left = check_server(certificates, self._host)
        if left.days < _SOON:
            self._say(f"The server's certificate ends in {left.days} days; with ca.key there, it is renewed.")

    def _work(self) -> None:
        known = attempts.Attempts(self._folder)
        while not self._closing.wait(_LOOK):
            try:
                if known.wanted is not None:
                    attempts.serve(self.transport, self._folder, self._closing.is_set)
            except Exception as error:  # a full disk, say: a person is told, and the next look may do better
                with suppress(OSError):  # a closed terminal must not end the jobs
                    self._say(f"The job could not be done: {error}")
                self._closing.wait(PAUSE)


class _ToLog(logging.Handler):
    """What the transport tells, as lines of the folder's log."""

    def __init__(self, place: ServerFolder) -> None:
        super().__init__(logging.WARNING)
        self._place = place

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._place.say(record.getMessage())
        except UserError:
            self.handleError(record)
