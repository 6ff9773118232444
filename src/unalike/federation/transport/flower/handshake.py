"""TLS before HTTP: uvicorn's protocol behind a handshake that is timed, and logged when it fails.

asyncio drops a failed handshake without a word, and uvicorn lets a connection that never sends a request stay.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger("unalike.proxy")


class _Http(H11Protocol):
    """uvicorn's HTTP/1.1, which logs who sent a malformed request, and ends with those who send none."""

    idle_seconds = 30.0
    _first: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._first = asyncio.get_running_loop().call_later(self.idle_seconds, self._never_asked)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._first is not None:
            self._first.cancel()
        super().connection_lost(exc)

    def _never_asked(self) -> None:
        if not self._asked:
            log.warning("%s refused: no whole request within %g s", _address(self.transport), self.idle_seconds)
            self.transport.abort()

    @property
    def _asked(self) -> bool:
        return getattr(self, "cycle", None) is not None

    def send_400_response(self, msg: str) -> None:
        log.warning("%s refused 400: %s", _address(self.transport), msg)
        super().send_400_response(msg)


class TlsProtocol(asyncio.Protocol):
    """What uvicorn makes for each connection: shakes hands, then hands over to HTTP."""

    context: ssl.SSLContext
    handshake_seconds = 10.0
    idle_seconds = 30.0

    @classmethod
    def bound(cls, context: ssl.SSLContext, handshake_seconds: float, idle_seconds: float) -> type[TlsProtocol]:
        """The same class with these settings, as uvicorn's configuration takes a class."""
        settings = {"context": context, "handshake_seconds": handshake_seconds, "idle_seconds": idle_seconds}
        return type("BoundTlsProtocol", (cls,), settings)

    def __init__(self, **given: Any) -> None:
        self._given = given
        self._http: _Http | None = None
        self._early = bytearray()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the TLS handshake with whoever has connected, or refuse them where there are too many."""
        assert isinstance(transport, asyncio.Transport)
        connections = self._given["server_state"].connections
        if len(connections) >= self._given["config"].limit_concurrency:
            log.warning("%s refused: too many connections", _address(transport))
            transport.abort()
            return
        connections.add(self)
        self._task = asyncio.get_running_loop().create_task(self._shake_hands(transport))

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        address = _address(transport)
        loop = asyncio.get_running_loop()
        seconds = self.handshake_seconds
        try:
            secure = await loop.start_tls(
                transport, self, self.context, server_side=True, ssl_handshake_timeout=seconds
            )
        except (OSError, TimeoutError) as error:
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            log.warning("%s refused: TLS handshake failed (%s)", address, reason)
            transport.abort()
            secure = None
        self._given["server_state"].connections.discard(self)
        if secure is None or secure.is_closing():
            return
        http = _Http(**self._given)
        http.idle_seconds = self.idle_seconds
        http.connection_made(secure)
        self._http = http
        if self._early:
            http.data_received(bytes(self._early))

    def data_received(self, data: bytes) -> None:
        """What arrives with the end of the handshake waits for its HTTP side."""
        if self._http is None:
            self._early += data
        else:
            self._http.data_received(data)

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
        self._given["server_state"].connections.discard(self)
        if self._http is not None:
            self._http.connection_lost(exc)

    def shutdown(self) -> None:
        """uvicorn ends while hands are being shaken."""
        if self._task is not None:
            self._task.cancel()


def _address(transport: asyncio.BaseTransport) -> str:
    peer = transport.get_extra_info("peername")
    return f"{peer[0]}:{peer[1]}" if peer else "unknown"
