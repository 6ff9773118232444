"""The server's side of a protocol between real sites: mail of a turn goes out as messages, and sums come back.

All sites must answer: one that is missing is named, waited for and asked again, and nothing of a round that was
not whole is used. What sites add comes under masks where the plan says so: in the same trip as their mail, or in
five trips after it (``stepped``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unalike.algorithms.protocol import SERVER, SUM, Arrays, Inbox, Me, Protocol, Say, Turn, WrongMail
from unalike.errors import UserError
from unalike.federation.asking import Asking
from unalike.federation.envelope import Envelope, Refused, shown
from unalike.federation.letters import BITS, passed_on
from unalike.federation.mail import Listed, after, mail_digest, pack_mail, unpack_first, unpack_mail
from unalike.federation.pairing import OCCASION, meet
from unalike.federation.speaker import Outgoing
from unalike.federation.stepped import stepped_total
from unalike.federation.turns import AGAIN, BEGINS, FIGURES, TO, TURN, WHOLE, terms_of_sum
from unalike.secure import pairwise
from unalike.secure.crypto.primitives import signing_public
from unalike.secure.errors import ProtocolError
from unalike.secure.policy import new_session

MOST_FIGURES = 20
"""Of a round, from the site that has the labels."""


class LostPlace(Exception):
    """Sites are not where the server thinks, as after a restart: the round must be played again."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        super().__init__(", ".join(names))


@dataclass(frozen=True, eq=False)
class Heard:
    """What a site said in a turn: its mail, and the bytes of what it adds, with names and shapes."""

    mail: Mapping[int, Arrays]
    adds: Listed | None = None
    payload: bytes = b""
    to: int = SERVER
    """who gets the sum of what is added"""
    figures: Mapping[str, float] = field(default_factory=dict)


