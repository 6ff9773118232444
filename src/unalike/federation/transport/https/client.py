"""A site's side: it calls the server, waits for questions, and brings the answers. It opens no port.

One thread waits for the next question all the time, so that the server sees who is there; the caller's own thread
answers. Whatever breaks is tried again, later each time, and goes on where it was cut off.
"""

from __future__ import annotations

import ipaddress
import queue
import random
import re
import secrets
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

import httpx

from unalike.errors import UserError
from unalike.federation.transport.https.certificates import split_address
from unalike.federation.transport.https.desk import LENGTH, PIECE, POLL, QUESTION

CONNECTED = "connected"
NOT_ADMITTED = "refused: not admitted yet"
PATIENCE = 30.0
"""Seconds for a connection: a crowd at the server's port may be let in before (``Limits.visitors_per_second``)."""
_MOST_SAID = 1 << 12
_FIRST, _GROWTH, _LAST = 0.2, 1.7, 5.0
"""Seconds until the next try: at first, how it grows, at most."""


class Caller:
    """A site's connection to the server at ``address``, while it is entered.

    ``authority`` is the federation's ``ca.pem``; ``certificate`` and ``key`` are the site's own. ``tell`` gets a
    line whenever the connection's state changes; ``most`` is how long a question may be.
    """

    def __init__(
        self,
        address: str,
        authority: Path,
        certificate: Path,
        key: Path,
        most: int,
        tell: Callable[[str], None] = lambda state: None,
    ) -> None:
        host, port = split_address(address)
        self._client = httpx.Client(
            base_url=f"https://{'[' + host + ']' if ':' in host else host}:{port}",
            verify=_context(authority, certificate, key),
            trust_env=not _loopback(host),  # a proxy for going out must not see what stays on this machine
            timeout=httpx.Timeout(30.0, connect=PATIENCE, read=POLL + 15.0),
            limits=httpx.Limits(max_connections=4, keepalive_expiry=60.0),
        )
        self._most, self._tell = most, tell
        self._process = secrets.token_hex(8)
        self._questions: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
        self._closing, self._lock = threading.Event(), threading.Lock()
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._noted = {"trace": self._note}
        self._only_shaken = False
        """whether the newest connection has been made, and nothing has come on it yet"""
        self._fetcher = threading.Thread(target=self._fetch, name="questions", daemon=True)
        self.state = "connecting"

    def __enter__(self) -> Self:
        self._fetcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        for _ in range(20):
            for each in list(self._sockets):
                with suppress(OSError):
                    socket.socket.shutdown(each, socket.SHUT_RDWR)  # wakes the thread that waits for it
            self._fetcher.join(0.1)
        self._client.close()

    def answer(self, answer: Callable[[bytes], bytes]) -> None:
        """Answer one question after the other with what ``answer`` makes of it, until it raises or this is left.

        Only the newest is answered: whoever asks again does not wait for the older one any more.
        """
        while not self._closing.is_set():
            try:
                name, question = self._questions.get(timeout=1.0)  # a signal is noticed between two
                while not self._questions.empty():
                    name, question = self._questions.get()
            except queue.Empty:
                continue
            self._bring(name, answer(question))

    def _fetch(self) -> None:
        """Wait for questions, one after the other."""
        had, part, data, wait = "", "", bytearray(), _FIRST
        while not self._closing.is_set():
            asked = {"process": self._process, "had": had, "part": part, "from": str(len(data))}
            if self.state != CONNECTED:
                asked["wait"] = "0"
            try:
                with self._client.stream("GET", "/v1/question", params=asked, extensions=self._noted) as response:
                    self._check(response)
                    wait = _FIRST
                    if response.status_code == 204:
                        continue
                    name, total = response.headers[QUESTION.decode()], int(response.headers[LENGTH.decode()])
                    if not re.fullmatch("[0-9a-f]{16}", name):
                        raise ValueError("a question without a name")
                    if total > self._most:
                        raise ValueError(f"a question of {total:,} bytes, more than {self._most:,}")
                    if name != part:
                        part, data = name, bytearray()
                    for chunk in response.iter_raw():
                        data += chunk
                        if len(data) > total:  # whatever the server is, it must not fill this site's memory
                            part, data = "", bytearray()
                            raise ValueError("a question that is longer than it says")
                if len(data) == total:
                    with suppress(queue.Empty):
                        self._questions.get_nowait()  # only the newest is answered, however many come meanwhile
                    self._questions.put((name, bytes(data)))
                    had, part, data = name, "", bytearray()
            except Exception as error:  # whatever it is, the site goes on trying
                wait = self._failed(error, wait)

    def _bring(self, name: str, answer: bytes) -> None:
        """Bring an answer, piece by piece, until the server has it or does not want it any more."""
        at, wait = 0, _FIRST
        while not self._closing.is_set():
            piece = answer[at : at + PIECE]
            asked = {"from": str(at), "of": str(len(answer))}
            try:
                to = f"/v1/answer/{name}"
                with self._client.stream(
                    "PUT", to, params=asked, content=piece, extensions=self._noted
                ) as response:
                    _hear_out(response)
                if response.status_code in (400, 404, 410, 413):
                    return  # nobody waits for it any more, or it is too long for the server
                if response.status_code == 409:
                    at = int(response.headers["have"])
                    self._closing.wait(_FIRST)
                    continue
                self._check(response)
                at, wait = at + len(piece), _FIRST
                if at >= len(answer):
                    return
            except (httpx.HTTPError, OSError, KeyError, ValueError) as error:
                wait = self._failed(error, wait)

    def _check(self, response: httpx.Response) -> None:
        self._only_shaken = False
        if response.status_code == 403:
            raise PermissionError("not admitted any more")
        if response.status_code not in (200, 204):
            raise OSError(f"the server answered {response.status_code}")
        self._set(CONNECTED)

    def _failed(self, error: Exception, wait: float) -> float:
        """Say why, wait, and give the time to wait after the next failure."""
        if not self._closing.is_set():
            # The site's part of TLS 1.3 is done before the server looks at its certificate, and hangs up.
            hung_up = self._only_shaken and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError)
            self._set(NOT_ADMITTED if hung_up else _why(error))
            self._closing.wait(wait * random.uniform(0.5, 1.5))  # sites shall not come all at once
        return min(wait * _GROWTH, _LAST)

    def _set(self, state: str) -> None:
        with self._lock:
            if state != self.state and not self._closing.is_set():
                self.state = state
                self._tell(state)

    def _note(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep the sockets that httpx opens: nothing else ends a wait from another thread."""
        if event.endswith(".start_tls.complete"):
            self._sockets.add(info["return_value"].get_extra_info("socket"))
            self._only_shaken = True
        elif event.endswith(".start_tls.started"):
            self._only_shaken = False


def _context(authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=str(authority))
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise UserError(
            f"{authority.name}, {certificate.name} and {key.name} in {authority.parent} cannot be used "
            f"({error.strerror or error}): join again from the folder that the server's owner sent."
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def _hear_out(response: httpx.Response) -> None:
    """Read what the server says to an answer, which is a line at most."""
    left = _MOST_SAID
    for chunk in response.iter_raw():
        left -= len(chunk)
        if left < 0:
            raise OSError("the server says more than any does")


def _why(error: Exception) -> str:
    """One line on a failure: a server that refuses is told from one that is not there."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, PermissionError):
        return "refused: the server does not admit this site any more"
    if "alert" in text.lower():  # the other side's TLS says so: this site's certificate is not known there
        return NOT_ADMITTED
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return f"unreachable: the server's certificate is not accepted ({text.rpartition(': ')[2]})"
    return f"unreachable: {re.sub(r'^.Errno -?[0-9]+. ?', '', text)[:200]}"


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
