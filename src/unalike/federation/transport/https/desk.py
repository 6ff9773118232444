"""Where questions lie until sites fetch them, and answers come in: the application behind the door.

A site has at most one question, and every request is about that of its own, as its certificate says. ``GET
/v1/question`` waits until there is one and gives it; ``PUT /v1/answer/ID`` brings the answer, in pieces. Both go
on where they were cut off. All of it runs on one event loop; ``server`` calls from another thread.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from unalike.federation.transport.https.door import CONNECTION, Door

PIECE = 1 << 20
"""Bytes of an answer in one request, at most: with the time for a body, no more than so much is ever lost."""
POLL = 25.0
"""Seconds that a request for a question waits: less than what middle boxes allow a silent connection."""
HERE = 5.0
"""Seconds for which a site counts as connected after its last request."""
QUESTION, LENGTH = b"question", b"length"
_CHUNK = 1 << 18

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Answered = Callable[[str, bytes | None, str], None]


class Refusal(Exception):
    """A request that is not served: the status, the reason, and what the site has to know to go on."""

    def __init__(self, status: int, reason: str, have: int | None = None, offence: bool = True) -> None:
        super().__init__(reason)
        self.status, self.reason, self.have, self.offence = status, reason, have, offence


@dataclass(eq=False)
class Question:
    """What one site is asked, and what has come of its answer."""

    data: bytes
    answered: Answered
    """is told the question's id, and the answer or why there is none"""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    taken_by: str = ""
    """the site's process that has fetched it"""
    answer: bytearray = field(default_factory=bytearray)


