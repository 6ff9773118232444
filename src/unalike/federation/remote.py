"""The server's engine for real sites: an exchange is one message to each party and its answer, or its silence.

Who answers in time takes part, everybody else is absent; below the quorum the run pauses, says so, and asks those
who are missing again. Answers are used in party order, never in the order of arrival.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from unalike.algorithms.contract import Vectors
from unalike.channels import Coded
from unalike.channels.errors import ChannelError
from unalike.engines.sequential import Sequential
from unalike.errors import UserError
from unalike.federation.envelope import Envelope, Refused, pack, shown
from unalike.federation.rows import Elsewhere
from unalike.federation.speaker import SAYS, WRONG, Outgoing, Speaker, Stopped
from unalike.federation.summing import Protection, ProtocolError, TooFewParties, secure_total
from unalike.federation.vault import START, version_name
from unalike.federation.weighing import check_single, check_weight, norm_of, update_in
from unalike.federation.work import BUFFERS, MESSAGE, PAYLOAD, UPLOAD
from unalike.rounds.exchange import ENGINE, Exchange, Reply
from unalike.rounds.upload import Encoded, Wire, layout_of
from unalike.rounds.work import LocalWork

PAUSE = 5.0
"""Seconds between looks at who is there, where too few answered."""
REMIND = 600.0
"""Seconds until the same line is said again: a site may be away for weeks."""
MOST_FAILURES = 3
"""Secure sums of one exchange that may fail because of somebody's wrong message."""


