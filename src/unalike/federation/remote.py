"""Real sites as the parties of a run: an exchange is one message to each party and its answer, or its silence.

Who answers in time takes part, everybody else is absent; below the quorum the run pauses, says so, and asks those
who are missing again. Answers are used in party order, never in the order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch

from unalike.algorithms.contract import Vectors
from unalike.channels import Coded
from unalike.channels.errors import ChannelError
from unalike.channels.stage import Grid
from unalike.errors import UserError
from unalike.federation.asking import MOST_FAILURES, Asking
from unalike.federation.contents import BUFFERS, MESSAGE, PAYLOAD, UPLOAD, message_of, message_vectors
from unalike.federation.envelope import Envelope, Refused, pack
from unalike.federation.pairing import paired_total
from unalike.federation.speaker import Outgoing, Speaker
from unalike.federation.summing import Protection, ProtocolError, TooFewParties, secure_total
from unalike.federation.vault import START, version_name
from unalike.federation.weighing import check_single, check_weight, norm_of, update_in
from unalike.rounds.gather import Gathered, Receiver
from unalike.rounds.order import Order, Reply
from unalike.rounds.rehearse import Line, Script
from unalike.rounds.upload import layout_of
from unalike.rounds.worker import Worker


class Remote:
    """The parties of a run behind a transport: orders go out as messages, and sums come back.

    ``script_of`` gives what was rehearsed for a site, ``stand_in`` a made-up party in its place: with as many rows
    as that one agreed with.
    """

    name = "sites"

    def __init__(
        self,
        speaker: Speaker,
        schema: str,
        receiver: Receiver,
        script_of: Callable[[int], Script],
        stand_in: Callable[[int], Worker],
        protection: Protection | None = None,
    ) -> None:
        self.speaker, self.schema, self.receiver = speaker, schema, receiver
        self.script_of, self.stand_in, self.protection = script_of, stand_in, protection
        self.asking = Asking(speaker)
        self.accepted: dict[int, str] = {}
        """the version of each party's state that the server has accepted"""
        self.durable: dict[int, str] = {}
        """the same at the last checkpoint: a restarted server asks for these"""
        self.keys: dict[str, str] = {}
        """what each party has told as its key for sums in one trip"""
        self.unmasking: dict[str, list[str]] = {}
        """of each exchange whose sum began to be unmasked, who is in it"""
        self.keep_unmasking: Callable[[dict[str, list[str]]], None] = lambda known: None
        self.answered: dict[int, list[list[int]]] = {}
        """who answered, exchange by exchange of this round, and of round 0 where this is the first"""
        self.norms: list[dict[str, float]] = []
        """by exchange of this round, how long each party's upload is, where single ones are seen"""
        self._norm: dict[str, float] = {}

    def header(self, order: Order) -> dict[str, Any]:
        """What a party is told of an exchange, beside its payload."""
        number = order.party
        return {
            "kind": "exchange",
            "schema": self.schema,
            "ask": order.kind,
            "phase": order.phase,
            "round": order.round,
            "turn": order.turn,
            "base": self.accepted.get(number, START),
            "keep": sorted({self.accepted.get(number, START), self.durable.get(number, START)}),
            "version": version_name(order.round, order.turn, self.speaker.incarnation),
            "most_rows": order.most_rows,
        }

    def gather(self, orders: Sequence[Order]) -> Gathered:
        """The sums over those who answered."""
        self.asking.begin()
        self._norm = {}
        asked = {self.speaker.plan.parties[order.party]: order for order in orders}
        messages = self._packed(asked)
        if self.receiver.recipe.wire is not None and self.receiver.recipe.wire.channel.hides_single:
            gathered = self._summed(asked, messages)
        else:
            found = self.asking.collect(messages, lambda party, message: self._reply(party, asked[party], message))
            gathered = self.receiver.add(orders, list(found.values()))
        first = orders[0]
        for number in gathered.answered:
            self.accepted[number] = version_name(first.round, first.turn, self.speaker.incarnation)
        self.answered.setdefault(first.round, []).append(list(gathered.answered))
        self.norms.append(dict(sorted(self._norm.items())))
        return gathered

    def _packed(self, asked: Mapping[str, Order]) -> Outgoing:
        """A message to each party, with its own rows and nobody else's; what several are sent is packed once."""
        messages: dict[str, tuple[dict[str, Any], bytes]] = {}
        packed: dict[Hashable, tuple[Any, bytes]] = {}
        for party, order in asked.items():
            going = self.outgoing(order)
            # Two views of one row are two tensors, but the same memory.
            place = tuple((key, v.data_ptr(), v.dtype, v.shape, v.stride()) for key, v in going.items())
            if place not in packed:
                packed[place] = pack(going)
            arrays, body = packed[place]
            messages[party] = ({**self.header(order), "arrays": arrays}, body)
        return messages

    def outgoing(self, order: Order) -> Vectors:
        """What a party is sent in an exchange."""
        arrays: Vectors = {f"{PAYLOAD}{key}": value for key, value in order.payload.items()}
        if not self.receiver.recipe.keeps_statistics and order.buffers.numel():
            arrays[BUFFERS] = order.buffers
        return arrays

    def _summed(self, asked: Mapping[str, Order], messages: Outgoing) -> Gathered:
        """A sum that is made out of sight: in one trip where all must answer, else in several."""
        plan, recipe, order = self.speaker.plan, self.receiver.recipe, next(iter(asked.values()))
        wire, upload, masked = recipe.wire, self._line(order).upload, plan.one_trip
        assert wire is not None
        length = wire.channel.grid_length(layout_of(recipe, order, upload), wire.setting(order, None))
        if masked is not None:
            names, total = list(messages), paired_total(self.asking, self.keys, messages, length, masked.bits)
        else:
            names, total = self._of_those_who_stay(messages, length, f"{order.round}-{order.turn}")
        return self.receiver.of_grid(order, upload, sorted(plan.number(name) for name in names), total)

    def _of_those_who_stay(self, messages: Outgoing, length: int, occasion: str) -> tuple[list[str], Grid]:
        """Whose vectors are in a sum that bears drop-outs, and the sum: asked for until enough are in it."""
        speaker, plan = self.speaker, self.speaker.plan
        needed, failures = plan.needed(len(messages)), 0
        assert self.protection is not None
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
                    return names, total
                self.asking.pause(messages, names, needed)
            except TooFewParties:
                self.asking.pause(messages, [name for name in messages if name not in speaker.problems], needed)
            except ProtocolError as error:
                known = error.party is not None and error.party >= 0
                who = sorted(messages)[error.party or 0] if known else "nobody that is known"
                speaker.say(f"The sum failed, because of {who}: {error}")
                failures += 1
                if failures >= MOST_FAILURES:
                    raise UserError(f"{who}: {error}") from None
                if known and occasion not in self.unmasking and len(messages) > needed:  # the others go on
                    messages = {name: message for name, message in messages.items() if name != who}

    def note_unmasking(self, occasion: str, names: list[str]) -> None:
        """Keep, before anything is unmasked, who is in an exchange's sum; also for a restarted server."""
        self.unmasking[occasion] = names
        self.keep_unmasking(self.unmasking)

    def _line(self, order: Order) -> Line:
        """The exchange as it was rehearsed."""
        return self.script_of(order.party).of(order.round)[order.turn]

    def _reply(self, party: str, order: Order, message: Envelope) -> Reply:
        """The reply in an answer, if it is one that this exchange can have."""
        recipe, line, worker = self.receiver.recipe, self._line(order), self.stand_in(order.party)
        if recipe.wire is not None:
            channel = recipe.wire.channel
            layout = layout_of(recipe, order, line.upload)
            try:
                opened = channel.decode(message.body, layout, recipe.wire.setting(order, order.party))
            except ChannelError as error:
                raise Refused(str(error)) from None
            if not channel.uniform_weights:
                check_weight(worker, order, opened.weight)
            if channel.tells_single:
                self._norm[party] = norm_of(opened.vectors)
            return Reply(order.party, Coded(data=message.body), line.upload, order.state)
        arrays = message.vectors()
        sent, shown_alone = {k: v for k, v in arrays.items() if k.startswith(MESSAGE)}, None
        if _layout(sent) != _layout(message_vectors(line.message)):
            raise Refused(f"it has {_shapes(sent)}, not {_shapes(message_vectors(line.message))}")
        made = message_of(sent)
        check_weight(worker, order, made.weight)
        if recipe.algorithm.needs_each:
            shown_alone = {k.removeprefix(UPLOAD): v for k, v in arrays.items() if k.startswith(UPLOAD)}
            if _layout(shown_alone) != _layout(line.upload):
                raise Refused(f"it uploads {_shapes(shown_alone)}, not {_shapes(line.upload)}")
            check_single(recipe, made, shown_alone)
        self._norm[party] = norm_of(update_in(worker, order, made))
        return Reply(order.party, made, line.upload, order.state, single=shown_alone)


def _layout(vectors: Vectors) -> tuple[tuple[str, torch.dtype, tuple[int, ...]], ...]:
    return tuple((key, value.dtype, tuple(value.shape)) for key, value in sorted(vectors.items()))


def _shapes(vectors: Vectors) -> dict[str, tuple[int, ...]]:
    return {key.removeprefix(MESSAGE): tuple(value.shape) for key, value in sorted(vectors.items())}
