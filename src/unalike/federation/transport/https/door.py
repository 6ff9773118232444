"""The only port that strangers can reach: mutual TLS before HTTP, and a timer on everything that a peer can delay.

uvicorn speaks HTTP (h11, which is strict) and knows no timer but that of an idle connection, so here is what it
lacks: visitors are let in at a bearable pace; hands are shaken first, with the certificates of admitted sites and
no others; then each connection is watched, from a request's first byte to the last one of its answer. Every
refusal is a line in the log with the address, once a minute for the same one.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from unalike.federation.transport.https.admitted import Admitted

log = logging.getLogger("unalike.federation.door")
_REMIND = 60.0
_MOST_REMEMBERED = 1000


@dataclass(frozen=True)
class Limits:
    """What the port bears of strangers, who have not shaken hands, and of sites."""

    strangers: int = 128
    strangers_of_an_address: int = 32
    visitors_at_once: int = 100
    visitors_per_second: float = 100.0
    """after those at once; the others wait in the kernel, so that a crowd cannot take the sites' time"""
    connections_of_a_site: int = 8
    handshake_seconds: float = 10.0
    header_seconds: float = 10.0
    body_seconds: float = 60.0
    idle_seconds: float = 90.0
    header_bytes: int = 16 << 10


class Door:
    """Who is at the port: strangers in the order in which they came, and the connections of each site.

    ``http`` makes what speaks HTTP on a connection that has passed.
    """

    def __init__(self, admitted: Admitted, limits: Limits, http: Callable[[Connection], asyncio.Protocol]) -> None:
        self.admitted, self.limits, self.http = admitted, limits, http
        self.strangers: list[Connection] = []
        self.sites: defaultdict[str, list[Connection]] = defaultdict(list)
        self._allowance, self._counted = float(limits.visitors_at_once), 0.0
        self._told: Counter[tuple[str, str]] = Counter()
        """refusals of this minute by host and reason"""
        self._told_before = self._told
        self._minute = 0.0

    async def receive(self, listener: socket.socket) -> None:
        """Let visitors in, one after the other, until this is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._pace(loop.time())
            try:
                visitor, address = await loop.sock_accept(listener)
            except OSError as error:  # it has gone again, or there are too many open files
                self.refused("a visitor", 0, error.strerror or "gone")
                await asyncio.sleep(1.0)
                continue
            connection = Connection(self, visitor, *address[:2])
            self._make_room(connection)
            self.strangers.append(connection)
            connection.hands = loop.create_task(connection.shake_hands())

    async def _pace(self, now: float) -> None:
        limits = self.limits
        earned = (now - self._counted) * limits.visitors_per_second
        self._allowance, self._counted = min(self._allowance + earned, limits.visitors_at_once) - 1, now
        if self._allowance < 0:
            await asyncio.sleep(-self._allowance / limits.visitors_per_second)

    def _make_room(self, stranger: Connection) -> None:
        """Where there are too many strangers, the one who has dallied longest has to go.

        A site shakes hands in milliseconds, so a crowd that holds connections open pushes out itself.
        """
        neighbours = [each for each in self.strangers if each.host == stranger.host]
        if len(neighbours) >= self.limits.strangers_of_an_address:
            neighbours[0].refuse("too many connections from this address")
        elif len(self.strangers) >= self.limits.strangers:
            self.strangers[0].refuse("too many connections")

    def close(self) -> None:
        """End all connections, those of sites too."""
        for connection in [*self.strangers, *(each for party in self.sites.values() for each in party)]:
            connection.refuse("")

    def refused(self, host: str, port: int, reason: str) -> None:
        """Log who was turned away and why; the same again within a minute is only counted.

        A reason must have nothing in it that the other side chose, or it could fill the log.
        """
        if (now := time.monotonic()) - self._minute > _REMIND:
            self._minute, self._told, self._told_before = now, Counter(), self._told
        if len(self._told) < _MOST_REMEMBERED or (host, reason) in self._told:
            self._told[host, reason] += 1
        if self._told[host, reason] == 1:
            times = self._told_before[host, reason]
            log.warning("%s:%d refused: %s%s", host, port, reason, f" ({times} times before)" if times else "")


class Connection(asyncio.Protocol):
    """One connection: shakes hands, then passes bytes to HTTP, and watches how long everything takes."""

    def __init__(self, door: Door, visitor: socket.socket, host: str, port: int) -> None:
        self.door, self.host, self.port = door, host, port
        self.party = ""
        self.hands: asyncio.Task[None] | None = None
        self._visitor = visitor
        self._refused = False
        self._certificate: bytes | None = None
        self._http: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._expects_request = False
        self._begun = False
        """whether something of the next request has come"""

    async def shake_hands(self) -> None:
        """Begin with TLS; whoever does not pass is sent away."""
        limits = self.door.limits
        try:
            self._visitor.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self,
                self._visitor,
                ssl=self.door.admitted.context(),
                ssl_handshake_timeout=limits.handshake_seconds,
                ssl_shutdown_timeout=1.0,
            )
        except OSError as error:
            self.refuse(f"TLS handshake failed ({_why(error, limits.handshake_seconds)})")
        finally:
            self._is_no_stranger()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hands have been shaken: see whose they are, and speak HTTP with a site."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._is_no_stranger()
        self._certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        party = self.door.admitted.party(self._certificate)
        if party is None:
            self.refuse("not admitted")
            return
        others = self.door.sites[party]
        if len(others) >= self.door.limits.connections_of_a_site:
            others[0].refuse(f"too many connections of {party}")  # the oldest may be one that was cut off
        self.party = party
        others.append(self)
        self._http = self.door.http(self)
        self._http.connection_made(transport)
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        """Pass on what came; the first byte of a request starts the time for the rest of its header."""
        if self._http is None or self.is_closing():
            return
        if self._expects_request and not self._begun:
            self._begun = True
            self.watch(self.door.limits.header_seconds, "its request was not whole in time")
        self._http.data_received(data)

    def is_closing(self) -> bool:
        """Whether nothing can be said on this connection any more."""
        return self._transport is None or self._transport.is_closing()

    def is_admitted(self) -> bool:
        """Whether the site still is: its card may have been removed, or have got another certificate."""
        return self.door.admitted.party(self._certificate) == self.party

    def request_begins(self) -> None:
        """The header is whole; from here on the application watches the time."""
        self._expects_request = False
        self.stop_watching()

    def request_ends(self) -> None:
        """The answer is on its way: the next request may come."""
        if not self.is_closing():
            self._expect_request()

    def _expect_request(self) -> None:
        self._expects_request, self._begun = True, False
        self.watch(self.door.limits.idle_seconds, "")  # to be idle is no offence

    def watch(self, seconds: float, offence: str) -> None:
        """End the connection after so many seconds, unless something happens before."""
        self.stop_watching()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.refuse, offence)

    def stop_watching(self) -> None:
        """What happens next may take its time."""
        if self._timer is not None:
            self._timer.cancel()

    def refuse(self, reason: str) -> None:
        """End the connection at once, and say why where that is worth a line."""
        if self._refused:
            return
        self._refused, self._expects_request = True, False
        self.stop_watching()
        self._is_no_stranger()
        if reason:
            self.door.refused(self.host, self.port, reason)
        if self._transport is None:
            with suppress(OSError):
                self._visitor.shutdown(socket.SHUT_RDWR)  # which ends the handshake
        elif not self._transport.is_closing():
            self._transport.abort()

    def _is_no_stranger(self) -> None:
        if self in self.door.strangers:
            self.door.strangers.remove(self)

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
        self.stop_watching()
        if self._http is None:
            return
        if self._expects_request and self._begun:  # it was answered with 400, or cut off
            self.door.refused(self.host, self.port, f"{self.party} sent no HTTP request that can be read")
        self.door.sites[self.party].remove(self)
        self._http.connection_lost(exc)


def _why(error: OSError, seconds: float) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not that of an admitted site: {error.verify_message}"
    if isinstance(error, ConnectionAbortedError):
        return f"not done within {seconds:g} s"  # asyncio's word for a slow handshake
    reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return str(reason).replace("_", " ").lower()
