"""Where questions lie until sites fetch them, and answers come in: the application behind the door.

A site has at most one question, and every request is about that of its own, as its certificate says. ``GET
/v1/question`` waits until there is one and gives it; ``PUT /v1/answer/ID`` brings the answer, in pieces. Both go
on where they were cut off. All of it runs on one event loop; ``server`` calls from another thread.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from unalike.federation.transport.https.door import Connection, log

PIECE = 1 << 20
"""Bytes of an answer in one request, at most: what a site may make the server hold without asking for more."""
POLL = 25.0
"""Seconds that a request for a question waits: less than what middle boxes allow a silent connection."""
HERE = 5.0
"""Seconds for which a site counts as connected after its last request."""
QUESTION, LENGTH = b"question", b"length"
_CHUNK = 1 << 18
_MOST_NUMBER = 10**15
_NO_SITE_SENDS = {b"transfer-encoding", b"upgrade", b"expect"}

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Answered = Callable[[bytes | None, str], None]


class Refusal(Exception):
    """A request that is not served: the status, the reason, and how much of an answer is here.

    ``offence`` says that no site does this: it is logged, and the connection ends, as what was not read of the
    request would be taken for the next one. A reason has nothing in it that the other side chose.
    """

    def __init__(self, status: int, reason: str, have: int | None = None, offence: bool = True) -> None:
        super().__init__(reason)
        self.status, self.reason, self.offence = status, reason, offence
        self.headers = {} if have is None else {b"have": b"%d" % have}
        if offence:
            self.headers[b"connection"] = b"close"


class Gone(Exception):
    """The connection has ended, from whichever side: there is nobody to answer."""


@dataclass(eq=False)
class Question:
    """What one site is asked, and what has come of its answer."""

    data: bytes
    answered: Answered
    """is told the answer, or None and why there is none"""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    taken_by: str = ""
    """the site's process that has fetched it"""
    answer: bytearray = field(default_factory=bytearray)