class SiteMail:
    """Carries the turns of one round: the server's step is made here, those of the parties at their sites.

    ``told`` is, by party, the hash of what it was told since the run began. ``keys`` are those for sums in one
    trip and for mail between sites that are known so far. ``about`` is what messages say beside: what the
    conversation is for, if not to train, and which job it is of, if not of the run.
    """

    def __init__(
        self,
        protocol: Protocol,
        me: Me,
        state: Arrays,
        asking: Asking,
        schema: str,
        told: Mapping[int, bytes],
        keys: dict[str, str],
        about: Mapping[str, str] | None = None,
    ) -> None:
        self._about = dict(about or {})
        self._protocol, self._me, self._asking, self._schema, self._keys = protocol, me, asking, schema, keys
        self._plan = asking.speaker.plan
        self.state, self.told, self._before = state, dict(told), dict(told)

    def turn(self, turn: Turn, inboxes: Mapping[int, Inbox]) -> Mapping[int, Say]:
        """Let the server and the sites that have an inbox make their steps, and bring back what they say."""
        said: dict[int, Say] = {}
        if SERVER in inboxes:
            said[SERVER] = self._own_step(turn, inboxes[SERVER])
        quiet = turn.number == 0 and self._protocol.server_begins
        asked = {number: inbox for number, inbox in inboxes.items() if number != SERVER and not quiet}
        if strangers := asked.keys() - set(range(len(self._plan.parties))):
            raise UserError(f"{self._plan.spec.algorithm} writes to party {min(strangers)}, which is not there.")
        if asked:
            heard = self._ask(turn, asked)
            said |= {number: Say(one.mail, figures=one.figures) for number, one in heard.items()}
            if adding := {number: one for number, one in heard.items() if one.adds is not None}:
                said[SUM] = Say(self._sums(turn, adding))
        return said

    def _own_step(self, turn: Turn, inbox: Inbox) -> Say:
        try:
            self.state, said = self._protocol.step(self._me, self.state, turn, inbox)
        except WrongMail as error:
            raise self._named(error) from None
        if said.mail and self._plan.splits_columns:
            raise UserError(
                f"{self._plan.spec.algorithm} has the server write to sites. Where sites have other columns, they "
                "read only what other sites have sealed. Choose another algorithm."
            )
        return said

    def _named(self, error: WrongMail) -> UserError:
        """The error, with the name of the site in place of its number."""
        if not 0 <= error.sender < len(self._plan.parties):
            return error
        return UserError(str(error).replace(f"Party {error.sender}", self._plan.parties[error.sender], 1))

    def _ask(self, turn: Turn, inboxes: Mapping[int, Inbox]) -> dict[int, Heard]:
        """What the sites say to their mail; all of them, however long it takes."""
        plan, names = self._plan, {number: self._plan.parties[number] for number in sorted(inboxes)}
        self._asking.begin()
        about: dict[str, Any] = {"kind": TURN, "schema": self._schema, "round": turn.round, "turn": turn.number}
        if plan.one_trip is not None or plan.splits_columns:
            meet(self._asking, self._keys, plan.parties, self._about.get(OCCASION, ""))
            self._session = new_session()
            about |= {"session": self._session.hex(), "keys": self._keys, **self._about}
        messages: dict[str, tuple[dict[str, Any], bytes]] = {}
        for number, name in names.items():
            listed, body = pack_mail(dict(inboxes[number]))
            own = {
                "told": self.told[number].hex(),
                "mail": listed,
                BEGINS: self.told[number] == self._before[number],
            }
            messages[name] = {**about, **own}, body
            self.told[number] = after(self.told[number], mail_digest(turn.round, turn.number, listed, body))
        self._asked, found = messages, self._answers(messages)
        return {number: found[name] for number, name in names.items()}

    def _answers(self, messages: Outgoing) -> dict[str, Heard]:
        found = self._asking.collect(messages, self._heard, len(messages))
        if lost := sorted(name for name, one in found.items() if one is None):
            raise LostPlace(lost)
        return {name: one for name, one in found.items() if one is not None}

    def _heard(self, name: str, answer: Envelope) -> Heard | None:
        """What a site says, if it can be that; None where it is not where it should be."""
        header, own = answer.header, self._plan.number(name)
        if header.get(AGAIN) is True:
            return None
        roles = {SERVER, *range(len(self._plan.parties))} - {own}
        mail, rest = unpack_first(header.get("mail"), answer.body, roles)
        adds: Any = header.get("adds")
        figures = self._figures(own, header.get(FIGURES))
        if adds is None:
            if rest:
                raise Refused("its mail does not fit its body")
            return Heard(mail, figures=figures)
        to = header.get(TO, SERVER)
        if self._plan.splits_columns:
            if type(to) is not int or to not in roles or to == SERVER:
                raise Refused("what it adds is for no other site")
            if len(rest) % (BITS // 8) or len(rest) <= pairwise.CHECKS * BITS // 8:
                raise Refused("what it adds is no vector under masks")
            return Heard(mail, adds, rest, to, figures)
        if self._plan.several_trips:
            _length(adds, self._plan.most_bytes // (BITS // 8))
            if rest:
                raise Refused("its mail does not fit its body")
        elif self._plan.one_trip is None:
            _integers(adds, rest)
        elif len(rest) % (BITS // 8) or len(rest) <= pairwise.CHECKS * BITS // 8:
            raise Refused("what it adds is no vector under masks")
        return Heard(mail, adds, rest)

    def _figures(self, own: int, told: Any) -> dict[str, float]:
        """Figures of a round, from the site that has the labels and from no other; finite numbers."""
        if told is None:
            return {}
        if own != self._me.terms.label_holder or self._plan.figures == "none":
            raise Refused("it tells figures, which by the plan it does not")
        fit = isinstance(told, dict) and all(
            isinstance(name, str) and type(value) is float and math.isfinite(value) for name, value in told.items()
        )
        if not fit or len(told) > MOST_FIGURES:
            raise Refused("its figures are no finite numbers, or too many")
        return {str(name)[:40]: value for name, value in told.items()}

    def _sums(self, turn: Turn, adding: Mapping[int, Heard]) -> dict[int, Arrays]:
        """By who gets it, the sum of what sites add; what is for a site stays noise to the server."""
        if not self._plan.splits_columns:
            return {SERVER: self._sum(turn, adding)}
        found, names = {}, self._plan.parties
        for to in sorted({one.to for one in adding.values()}):
            part = {number: one for number, one in adding.items() if one.to == to}
            if missing := sorted(set(range(len(names))) - part.keys() - {to}):
                raise UserError(f"{names[missing[0]]} adds nothing to the sum for {names[to]}: all others must.")
            found[to] = passed_on(self._check_alike(part), {number: one.payload for number, one in part.items()})
        return found

    def _sum(self, turn: Turn, adding: Mapping[int, Heard]) -> Arrays:
        """The sum of what the sites add, which the server may read."""
        adds: Any = self._check_alike(adding)
        if self._plan.one_trip is not None:
            return self._opened(adds, adding)
        if self._plan.several_trips:
            return self._stepped(turn, adds, adding)
        total = np.sum([np.frombuffer(one.payload, "<i8") for one in adding.values()], axis=0, dtype=np.int64)
        return _integers(adds, total.astype("<i8").tobytes())

    def _check_alike(self, adding: Mapping[int, Heard]) -> Listed:
        """The names and shapes of what sites add, which must be the same for all."""
        first = next(iter(adding))
        for number, one in adding.items():
            if (one.adds, len(one.payload)) != (adding[first].adds, len(adding[first].payload)):
                names = self._plan.parties
                raise UserError(
                    f"{names[number]} adds {shown(one.adds, 100)}, but {names[first]} adds "
                    f"{shown(adding[first].adds, 100)}."
                )
        adds: Any = adding[first].adds
        return adds  # type: ignore[no-any-return]

    def _opened(self, adds: Listed, adding: Mapping[int, Heard]) -> Arrays:
        """The sum without its masks, which cancel where all were told the same."""
        plan, speaker = self._plan, self._asking.speaker
        self._check_all_alike(adding)
        identities = [*(speaker.roster[name] for name in plan.parties), signing_public(speaker.signer)]
        length = len(adding[0].payload) // (BITS // 8) - pairwise.CHECKS
        asked = terms_of_sum(self.told[0], adds)
        try:
            policy = pairwise.terms(self._session, identities, length, asked, BITS)
            total = pairwise.total(policy, {number: one.payload for number, one in adding.items()})
        except ProtocolError as error:
            raise UserError(str(error)) from None
        return _integers(adds, total.astype("<i8").tobytes())

    def _stepped(self, turn: Turn, adds: Listed, adding: Mapping[int, Heard]) -> Arrays:
        """The sum in several trips, in which every site adds what it has just said that it adds."""
        self._check_all_alike(adding)
        about = {"schema": self._schema, "round": turn.round, "turn": turn.number}
        messages: Outgoing = dict.fromkeys(self._plan.parties, (about, terms_of_sum(self.told[0], adds)))
        length = sum(math.prod(shape) for _, _, shape in adds)
        total = stepped_total(self._asking, messages, length, BITS, lambda: self._answers(self._asked))
        return _integers(adds, total.astype("<i8").tobytes())

    def _check_all_alike(self, adding: Mapping[int, Heard]) -> None:
        """A hidden sum is one of all sites, which all were told the same."""
        plan = self._plan
        if missing := [name for number, name in enumerate(plan.parties) if number not in adding]:
            raise UserError(f"{missing[0]} adds nothing, but a hidden sum is one of all sites.")
        if len(set(self.told.values())) > 1:
            raise UserError(
                f"{plan.spec.algorithm} tells sites different things, but under masks they add only where all are "
                "told the same. Leave --channel masked out."
            )

    def whole(self, round: int) -> None:
        """Have every site keep its state: the round is whole."""
        messages = {
            name: ({"kind": WHOLE, "schema": self._schema, "round": round, "told": self.told[number].hex()}, b"")
            for number, name in enumerate(self._plan.parties)
        }
        found = self._asking.collect(
            messages, lambda name, answer: answer.header.get(AGAIN) is True, len(messages)
        )
        if lost := sorted(name for name, again in found.items() if again):
            raise LostPlace(lost)


def _length(adds: Any, most: int) -> int:
    """How many integers a site says that it adds, without any of them; or Refused."""
    try:
        length = sum(math.prod(shape) for _, _, shape in adds)
    except (TypeError, ValueError):
        length = 0
    if type(length) is not int or not 0 < length <= most:
        raise Refused(f"what it says that it adds is no vector of 1 to {most:,} integers")
    _integers(adds, bytes(length * BITS // 8))
    return length


def _integers(adds: Any, data: bytes) -> Arrays:
    """The arrays of integers in bytes, by their names and shapes; or Refused."""
    found = unpack_mail([[SUM, adds]], data, (SUM,))[SUM]
    if any(array.dtype != np.int64 for array in found.values()):
        raise Refused("it adds what is not int64")
    return found
