"""The server's transport: bytes to parties and bytes back, over the desk behind the guarded door."""

from __future__ import annotations

import asyncio
import math
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import uvicorn

from unalike.errors import UserError
from unalike.federation.transport import Failure
from unalike.federation.transport.https.admitted import Admitted
from unalike.federation.transport.https.desk import HERE, Desk, Question
from unalike.federation.transport.https.door import Door, Limits

GONE = 30.0
"""Seconds of silence after which a site that was asked counts as gone: the others do not wait for it."""
_LOOK = 0.1
T = TypeVar("T")


class HttpsServer:
    """The federation's port, open while it is entered; to the server's logic it is the transport.

    ``folder`` has the server's certificate and the admitted cards, ``parties`` are named as in the plan: a party's
    number is its place there.
    """

    def __init__(
        self, folder: Path, parties: Sequence[str], host: str, port: int, most: int, limits: Limits | None = None
    ) -> None:
        self._parties = list(parties)
        self.door = Door(Admitted(folder), limits or Limits())
        self.desk = Desk(self.door, most)
        self._host, self._port = host, port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="https", daemon=True)

    def __enter__(self) -> Self:
        self.door.admitted.context()  # what is wrong with the certificates is told here
        self._socket = _listen(self._host, self._port)
        limits = self.door.limits
        self._server = uvicorn.Server(
            uvicorn.Config(
                self.desk,
                http=self.door.protocol(),
                loop="asyncio",
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=math.ceil(limits.idle_seconds) + 1,
                timeout_graceful_shutdown=1,
                h11_max_incomplete_event_size=limits.header_bytes,
            )
        )
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise UserError(f"The server could not listen at {self._host}:{self._port}.")
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._on_loop(self.desk.close)
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def nodes(self) -> list[int]:
        """The numbers of the parties that are connected now."""
        there = self._on_loop(lambda: [name for name in self._parties if self.desk.silence(name) < HERE])
        return [self._parties.index(name) for name in there]

    def send(
        self, messages: Mapping[int, bytes], seconds: float, stop: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[int, bytes | Failure]]:
        """Ask each node, and give answers as they come, until all are there, time is over or ``stop`` says so.

        An answer belongs to its question: what comes after this ends is refused, and cannot turn up later.
        """
        if not (seconds > 0 and math.isfinite(seconds)):
            raise ValueError(f"an exchange needs a deadline, not {seconds} seconds")
        came: queue.SimpleQueue[tuple[int, bytes | Failure]] = queue.SimpleQueue()
        asked = {self._parties[node]: _question(node, data, came) for node, data in messages.items()}
        end = time.monotonic() + seconds
        self._on_loop(lambda: self.desk.ask(asked))
        try:
            while asked and not stop() and (left := end - time.monotonic()) > 0:
                try:
                    node, answer = came.get(timeout=min(_LOOK, left))
                except queue.Empty:
                    silent = self._on_loop(lambda: [name for name in asked if self.desk.silence(name) > GONE])
                    for name in silent:
                        self._on_loop(partial(self.desk.withdraw, {name: asked.pop(name)}))
                        yield self._parties.index(name), Failure("lost its connection")
                    continue
                del asked[self._parties[node]]
                yield node, answer
        finally:
            self._on_loop(lambda: self.desk.withdraw(asked))

    def _run(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await self._server.serve(sockets=[self._socket])

        asyncio.run(serve())

    def _on_loop(self, act: Callable[[], T]) -> T:
        """Do something where the desk lives; what it gives."""
        done: Future[T] = Future()

        def do() -> None:
            try:
                done.set_result(act())
            except BaseException as error:
                done.set_exception(error)

        assert self._loop is not None
        self._loop.call_soon_threadsafe(do)
        return done.result(timeout=60)


def _question(node: int, data: bytes, came: queue.SimpleQueue[tuple[int, bytes | Failure]]) -> Question:
    return Question(data, lambda _, answer, why: came.put((node, Failure(why) if answer is None else answer)))


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        raise UserError(
            f"Cannot listen at {host}:{port}: {error.strerror or error}. Is another server running? Give --listen "
            "where the machine's own address is another than the one that sites use."
        ) from error