class Remote:
    """Runs an exchange on the sites."""

    name = "flower"

    def __init__(self, speaker: Speaker, schema: str, protection: Protection | None = None) -> None:
        self.speaker, self.schema, self.protection = speaker, schema, protection
        self.accepted: dict[int, str] = {}
        """the version of each party's state that the server has accepted"""
        self.durable: dict[int, str] = {}
        """the same at the last checkpoint: a restarted server asks for these"""
        self._wrong: dict[str, int] = {}
        """how often in a row a party's answer could not be used"""
        self.unmasking: dict[str, list[str]] = {}
        """of each exchange whose sum began to be unmasked, who is in it"""
        self.keep_unmasking: Callable[[dict[str, list[str]]], None] = lambda known: None
        self._told: dict[str, float] = {}
        """when a line was said last in this exchange"""
        self.answered: list[list[int]] = []
        """who answered, by exchange of this round"""
        self.norms: list[dict[str, float]] = []
        """by exchange of this round, how long each party's upload is, where single ones are seen"""
        self._norm: dict[str, float] = {}

    def header(self, exchange: Exchange, number: int) -> dict[str, Any]:
        """What a party is told of an exchange, beside its payload."""
        return {
            "kind": "exchange",
            "schema": self.schema,
            "ask": exchange.ask.kind,
            "phase": exchange.ask.phase,
            "round": exchange.round,
            "turn": exchange.turn,
            "base": self.accepted.get(number, START),
            "keep": sorted({self.accepted.get(number, START), self.durable.get(number, START)}),
            "version": version_name(exchange.round, exchange.turn, self.speaker.incarnation),
            "most_rows": exchange.federation.most_rows,
        }

    def exchange(self, exchange: Exchange) -> list[Reply]:
        """The replies of those who answered, in party order."""
        plan = self.speaker.plan
        self._told, self._norm = {}, {}
        self._expected = self._outline(exchange)
        arrays, body = pack(outgoing(exchange))
        messages = {}
        for number in exchange.cohort:
            messages[plan.parties[number]] = ({**self.header(exchange, number), "arrays": arrays}, body)
        if exchange.wire is not None and exchange.wire.channel.hides_single:
            replies = self._summed(exchange, exchange.wire, messages)
        else:
            found = self.collect(messages, lambda party, message: self._reply(exchange, party, message))
            replies = {plan.number(party): made for party, made in found.items()}
        for number in replies:
            self.accepted[number] = version_name(exchange.round, exchange.turn, self.speaker.incarnation)
        self.answered.append(sorted(replies))
        self.norms.append(dict(sorted(self._norm.items())))
        return [replies[number] for number in sorted(replies)]

    def _summed(self, exchange: Exchange, wire: Wire, messages: Outgoing) -> dict[int, Reply]:
        """One reply for each party in the sum; the first has the sum of all, as nobody has a single one."""
        speaker, plan = self.speaker, self.speaker.plan
        assert self.protection is not None
        upload = self._expected.upload
        head = 0 if wire.channel.uniform_weights else 1 + exchange.trains
        zeros = np.zeros(layout_of(exchange, upload).size + head, np.int64)
        needed, failures = plan.needed(len(messages)), 0
        assert wire.channel.hidden is not None
        length = len(wire.channel.hidden.split(zeros, wire.cohort))
        occasion = f"{exchange.round}-{exchange.turn}"
        while True:
            begun = self.unmasking.get(occasion)
            if begun is not None:  # sites help to unmask one sum of an exchange: it must be of the same parties
                messages, needed = {name: messages[name] for name in begun}, len(begun)
            try:
                names, total = secure_total(
                    speaker,
                    messages,
                    length,
                    self.protection,
                    needed,
                    plan.cohort,
                    begun=lambda names: self.note_unmasking(occasion, names),
                )
                if len(names) >= needed:
                    break
                self._pause(messages, names, needed)
            except TooFewParties:
                self._pause(messages, [name for name in messages if name not in speaker.problems], needed)
            except ProtocolError as error:
                known = error.party is not None and error.party >= 0
                who = sorted(messages)[error.party or 0] if known else "nobody that is known"
                speaker.say(f"The sum failed, because of {who}: {error}")
                failures += 1
                if failures >= MOST_FAILURES:
                    raise UserError(f"{who}: {error}") from None
                if known and occasion not in self.unmasking and len(messages) > needed:  # the others go on
                    messages = {name: message for name, message in messages.items() if name != who}
        numbers = sorted(plan.number(name) for name in names)
        grids = [Coded(grid=total), *([Coded()] * (len(numbers) - 1))]
        made = zip(numbers, grids, strict=True)
        return {
            number: Reply(number, {}, upload, {}, None, Encoded(coded, {}, is_sum=True)) for number, coded in made
        }

    def note_unmasking(self, occasion: str, names: list[str]) -> None:
        """Keep, before anything is unmasked, who is in an exchange's sum; also for a restarted server."""
        self.unmasking[occasion] = names
        self.keep_unmasking(self.unmasking)

    def _outline(self, exchange: Exchange) -> Reply:
        """What a party's reply looks like: a party that does not exist answers the same ask on made-up rows."""
        federation = exchange.federation
        assert isinstance(federation, Elsewhere)
        pretended = replace(
            exchange,
            cohort=[0],
            federation=federation.pretended,
            state_of=lambda number: exchange.algorithm.init_party(federation.task, federation.task.initial()),
            own_buffers=None if exchange.own_buffers is None else {},
            work=LocalWork(2, steps=1),
            wire=None,
        )
        (reply,) = Sequential().exchange(pretended)
        return replace(reply, upload={key: value.to("meta") for key, value in reply.upload.items()})

    def collect(
        self, messages: Outgoing, use: Callable[[str, Envelope], Reply], needed: int | None = None
    ) -> dict[str, Reply]:
        """Ask until enough have answered; ``use`` refuses an answer that cannot be used."""
        speaker, plan = self.speaker, self.speaker.plan
        needed = plan.needed(len(messages)) if needed is None else needed
        found: dict[str, Reply] = {}
        while True:
            missing = {party: message for party, message in messages.items() if party not in found}
            for party, message in speaker.ask(missing, plan.deadline):
                try:
                    found[party] = use(party, message)
                except Refused as error:
                    speaker.problems[party] = f"{WRONG} {shown(error)}"
            for party in messages:
                if party not in found:
                    self._say(f"{party} {speaker.problems.get(party, 'did not answer')}.")
            if len(found) >= needed:
                return found
            self._pause(messages, found, needed)

    def everybody(self, messages: Outgoing, needed: int | None = None) -> dict[str, Envelope]:
        """Every party's answer: where nobody may be missing, or not more than leave ``needed`` answers."""
        found: dict[str, Envelope] = {}

        def keep(party: str, message: Envelope) -> Reply:
            found[party] = message
            return Reply(self.speaker.plan.number(party), {}, {}, {})

        self.collect(messages, keep, len(messages) if needed is None else needed)
        return found

    def _pause(self, messages: Outgoing, found: Collection[str], needed: int) -> None:
        speaker = self.speaker
        said = {party: speaker.problems.get(party, "") for party in messages if party not in found}
        self._wrong = {party: self._wrong.get(party, 0) + 1 for party in said if said[party].startswith(WRONG)}
        if said and all(
            problem.startswith(SAYS) or self._wrong.get(party, 0) >= MOST_FAILURES
            for party, problem in said.items()
        ):
            first, problem = next(iter(said.items()))  # asking again would bring the same answer
            raise UserError(f"{first} {problem}")
        self._say(
            f"Paused: {len(found)} of {len(messages)} parties answered, the quorum is {needed}. Waiting for "
            f"{', '.join(said)}."
        )
        end = time.monotonic() + PAUSE
        while time.monotonic() < end and not speaker.stopped():
            time.sleep(0.1)
        if speaker.stopped():
            raise Stopped("The run was stopped; the same command goes on from the last whole round.")

    def _say(self, line: str) -> None:
        """To the log, but not what was just said in this exchange."""
        now = time.monotonic()
        if now - self._told.get(line, -REMIND) >= REMIND:
            self._told[line] = now
            self.speaker.say(line)

    def _reply(self, exchange: Exchange, party: str, message: Envelope) -> Reply:
        """The reply in an answer, if it is one that this exchange can have."""
        number, expected = self.speaker.plan.number(party), self._expected
        if exchange.wire is not None:
            layout = layout_of(exchange, expected.upload)
            channel = exchange.wire.channel
            try:
                opened = channel.decode(message.body, layout, exchange.wire.setting(exchange.turn, None))
            except ChannelError as error:
                raise Refused(str(error)) from None
            if not channel.uniform_weights:
                check_weight(exchange, number, opened.weight)
            if channel.tells_single:
                self._norm[party] = norm_of(opened.vectors)
            return Reply(number, {}, expected.upload, {}, None, Encoded(Coded(data=message.body), {}))
        arrays = message.vectors()
        sent = {k.removeprefix(MESSAGE): v for k, v in arrays.items() if k.startswith(MESSAGE)}
        if _layout(sent) != _layout(expected.message):
            raise Refused(f"it has {_shapes(sent)}, not {_shapes(expected.message)}")
        check_weight(exchange, number, float(sent[f"{ENGINE}weight"]))
        upload = expected.upload
        if exchange.algorithm.needs_each:
            upload = {k.removeprefix(UPLOAD): v for k, v in arrays.items() if k.startswith(UPLOAD)}
            if _layout(upload) != _layout(expected.upload):
                raise Refused(f"it uploads {_shapes(upload)}, not {_shapes(expected.upload)}")
            check_single(exchange, sent, upload)
        self._norm[party] = norm_of(update_in(exchange, number, sent))
        return Reply(number, sent, upload, {})


def outgoing(exchange: Exchange) -> Vectors:
    """What a party is sent in an exchange."""
    arrays: Vectors = {f"{PAYLOAD}{key}": value for key, value in exchange.ask.payload.items()}
    if exchange.own_buffers is None and exchange.buffers.numel():
        arrays[BUFFERS] = exchange.buffers
    return arrays


def _layout(vectors: Vectors) -> tuple[tuple[str, torch.dtype, tuple[int, ...]], ...]:
    return tuple((key, value.dtype, tuple(value.shape)) for key, value in sorted(vectors.items()))


def _shapes(vectors: Vectors) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in sorted(vectors.items())}
