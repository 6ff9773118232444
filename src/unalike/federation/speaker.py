"""The server's voice: it signs, numbers and sends messages, and knows which node is which party by its key."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from unalike.errors import UserError
from unalike.federation.envelope import ANYBODY, SERVER, Envelope, Refused, peek, read, shown, write
from unalike.federation.plan import Plan

_HELLO_SECONDS = 60.0
MOST_WAIT = 600.0
"""Seconds until a node that did not say who it is is asked again, at most."""
SAYS, WRONG = "says:", "sent an answer that is not accepted:"
"""How a problem begins that asking again may not mend."""
Outgoing = Mapping[str, tuple[dict[str, Any], bytes]]
"""By party, a message's header and body."""


class Transport(Protocol):
    """Carries bytes to nodes and back. Which party a node is, it does not know."""

    def nodes(self) -> list[int]:
        """The nodes that are connected now."""
        ...

    def send(
        self, messages: Mapping[int, bytes], seconds: float, stop: Callable[[], bool]
    ) -> Iterator[tuple[int, bytes | Any]]:
        """Answers as they come, until all did, time is over or ``stop``; what is not bytes has a ``reason``."""
        ...


class Stopped(UserError):
    """The run was asked to stop."""


@dataclass
class Speaker:
    """The server's voice: signs, numbers and sends messages, and knows which node is which party.

    ``roster`` has the parties' public keys: who signed an answer is who it is from, whatever it claims and on
    whichever node. ``incarnation`` counts the server's starts, so that numbers only ever grow.
    """

    plan: Plan
    transport: Transport
    signer: bytes = field(repr=False)
    roster: Mapping[str, bytes]
    incarnation: int
    say: Callable[[str], None] = lambda line: None
    stopped: Callable[[], bool] = lambda: False
    _count: int = 0
    _nodes: dict[str, int] = field(default_factory=dict)
    _strangers: dict[int, tuple[float, float]] = field(default_factory=dict)
    """when a node that is nobody may be asked again, and how long that is from the last time"""
    problems: dict[str, str] = field(default_factory=dict)
    """why a party's last answer was not used"""
    sent_by: Counter[str] = field(default_factory=Counter)
    """bytes that came, by party"""
    sent_to: Counter[str] = field(default_factory=Counter)
    """bytes that went, by party"""
    heard: dict[str, list[int]] = field(default_factory=dict)
    """by party, the number of the last message that it answered: a site whose folder is older than that says so"""
    slowest: dict[str, float] = field(default_factory=dict)
    """seconds of the answer that a party took longest for, since somebody emptied this"""
    waits: Callable[[Sequence[str]], None] = lambda parties: None
    """is told for whom a paused training waits; for nobody, once it goes on"""

    def ask(
        self, messages: Mapping[str, tuple[dict[str, Any], bytes]], seconds: float
    ) -> Iterator[tuple[str, Envelope]]:
        """Send each party its message and give the good answers as they come."""
        self.meet(list(messages))
        sent: dict[int, str] = {}
        numbers: dict[str, list[int]] = {}
        outgoing: dict[int, bytes] = {}
        for party, (header, body) in messages.items():
            if party not in self._nodes:
                continue  # meet() has said why
            raw, numbers[party] = self._sealed(party, header, body)
            sent[self._nodes[party]], outgoing[self._nodes[party]] = party, raw
        if not outgoing:
            return
        for node, party in sent.items():
            self.sent_to[party] += len(outgoing[node])
            self.problems[party] = "did not answer in time"
        began = time.monotonic()
        for node, answer in self.transport.send(outgoing, seconds, self.stopped):
            party = sent.pop(node, "")  # one answer each
            message = self._opened(party, numbers[party], answer) if party else None
            if message is not None:
                self.slowest[party] = max(self.slowest.get(party, 0.0), time.monotonic() - began)
                self.problems.pop(party, None)
                self.heard[party] = numbers[party]
                yield party, message
        if self.stopped():
            raise Stopped("The run was stopped; the same command goes on from the last whole round.")

    def meet(self, wanted: Sequence[str]) -> None:
        """Find out which nodes the wanted parties are on: those that are new are asked who they are."""
        there = set(self.transport.nodes())
        self._nodes = {party: node for party, node in self._nodes.items() if node in there}
        if all(party in self._nodes for party in wanted):
            return
        self.problems |= {party: "is not connected" for party in wanted if party not in self._nodes}
        now, strangers = time.monotonic(), there - set(self._nodes.values())
        self._strangers = {node: known for node, known in self._strangers.items() if node in strangers}
        unknown = [node for node in strangers if now >= self._strangers.get(node, (now, 0))[0]]
        if unknown:
            self._greet(unknown, wanted)

    def _greet(self, unknown: Sequence[int], wanted: Sequence[str]) -> None:
        """Ask nodes who they are until the wanted parties are found; who is nobody is asked ever more rarely."""
        raw, number = self._sealed(ANYBODY, {"kind": "hello"}, b"")

        def enough() -> bool:
            return self.stopped() or all(party in self._nodes for party in wanted)

        nobody = set(unknown)
        for node, answer in self.transport.send(dict.fromkeys(unknown, raw), _HELLO_SECONDS, enough):
            party = _claimed(answer)
            if party not in self.plan.parties or self._opened(party, number, answer) is None:
                continue
            if party in self._nodes:
                self.say(f"{party} is here twice: one of the two is not asked. Stop one of them.")
                continue
            self._nodes[party] = node
            self.problems.pop(party, None)
            self.say(f"{party} is here.")
            nobody.discard(node)
        if enough():
            return  # the others may not have had the time
        now = time.monotonic()
        for node in nobody:
            wait = min(2 * self._strangers.get(node, (0, _HELLO_SECONDS / 4))[1], MOST_WAIT)
            self._strangers[node] = now + wait, wait

    def _sealed(self, party: str, header: dict[str, Any], body: bytes) -> tuple[bytes, list[int]]:
        self._count += 1
        number = [self.incarnation, self._count]
        envelope: dict[str, Any] = {
            "sender": SERVER,
            "receiver": party,
            "plan": self.plan.digest,
            "number": number,
        }
        heard = {who: last for who, last in self.heard.items() if party in (who, ANYBODY)}
        envelope |= {"heard": heard} if heard else {}
        raw = write(Envelope({**header, **envelope}, body), self.signer)
        if len(raw) > self.plan.most_bytes:  # sites would not even fetch it
            raise UserError(
                f"A message to {party} has {len(raw):,} bytes, the plan's most_bytes are "
                f"{self.plan.most_bytes:,}. Make a federation that allows more."
            )
        return raw, number

    def _opened(self, party: str, number: list[int], answer: bytes | Any) -> Envelope | None:
        """The answer, if the party signed it and it answers this message; else the reason is noted."""
        if not isinstance(answer, bytes):
            self.problems[party] = f"failed: {shown(getattr(answer, 'reason', answer))}"
            return None
        self.sent_by[party] += len(answer)
        try:
            message = read(answer, self.roster, SERVER, self.plan.most_bytes)
            if message.sender != party:
                raise Refused(f"{message.sender} signed an answer of {party}")
            if message.header.get("answers") != number:
                raise Refused("it answers another message")
            if message.kind == "error":
                self.problems[party] = f"{SAYS} {shown(message.header.get('reason'))}"
                return None
            return message
        except Refused as error:
            self.problems[party] = f"{WRONG} {shown(error)}"
            return None


def _claimed(answer: bytes | Any) -> str:
    """Who an answer says that it is from."""
    try:
        return peek(answer).sender if isinstance(answer, bytes) else ""
    except Refused:
        return ""