class Desk:
    """The questions of all sites. ``most`` is how long an answer may be."""

    def __init__(self, door: Door, most: int) -> None:
        self._door, self._most = door, most
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
        """Answer one request of a site, or say why not."""
        connection = CONNECTION.get()
        connection.request_begins()
        party = connection.party
        try:
            if party not in self._door.admitted.names():
                raise Refusal(403, f"{party} is not admitted any more")
            self._seen[party] = asyncio.get_running_loop().time()
            await self._serve(party, scope, receive, send)
        except Refusal as refusal:
            if refusal.offence:
                self._door.refused(connection.host, connection.port, f"{party}: {refusal.reason}")
            have = {} if refusal.have is None else {b"have": b"%d" % refusal.have}
            # A body that was not read would be taken for the next request: such a connection ends.
            end = {b"connection": b"close"} if refusal.offence else {}
            await _reply(send, refusal.status, have | end, refusal.reason.encode())
        finally:
            self._seen[party] = asyncio.get_running_loop().time()
            connection.request_ends()

    async def _serve(self, party: str, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        path, length = scope["raw_path"], _length(scope["headers"])
        if length > PIECE:
            raise Refusal(413, f"a body of {length:,} bytes; {PIECE:,} are allowed")
        asked = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if (scope["method"], path) == ("GET", b"/v1/question") and not length:
            await self._give(party, asked, receive, send)
        elif scope["method"] == "PUT" and path.startswith(b"/v1/answer/"):
            await self._take(party, path.removeprefix(b"/v1/answer/").decode("latin-1"), asked, receive, length)
            await _reply(send, 200, {}, b"")
        else:
            raise Refusal(404, f"asked for {scope['method'][:10]} {path[:60]!r}, which is not served")

    async def _give(self, party: str, asked: Mapping[str, str], receive: Receive, send: Send) -> None:
        """The site's question, as soon as there is one that it has not had; 204 where there is none."""
        who, had = asked.get("process", ""), asked.get("had", "")
        if not (self._closing or self._fresh(party, who, had) or asked.get("wait") == "0"):
            await self._wait(party, receive)
        question = self._fresh(party, who, had)
        if question is None:
            await _reply(send, 204, {}, b"")
            return
        question.taken_by = who
        begin = _whole(asked.get("from"), len(question.data)) if asked.get("part") == question.id else 0
        length = len(question.data) - begin
        headers = {
            QUESTION: question.id.encode(),
            LENGTH: b"%d" % len(question.data),
            b"content-length": b"%d" % length,
        }
        await send({"type": "http.response.start", "status": 200, "headers": list(headers.items())})
        whole = memoryview(question.data)
        for at in range(begin, len(whole), _CHUNK):
            last = at + _CHUNK >= len(whole)
            async with _in_time(self._door.limits.body_seconds, "it did not take its question in time"):
                await send(
                    {"type": "http.response.body", "body": bytes(whole[at : at + _CHUNK]), "more_body": not last}
                )
        if begin == len(whole):
            await send({"type": "http.response.body"})

    def _fresh(self, party: str, who: str, had: str) -> Question | None:
        """The question that this process of the site has still to answer."""
        question = self.questions.get(party)
        if question is None or question.id == had:
            return None
        if question.taken_by not in ("", who):  # the process that had it is gone, and so is its answer
            del self.questions[party]
            question.answered(question.id, None, "was started again before it answered")
            return None
        return question

    async def _wait(self, party: str, receive: Receive) -> None:
        """Until there is a new question, the site has gone, or the time is over."""
        new = self._new.setdefault(party, asyncio.Event())
        self._waiting[party] += 1
        tasks = [asyncio.ensure_future(new.wait()), asyncio.ensure_future(_gone(receive))]
        try:
            await asyncio.wait(tasks, timeout=POLL, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting[party] -= 1
            for task in tasks:
                task.cancel()

    async def _take(self, party: str, name: str, asked: Mapping[str, str], receive: Receive, length: int) -> None:
        """One piece of an answer."""
        question = self.questions.get(party)
        total = _whole(asked.get("of"), self._most)
        if question is None or question.id != name:
            await _read(receive, length, self._door.limits.body_seconds, bytearray())
            raise Refusal(410, "nobody waits for this answer any more", offence=False)
        if _whole(asked.get("from"), total) != len(question.answer):
            await _read(receive, length, self._door.limits.body_seconds, bytearray())
            raise Refusal(409, "another piece is due", have=len(question.answer), offence=False)
        if len(question.answer) + length > total:
            raise Refusal(413, "a piece that is longer than the answer")
        await _read(receive, length, self._door.limits.body_seconds, question.answer)
        if len(question.answer) == total and self.questions.get(party) is question:
            del self.questions[party]
            question.answered(question.id, bytes(question.answer), "")


async def _reply(send: Send, status: int, headers: Mapping[bytes, bytes], body: bytes) -> None:
    length = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*headers.items(), *length]})
    await send({"type": "http.response.body", "body": body})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read(receive: Receive, length: int, seconds: float, into: bytearray) -> None:
    """Append a body to ``into`` as it comes: what has come counts, even if the rest does not."""
    async with _in_time(seconds, "its body was not whole in time"):
        while length:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise Refusal(400, "it was cut off", offence=False)
            into += event.get("body", b"")
            length -= len(event.get("body", b""))


@asynccontextmanager
async def _in_time(seconds: float, offence: str) -> AsyncIterator[None]:
    """What takes longer ends the request and its connection."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        CONNECTION.get().refuse(offence)
        raise Refusal(408, offence) from None


def _length(headers: list[tuple[bytes, bytes]]) -> int:
    """How long a request's body is, as its only length says."""
    names = Counter(name for name, _ in headers)
    if names[b"transfer-encoding"] or names[b"upgrade"] or names[b"expect"] or names[b"content-length"] > 1:
        raise Refusal(400, "a header that no site sends")
    return _whole(next((value.decode() for name, value in headers if name == b"content-length"), "0"), 2**40)


def _whole(text: str | None, most: int) -> int:
    """The whole number in a request, from 0 to ``most``."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) < 16) or int(text) > most:
        raise Refusal(
            413 if text and text.isdigit() else 400, f"{str(text)[:20]!r} is not a number up to {most:,}"
        )
    return int(text)
