"""The only process that strangers can reach: it passes the ten requests that a node makes, and nothing else.

Flower serves nodes, control and its own processes on one port, and control has no login. So the link listens on
loopback, and this proxy, with the server's certificate, in front of it. A request is read as a whole, checked, and
made anew for the link: what is forwarded is never what a stranger wrote, so there is nothing to smuggle. Every
refusal is one line in the log, with the peer's address. HTTP is spoken by h11 (strict) under uvicorn and by httpx.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import sys
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from unalike.federation.transport.flower.handshake import TlsProtocol, log

PREFIX = b"/v1/fleet/"
REQUESTS = frozenset(
    b"activate-node deactivate-node send-node-heartbeat pull-messages push-messages get-run get-fab "
    b"push-object pull-object confirm-message-received".split()
)
"""What a node with a registered key asks for. Registering oneself is not in the list."""
_PASSED = frozenset(
    b"content-type accept flwr-public-key flwr-signature flwr-timestamp flwr-package-name flwr-package-version "
    b"flwr-component-name".split()
)
_RETURNED = frozenset({b"content-type"})

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class Limits:
    """What the proxy bears. Flower cuts arrays into pieces of 5 MB, so a body is never much longer."""

    body: int = 8 << 20
    all_bodies: int = 256 << 20
    header: int = 16 << 10
    connections: int = 200
    handshake_seconds: float = 10.0
    request_seconds: float = 120.0
    idle_seconds: float = 30.0


class RequestRefused(Exception):
    """A request that is not passed on: the status and the reason for the log."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Filter:
    """The ASGI application: check, forward, answer."""

    def __init__(self, upstream: httpx.AsyncClient, limits: Limits) -> None:
        self._upstream, self._limits = upstream, limits
        self._held = 0

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request: refuse it with the reason, or pass it on to the link and its answer back."""
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served")
        length = 0
        try:
            length = check(scope, self._limits)
            if self._held + length > self._limits.all_bodies:
                length = 0
                raise RequestRefused(503, "too much is being received at once")
            self._held += length
            async with asyncio.timeout(self._limits.request_seconds):
                body = await _read(receive, length)
            await self._forward(scope, body, send)
        except RequestRefused as refused:
            await _refuse(scope, send, refused)
        except TimeoutError:
            await _refuse(scope, send, RequestRefused(408, "the request took too long"))
        except ConnectionError as error:
            log.warning("%s broke off: %s", peer(scope), error)
        finally:
            self._held -= length

    async def _forward(self, scope: dict[str, Any], body: bytes, send: Send) -> None:
        headers = [(name, value) for name, value in scope["headers"] if name in _PASSED]
        path = scope["raw_path"].decode("ascii")
        try:
            answer = await self._upstream.post(path, content=body, headers=headers)
        except httpx.HTTPError as error:
            raise RequestRefused(502, f"the link does not answer ({type(error).__name__})") from error
        if answer.status_code in (401, 412, 422) or answer.status_code >= 500:
            log.warning("%s: the link answered %d to %s", peer(scope), answer.status_code, path)
        kept = [(name.lower(), value) for name, value in answer.headers.raw if name.lower() in _RETURNED]
        await _answer(send, answer.status_code, kept, answer.content)


def check(scope: dict[str, Any], limits: Limits) -> int:
    """The length of the body of a request that may pass; ``RequestRefused`` for any other."""
    path, headers = scope["raw_path"], scope["headers"]
    if not (path.startswith(PREFIX) and path[len(PREFIX) :] in REQUESTS) or scope["query_string"]:
        raise RequestRefused(403, "not a node's request")
    if scope["method"] != "POST" or scope["http_version"] != "1.1":
        raise RequestRefused(403, "not a node's method or version")
    names = [name for name, _ in headers]
    for name in (b"transfer-encoding", b"upgrade", b"expect", b"content-encoding", b"trailer"):
        if name in names:
            raise RequestRefused(403, f"the header {name.decode()} is not used by nodes")
    lengths = [value for name, value in headers if name == b"content-length"]
    if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > 12:
        raise RequestRefused(403, "one content-length is needed")
    if any(names.count(name) > 1 for name in _PASSED):
        raise RequestRefused(403, "a header comes twice")
    length = int(lengths[0])
    if length > limits.body:
        raise RequestRefused(413, f"a body of {length} bytes is longer than {limits.body}")
    return length


def peer(scope: dict[str, Any]) -> str:
    """Address and port of whoever sent the request, for the log."""
    client = scope.get("client")
    return f"{client[0]}:{client[1]}" if client else "unknown"


async def _read(receive: Receive, length: int) -> bytes:
    parts: list[bytes] = []
    while True:
        event = await receive()
        if event["type"] != "http.request":
            raise ConnectionError("the body did not come")
        parts.append(event.get("body", b""))
        if not event.get("more_body"):
            break
    body = b"".join(parts)
    if len(body) != length:
        raise RequestRefused(400, "the body's length is not the stated one")
    return body


async def _refuse(scope: dict[str, Any], send: Send, refused: RequestRefused) -> None:
    target = scope["raw_path"][:200] + (b"?..." if scope["query_string"] else b"")
    log.warning("%s refused %d %s %r: %s", peer(scope), refused.status, scope["method"], target, refused.reason)
    # Its body may still be on the way: the connection is not used again.
    await _answer(
        send, refused.status, [(b"connection", b"close"), (b"content-type", b"text/plain")], b"refused\n"
    )


async def _answer(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


async def serve(listen: str, port: int, upstream: str, certificates: Path, limits: Limits) -> None:
    """Serve until the process is told to end."""
    trusted = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    pool = httpx.Limits(max_connections=limits.connections, max_keepalive_connections=20)
    async with httpx.AsyncClient(
        base_url=upstream, verify=trusted, trust_env=False, timeout=limits.request_seconds, limits=pool
    ) as client:
        config = uvicorn.Config(
            Filter(client, limits),
            host=listen,
            port=port,
            http=TlsProtocol.bound(server_context(certificates), limits.handshake_seconds, limits.idle_seconds),
            ws="none",
            loop="asyncio",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=limits.header,
            limit_concurrency=limits.connections,
            timeout_keep_alive=int(limits.idle_seconds),
            timeout_graceful_shutdown=2,
        )
        await uvicorn.Server(config).serve()


def server_context(certificates: Path) -> ssl.SSLContext:
    """TLS 1.2 and newer with the server's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    context.set_alpn_protocols(["http/1.1"])
    return context


def main() -> None:
    """Run the proxy as a process of its own, until it is told to end."""
    parser = ArgumentParser()
    for name in ("--listen", "--port", "--upstream", "--certificates"):
        parser.add_argument(name, required=True)
    parser.add_argument("--limits", type=json.loads, default={})
    given = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stdout,
        format="%(asctime)s %(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S%z",
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)
    asyncio.run(
        serve(given.listen, int(given.port), given.upstream, Path(given.certificates), Limits(**given.limits))
    )
