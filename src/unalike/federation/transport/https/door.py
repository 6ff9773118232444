"""The only port that strangers can reach: mutual TLS before HTTP, and a timer on everything that a peer can delay.

uvicorn speaks HTTP (h11, which is strict) and knows no timer but that of an idle connection. Here each of its
connections is wrapped: hands are shaken first, with the certificates of admitted sites and no others; then a
request's header must be whole in time, and the next one must come in time. Every refusal is a line in the log with
the address, once a minute for the same one.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from unalike.federation.transport.https.admitted import Admitted

log = logging.getLogger("unalike.federation.door")
_REMIND = 60.0
_MOST_REMEMBERED = 1000


@dataclass(frozen=True)
class Limits:
    """What the port bears of strangers, who have not shaken hands, and of sites."""

    strangers: int = 128
    strangers_of_an_address: int = 32
    connections_of_a_site: int = 8
    handshake_seconds: float = 10.0
    header_seconds: float = 10.0
    body_seconds: float = 60.0
    idle_seconds: float = 90.0
    header_bytes: int = 16 << 10


@dataclass
class Door:
    """Who is at the port: strangers in the order in which they came, and the connections of each site."""

    admitted: Admitted
    limits: Limits = field(default_factory=Limits)
    strangers: list[Connection] = field(default_factory=list)
    sites: Counter[str] = field(default_factory=Counter)
    _told: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    """when a refusal was logged last, by host and reason, and how many there were since"""

    def let_in(self, stranger: Connection) -> None:
        """Take one more stranger; where there are too many, the one who has dallied longest has to go.

        A site shakes hands in milliseconds, so a crowd that holds connections open pushes out itself.
        """
        neighbours = [each for each in self.strangers if each.host == stranger.host]
        if len(neighbours) >= self.limits.strangers_of_an_address:
            neighbours[0].refuse("too many connections from this address")
        elif len(self.strangers) >= self.limits.strangers:
            self.strangers[0].refuse("too many connections")
        self.strangers.append(stranger)

    def refused(self, host: str, port: int, reason: str) -> None:
        """Log who was turned away and why; the same again within a minute is only counted."""
        now, known = time.monotonic(), self._told.get((host, reason))
        if known is not None and now - known[0] < _REMIND:
            self._told[host, reason] = known[0], known[1] + 1
            return
        more = f" (and {known[1]} times more since then)" if known and known[1] else ""
        if len(self._told) >= _MOST_REMEMBERED:
            self._told.clear()
        self._told[host, reason] = now, 0
        log.warning("%s:%d refused: %s%s", host, port, reason, more)

    def protocol(self) -> type[asyncio.Protocol]:
        """What uvicorn makes for each connection, as its configuration takes a class."""
        return type("ConnectionAtThisDoor", (Connection,), {"door": self})


CONNECTION: ContextVar[Connection] = ContextVar("CONNECTION")
"""The connection that a request came on, for the application that answers it."""


class Connection(asyncio.Protocol):
    """One connection: shakes hands, then passes bytes to uvicorn's HTTP, and watches how long everything takes."""

    door: Door

    def __init__(self, **given: Any) -> None:
        self._given = given
        self._http: H11Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._hands: asyncio.Task[None] | None = None
        self._early = bytearray()
        self._waits_for_request = False
        self._begun = False
        """whether something of the next request has come"""
        self.party = ""
        self.host, self.port = "unknown", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to shake hands with whoever has connected."""
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()  # the handshake reads
        self._transport = transport
        # A listening socket of our own making does not tell asyncio that it is TCP, so it would leave this out.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.host, self.port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        self.door.let_in(self)
        self._hands = asyncio.get_running_loop().create_task(self._shake_hands(transport))

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        seconds = self.door.limits.handshake_seconds
        secure: asyncio.Transport | None = None
        try:
            context = self.door.admitted.context()
            secure = await asyncio.get_running_loop().start_tls(
                transport,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=1.0,
            )
        except (OSError, TimeoutError) as error:
            self.refuse(f"TLS handshake failed ({_why(error, seconds)})")
        finally:
            if self in self.door.strangers:
                self.door.strangers.remove(self)
        if secure is None or secure.is_closing():
            return
        self._transport = secure
        certificate = secure.get_extra_info("ssl_object").getpeercert(binary_form=True)
        party = self.door.admitted.party(certificate)
        if party is None:  # removed while hands were shaken
            self.refuse("not admitted")
        elif self.door.sites[party] >= self.door.limits.connections_of_a_site:
            self.refuse(f"too many connections of {party}")
        else:
            self._speak_http(secure, party)

    def _speak_http(self, secure: asyncio.Transport, party: str) -> None:
        self.party = party
        self.door.sites[party] += 1
        self._http = H11Protocol(**self._given)
        self._http.connection_made(secure)
        self._expect_request()
        if self._early:
            early, self._early = bytes(self._early), bytearray()
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        """Pass on what came; the first byte of a request starts the time for the rest of its header."""
        if self._http is None:
            self._early += data
            return
        if self._waits_for_request and not self._begun:
            self._begun = True
            self._start_timer(self.door.limits.header_seconds, "its request was not whole in time")
        CONNECTION.set(self)  # the application's task is started with this
        self._http.data_received(data)

    def request_begins(self) -> None:
        """The header is whole; from here on the application has its own time for the rest."""
        self._waits_for_request = False
        self._stop_timer()

    def request_ends(self) -> None:
        """The answer is on its way: the next request may come."""
        if self._transport is not None and not self._transport.is_closing():
            self._expect_request()

    def _expect_request(self) -> None:
        self._waits_for_request, self._begun = True, False
        self._start_timer(self.door.limits.idle_seconds, "")  # to be idle is no offence

    def _start_timer(self, seconds: float, offence: str) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.refuse, offence)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def refuse(self, reason: str) -> None:
        """End the connection at once, and say why where that is worth a line."""
        self._stop_timer()
        if self in self.door.strangers:
            self.door.strangers.remove(self)
        if reason:
            self.door.refused(self.host, self.port, reason)
        self._waits_for_request = False
        if self._hands is not None and self._hands is not asyncio.current_task():
            self._hands.cancel()
        if self._transport is not None:
            self._transport.abort()

    def eof_received(self) -> None:
        """The other side has said all."""

    def pause_writing(self) -> None:
        """The other side reads slowly."""
        if self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        """The other side has read what was sent: go on writing."""
        if self._http is not None:
            self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed: forget it, and tell the HTTP side."""
        self._stop_timer()
        if self._http is None:
            return
        if self._waits_for_request and self._begun:  # uvicorn has answered it with 400, or it was cut off
            self.door.refused(self.host, self.port, f"{self.party} sent no HTTP request that can be read")
        self._waits_for_request = False
        self.door.sites[self.party] -= 1
        self._http.connection_lost(exc)


def _why(error: OSError | TimeoutError, seconds: float) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not that of an admitted site: {error.verify_message}"
    if isinstance(error, ConnectionAbortedError):
        return f"not done within {seconds:g} s"  # asyncio's word for a slow handshake
    reason = getattr(error, "reason", None) or str(error) or type(error).__name__
    return str(reason).replace("_", " ").lower()