@dataclass(eq=False)
class Request:
    """One request of a site, with what it was asked for in its address."""

    connection: Connection
    receive: Receive
    _send: Send
    length: int
    asked: Mapping[str, str]

    async def send(self, message: dict[str, Any]) -> None:
        """Send something, which the site has to take in time."""
        if self.connection.is_closing():
            raise Gone
        self._watch("it did not take its answer in time")
        await self._send(message)
        self.connection.stop_watching()

    async def reply(self, status: int, headers: Mapping[bytes, bytes], body: bytes = b"") -> None:
        """Answer the request with all there is."""
        length = {} if status == 204 else {b"content-length": b"%d" % len(body)}
        start = {"type": "http.response.start", "status": status, "headers": [*{**headers, **length}.items()]}
        await self.send(start)
        await self.send({"type": "http.response.body", "body": body})

    async def body(self, use: Callable[[bytes], None]) -> None:
        """Give the body as it comes: what has come counts, even if the rest does not."""
        self._watch("its body was not whole in time")
        left = self.length
        while left:
            event = await self.receive()
            if event["type"] == "http.disconnect":
                raise Gone
            use(part := event.get("body", b""))
            left -= len(part)

    async def gone(self) -> None:
        """Return when the site has hung up."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    def number(self, name: str, most: int) -> int:
        """The whole number that was given by a name, from 0 to ``most``."""
        text = self.asked.get(name, "")
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise Refusal(400, f"{name} is not a number")
        if int(text) > most:
            raise Refusal(413, f"{name} is more than {most:,}")
        return int(text)

    def _watch(self, offence: str) -> None:
        self.connection.watch(self.connection.door.limits.body_seconds, f"{self.connection.party}: {offence}")


class Desk:
    """The questions of all sites. ``most`` is how long an answer may be."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.questions: dict[str, Question] = {}
        self._new: dict[str, asyncio.Event] = {}
        self._waiting: Counter[str] = Counter()
        self._seen: dict[str, float] = {}
        self._closing = False

    def ask(self, questions: Mapping[str, Question]) -> None:
        """Lay questions on the desk, each in place of its party's last one."""
        for party, question in questions.items():
            self.questions[party] = question
            self._new.pop(party, asyncio.Event()).set()

    def withdraw(self, questions: Mapping[str, Question]) -> None:
        """Take questions away that nobody waits for any more; late answers are refused."""
        for party, question in questions.items():
            if self.questions.get(party) is question:
                del self.questions[party]

    def close(self) -> None:
        """Let those go who wait for a question: the server ends."""
        self._closing = True
        for new in self._new.values():
            new.set()

    def silence(self, party: str) -> float:
        """For how many seconds nothing has been heard of a site; none while it waits for a question."""
        if self._waiting[party]:
            return 0.0
        return asyncio.get_running_loop().time() - self._seen.get(party, float("-inf"))

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, as uvicorn calls it."""
        connection: Connection = scope["state"]["connection"]
        connection.request_begins()
        request = Request(connection, receive, send, 0, {})
        try:
            await self._serve(request, scope)
        except Refusal as refusal:
            if refusal.offence:
                connection.door.refused(connection.host, connection.port, f"{connection.party}: {refusal.reason}")
            await request.reply(refusal.status, refusal.headers, refusal.reason.encode())
        except Gone:
            await request.gone()
        except Exception:
            log.exception("A request of %s could not be served", connection.party)
            connection.refuse("")
            await request.gone()
        finally:
            connection.request_ends()

    async def _serve(self, request: Request, scope: dict[str, Any]) -> None:
        party = _admitted(request.connection)
        if scope["http_version"] != "1.1":
            raise Refusal(505, "not HTTP/1.1")
        target = len(scope["raw_path"]) + len(scope["query_string"])
        request.length = _length(scope["headers"], request.connection.door.limits.header_bytes - target)
        request.asked = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        method, path = scope["method"], scope["raw_path"].decode("latin-1")
        self._hear(party)
        try:
            if (method, path, request.length) == ("GET", "/v1/question", 0):
                await self._give(party, request)
            elif method == "PUT" and path.startswith("/v1/answer/"):
                await self._take(party, path.removeprefix("/v1/answer/"), request)
            else:
                raise Refusal(404, "asked for what is not served")
        finally:
            self._hear(party)

    def _hear(self, party: str) -> None:
        self._seen[party] = asyncio.get_running_loop().time()

    async def _give(self, party: str, request: Request) -> None:
        """The site's question, as soon as there is one that it has not had; 204 where there is none."""
        who, had = request.asked.get("process", ""), request.asked.get("had", "")
        if not (self._closing or self._fresh(party, who, had) or request.asked.get("wait") == "0"):
            await self._wait(party, request)
            _admitted(request.connection)
        question = self._fresh(party, who, had)
        if question is None:
            await request.reply(204, {})
            return
        question.taken_by = who
        length = len(question.data)
        begin = request.number("from", length) if request.asked.get("part") == question.id else 0
        headers = {QUESTION: question.id.encode(), LENGTH: b"%d" % length}
        headers[b"content-length"] = b"%d" % (length - begin)
        await request.send({"type": "http.response.start", "status": 200, "headers": [*headers.items()]})
        whole = memoryview(question.data)
        while begin < length:
            part = bytes(whole[begin : begin + _CHUNK])
            await request.send({"type": "http.response.body", "body": part, "more_body": True})
            begin += len(part)
            await asyncio.sleep(0)  # others have their turn, and a broken connection shows
        await request.send({"type": "http.response.body"})

    def _fail(self, party: str, question: Question, why: str) -> None:
        """Whoever waits for the answer is told that there will be none."""
        self.withdraw({party: question})
        question.answered(None, why)

    def _fresh(self, party: str, who: str, had: str) -> Question | None:
        """The question that this process of the site has still to answer."""
        question = self.questions.get(party)
        if question is None or question.id == had:
            return None
        if question.taken_by not in ("", who):  # the process that had it is gone, and so is its answer
            self._fail(party, question, "was started again before it answered, or is here twice")
            return None
        return question

    async def _wait(self, party: str, request: Request) -> None:
        """Until there is a new question, the site has gone, or the time is over."""
        new = self._new.setdefault(party, asyncio.Event())
        self._waiting[party] += 1
        tasks = [asyncio.ensure_future(new.wait()), asyncio.ensure_future(request.gone())]
        try:
            await asyncio.wait(tasks, timeout=POLL, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting[party] -= 1
            for task in tasks:
                task.cancel()

    async def _take(self, party: str, name: str, request: Request) -> None:
        """One piece of an answer. Only what goes on at the end of what is here is kept of it."""
        question = self.questions.get(party)
        if question is None or question.id != name:
            await request.body(lambda part: None)
            raise Refusal(410, "nobody waits for this answer any more", offence=False)
        total = request.number("of", _MOST_NUMBER)
        if total > self._most:
            self._fail(party, question, f"has an answer of more than {self._most:,} bytes, the plan's most_bytes")
            raise Refusal(413, f"an answer of more than {self._most:,} bytes")
        at = request.number("from", total)
        if at + request.length > total:
            raise Refusal(413, "a piece that is longer than the answer")

        def keep(part: bytes) -> None:
            nonlocal at
            if at == len(question.answer):
                question.answer.extend(part)
                at += len(part)

        await request.body(keep)
        if at != len(question.answer):  # or another connection of this site was faster
            raise Refusal(409, "another piece is due", have=len(question.answer), offence=False)
        if at == total and self.questions.get(party) is question:
            del self.questions[party]
            question.answered(bytes(question.answer), "")
        await request.reply(200, {})


def _admitted(connection: Connection) -> str:
    """Whose connection it is, if that site is still admitted."""
    if not connection.is_admitted():
        raise Refusal(403, "not admitted any more")
    return connection.party


def _length(headers: list[tuple[bytes, bytes]], most: int) -> int:
    """How long a request's body is, as its only length says."""
    names = Counter(name for name, _ in headers)
    if names.keys() & _NO_SITE_SENDS or names[b"content-length"] > 1:
        raise Refusal(400, "a header that no site sends")
    if sum(len(name) + len(value) + len(b": \r\n") for name, value in headers) > most:
        raise Refusal(431, "a header that is too long")
    length = int(dict(headers).get(b"content-length", b"0"))
    if length > PIECE:
        raise Refusal(413, f"a body of more than {PIECE:,} bytes")
    return length
