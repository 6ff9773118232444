"""What the same TLS stack does with plain bytes: uvicorn and httpx as they are, with the same certificates."""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import uvicorn

CHUNK = 1 << 18
"""Bytes that are handed over at once, as the transport does: a single large write is slower."""


class PlainServer:
    """Gives everybody the same bytes at one moment, takes what they bring, and says how long that took.

    ``files`` has the names server.pem, server.key and sites.pem, the certificates that are accepted.
    """

    def __init__(self, files: Path, port: int, clients: int) -> None:
        self._clients, self._data, self._came = clients, b"", 0
        self._waiting: list[asyncio.Event] = []
        self._all = threading.Event()
        config = uvicorn.Config(
            self._answer,
            host="127.0.0.1",
            port=port,
            http="h11",
            loop="asyncio",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            ssl_keyfile=str(files / "server.key"),
            ssl_certfile=str(files / "server.pem"),
            ssl_ca_certs=str(files / "sites.pem"),
            ssl_cert_reqs=ssl.CERT_REQUIRED,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger("uvicorn.error").disabled = True  # those who wait are cut off
        self._server.force_exit = self._server.should_exit = True
        self._thread.join(5)

    @property
    def waiting(self) -> int:
        """How many clients wait for the bytes."""
        return len(self._waiting)

    def exchange(self, data: bytes) -> float:
        """Seconds until everybody has the bytes and has brought its own."""
        while self.waiting < self._clients:
            time.sleep(0.001)
        self._data, self._came, waiting, self._waiting = data, 0, self._waiting, []
        self._all.clear()
        began = time.perf_counter()
        for event in waiting:
            self._loop.call_soon_threadsafe(event.set)
        self._all.wait(60)
        return time.perf_counter() - began

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve()

    async def _answer(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body = b""
        if scope["method"] == "GET":
            event = asyncio.Event()
            self._waiting.append(event)
            await event.wait()
            body = self._data
        else:
            while (await receive()).get("more_body"):
                pass
        length = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": length})
        for at in range(0, max(1, len(body)), CHUNK):
            more = at + CHUNK < len(body)
            await send({"type": "http.response.body", "body": body[at : at + CHUNK], "more_body": more})
        if scope["method"] == "PUT":
            self._came += 1
            if self._came == self._clients:
                self._all.set()


def fetch_and_bring(port: int, context: ssl.SSLContext, answer: Callable[[bytes], bytes]) -> None:
    """A client: takes bytes whenever it is given some, and brings others, until it is ended."""
    base = f"https://127.0.0.1:{port}"
    with httpx.Client(base_url=base, verify=context, timeout=None, trust_env=False) as client:
        while True:
            given = client.get("/file").raise_for_status().content
            client.put("/file", content=answer(given)).raise_for_status()
