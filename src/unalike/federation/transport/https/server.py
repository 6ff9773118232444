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
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from unalike.errors import UserError
from unalike.federation.transport import Failure
from unalike.federation.transport.https.admitted import Admitted
from unalike.federation.transport.https.desk import HERE, Desk, Question
from unalike.federation.transport.https.door import Connection, Door, Limits

GONE = 30.0
"""Seconds of silence after which a site that was asked counts as gone: the others do not wait for it."""
_LOOK = 0.1
_GRACE = 1.0
"""Seconds that requests have to end when the server does."""
_WAITING = 1024
"""Visitors that the kernel holds until it is their turn."""
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
        self.desk = Desk(most)
        self.door = Door(Admitted(folder), limits or Limits(), self._http)
        self._host, self._port = host, port
        self._server = uvicorn.Server(
            uvicorn.Config(
                self.desk,
                loop="asyncio",
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                log_level="critical",  # the door and the desk say what is wrong, once
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=math.ceil(self.door.limits.idle_seconds) + 1,
                h11_max_incomplete_event_size=self.door.limits.header_bytes,
            )
        )
        self._thread = threading.Thread(target=self._run, name="https", daemon=True)

    def __enter__(self) -> Self:
        self.door.admitted.context()  # what is wrong with the certificates is told here
        self._socket, self._loop = _listen(self._host, self._port), asyncio.new_event_loop()
        self._thread.start()
        self._on_loop(lambda: None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._on_loop(self._close)
        self._thread.join()
        self._socket.close()

    def nodes(self) -> list[int]:
        """The numbers of the parties that are connected now."""
        here = self._on_loop(lambda: [self.desk.silence(name) < HERE for name in self._parties])
        return [node for node, is_here in enumerate(here) if is_here]

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
                    self._on_loop(lambda: self._give_up_silent(asked))
                    continue
                del asked[self._parties[node]]
                yield node, answer
        finally:
            if not self._loop.is_closed():
                self._on_loop(lambda: self.desk.withdraw(asked))

    def _give_up_silent(self, asked: Mapping[str, Question]) -> None:
        for name, question in asked.items():
            if self.desk.silence(name) > GONE and self.desk.questions.get(name) is question:
                self.desk.withdraw({name: question})
                question.answered(None, "lost its connection")

    def _http(self, connection: Connection) -> asyncio.Protocol:
        return H11Protocol(self._server.config, self._server.server_state, {"connection": connection})

    def _run(self) -> None:
        async def serve() -> None:
            self._loop.set_exception_handler(_complain)
            self._receiving = self._loop.create_task(self.door.receive(self._socket))
            await self._server.serve(sockets=[])

        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(serve())

    def _close(self) -> None:
        self._receiving.cancel()
        self.desk.close()
        self._server.should_exit = True
        self._loop.call_later(_GRACE, self.door.close)

    def _on_loop(self, act: Callable[[], T]) -> T:
        """Do something where the desk lives; what it gives."""
        done: Future[T] = Future()

        def do() -> None:
            try:
                done.set_result(act())
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(do)
        return done.result(timeout=60)


def _complain(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Leave out what Python 3.11 complains of when a connection breaks just while its last bytes are sent."""
    if "_call_connection_lost" not in context["message"]:
        loop.default_exception_handler(context)


def _question(node: int, data: bytes, came: queue.SimpleQueue[tuple[int, bytes | Failure]]) -> Question:
    return Question(data, lambda answer, why: came.put((node, Failure(why) if answer is None else answer)))


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.create_server(address[:2], family=family, backlog=_WAITING)
    except OSError as error:
        raise UserError(
            f"Cannot listen at {host}:{port}: {error.strerror or error}. Is another server running? Give --listen "
            "where the machine's own address is another than the one that sites use."
        ) from error
    listener.setblocking(False)
    return listener
