"""A site's role in a protocol: mail of a turn in, what it says out. Between rounds its state is in the vault.

Within a round the state is in memory. A site that was started again says so, and the server plays the round again
from the last whole one: the same questions are answered with the same bytes, and no others are answered. What a
site has been told since the run began is chained into one hash. It is a part of the terms of every hidden sum, so
that sites that were told different things, even many rounds ago, add nothing but noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from unalike.algorithms.contract import Vectors
from unalike.algorithms.protocol import SERVER, SUM, Arrays, Inbox, Intent, Protocol, Say, Turn, WrongMail
from unalike.channels.stage import Grid
from unalike.federation.contents import ENVELOPE, digest_of, under, whole_number
from unalike.federation.envelope import Envelope, Refused, shown
from unalike.federation.letters import BITS
from unalike.federation.mail import Listed, after, mail_digest, pack_mail, unpack_mail
from unalike.federation.once import Once
from unalike.federation.pairing import OCCASION, SitePairs
from unalike.federation.plan import Plan
from unalike.federation.roles import SitePart, named
from unalike.federation.site_sums import Answer, SiteSums
from unalike.federation.summing import Occasion
from unalike.federation.vault import START, Vault, version_name
from unalike.rounds.conversation import MOST_TURNS, check_arrays, layout_of

TURN, WHOLE = "turn", "whole"
"""Kinds of messages: here is your mail of a turn; the round is whole, keep what you have."""
AGAIN = "again"
"""In an answer: this site is not where the server thinks, as after a restart; the round must be played again."""
BEGINS, PURPOSE = "begins", "purpose"
"""In a message: whether it is the first that this site gets in the round, and what the conversation is for."""
TO, FIGURES = "to", "figures"
"""In an answer: which site gets the sum of what is added, and figures of the site that has the labels."""
_HEADER = ("schema", "round", "turn", "told", "mail", BEGINS, PURPOSE, OCCASION)
_STATE, _TOLD = "state/", "told"


@dataclass(frozen=True, eq=False)
class Place:
    """Where a site is within a round: its state, what it was told until then, and what it said last."""

    round: int
    turn: int
    state: Arrays
    told: bytes
    before: bytes
    """what it was told before the last turn"""
    question: bytes
    said: Say


def round_version(round: int) -> str:
    """The version of a site's state after a round; before round 0 there is none."""
    return START if round < 0 else version_name(round, 0, 0)


class SiteTurns:
    """One site's role in one conversation, which trains a model or predicts by one."""

    def __init__(self, plan: Plan, part: SitePart, once: Once | None = None, purpose: Intent = "train") -> None:
        assert plan.protocol is not None
        self.protocol: Protocol = plan.protocol
        self.plan, self.part, self.me, self.number, self.spec = plan, part, part.me, part.me.number, plan.spec
        self.purpose, self.once = purpose, once
        self._roles = {SERVER, *range(len(plan.parties))} - {self.number}
        self.place: Place | None = None

    def round_of(self, message: Envelope) -> int:
        """The round that a message is about; 0 is what prepares."""
        round = whole_number(message.header, "round")
        if round > self.spec.rounds:
            raise Refused(f"it is of round {round}; the plan has {self.spec.rounds}")
        return round

    def answer(self, message: Envelope, vault: Vault, sums: SiteSums) -> Answer:
        """What the site says in a turn; asked the same again, it says the same."""
        round, number, told = self._asked(message)
        turn, listed = Turn(round, number, self.purpose), message.header.get("mail")
        inbox = self._read(message, turn, sums)
        question = mail_digest(round, number, listed or [], message.body)
        place = self.place
        if place is not None and (round, number, told, question) == _last(place):
            self._ask_once(message, place)
            return self._packed(message, place, sums)
        if message.header.get(BEGINS) is True:
            place = self._begin(round, number, told, inbox, vault)
        if place is None or (place.round, place.told) != (round, told) or place.turn >= number:
            return {AGAIN: True}, b""
        here = replace(place, turn=number, told=after(told, question), before=told, question=question)
        self._ask_once(message, here)
        try:
            state, said = self.protocol.step(self.me, place.state, turn, inbox)
        except WrongMail as error:
            raise named(error, self.plan) from None
        self._check(said)
        self.place = replace(here, state=state, said=said)
        return self._packed(message, self.place, sums)

    def keep(self, message: Envelope, vault: Vault) -> Answer:
        """Store the state after a whole round for good; those that nobody can name any more are removed."""
        if self.purpose != "train":
            raise Refused("what a site keeps while it predicts is thrown away")
        round, _, told = self._asked(message, turns=False)
        place, version = self.place, round_version(round)
        if place is None or place.round != round:  # it had no mail in this round, or was started again since
            state, known = self._loaded(round - 1, vault)
            place = Place(round, -1, state, known, b"", b"", Say())
        if place.told == told:
            kept: Vectors = {f"{_STATE}{key}": as_tensor(value) for key, value in place.state.items()}
            vault.save(version, {**kept, _TOLD: as_tensor(np.frombuffer(told, np.uint8))})
            vault.keep({version, round_version(round - 1)})
        elif version not in vault.versions or self._loaded(round, vault)[1] != told:
            return {AGAIN: True}, b""
        return {}, b""

    def state_after(self, round: int, vault: Vault) -> Arrays:
        """What the site keeps after a whole round."""
        return self._loaded(round, vault)[0]

    def _asked(self, message: Envelope, *, turns: bool = True) -> tuple[int, int, bytes]:
        """Round, turn, and what this site has been told before, as the server says."""
        header, known = message.header, _HEADER if turns else ("schema", "round", "told")
        if strange := sorted(set(header) - {*ENVELOPE, *known}):
            raise Refused(f"it says {shown(strange[0], 40)!r}, which a site works out itself or nobody asks")
        try:
            told = bytes.fromhex(header["told"])
        except (KeyError, TypeError, ValueError):
            raise Refused("it does not say what this site was told before") from None
        return self.round_of(message), whole_number(header, "turn", MOST_TURNS) if turns else 0, told

    def _read(self, message: Envelope, turn: Turn, sums: SiteSums) -> Inbox:
        """The mail in a message; what other sites sealed is opened before anything is kept of the question."""
        listed = message.header.get("mail")
        if not self.plan.splits_columns:
            return unpack_mail(listed, message.body, self._roles)
        inbox = unpack_mail(listed, message.body, {*self._roles - {SERVER}, SUM})  # the server has no say
        if turn.number and not inbox:
            raise Refused("in a turn after the first a site is only asked where it has mail")
        try:
            return sums.letters(message, self.part.session).opened(turn, inbox)
        except WrongMail as error:
            raise named(error, self.plan) from None

    def _begin(self, round: int, turn: int, told: bytes, inbox: Inbox, vault: Vault) -> Place:
        """The place before a round: from the state after the one before, whatever was begun since.

        To predict, a site begins from the state after the round that is named.
        """
        if (turn > 0 and not self.protocol.server_begins) or (turn == 0 and inbox):
            raise Refused("a round begins with turn 0, and without mail")
        state, known = self._loaded(round - 1 if self.purpose == "train" else round, vault)
        if self.purpose != "train":
            known = after(known, self.part.session)
        if known != told:
            raise Refused(
                "the server says that this site was told other things in earlier rounds than its folder knows of. "
                "Was one of the two folders replaced by an older one?"
            )
        return Place(round, -1, state, known, b"", b"", Say())

    def _loaded(self, round: int, vault: Vault) -> tuple[Arrays, bytes]:
        if round < 0:
            return self.protocol.start(self.me), self.part.first
        kept = vault.load(round_version(round))
        if _TOLD not in kept:
            raise Refused(f"the state after round {round} is not one of this protocol")
        return {key: value.numpy() for key, value in under(_STATE, kept).items()}, kept[_TOLD].numpy().tobytes()

    def _ask_once(self, message: Envelope, place: Place) -> None:
        """Refuse a further question on a turn, or the same to other rows; kept before anything is computed.

        What the site was told until then and its rows decide its state: a second answer is the first one's bytes.
        """
        if self.once is not None:
            why = (
                "this site has been asked something else in that turn, or with another table. A run is asked one "
                "question a turn: join anew in another folder"
            )
            asked = digest_of(self.part.rows.encode(), place.told)
            job = "" if self.purpose == "train" else f"{self.purpose} {self.part.session.hex()} "
            self.once.ask_all((f"{job}turn {place.round}-{place.turn}", asked, why, 1), number=message.number)

    def _check(self, said: Say) -> None:
        """What the protocol's own code says must be mail and integers, for roles that are there."""
        for receiver, arrays in said.mail.items():
            if receiver not in self._roles:
                raise Refused(f"{self.spec.algorithm} writes to role {receiver}, which is not there")
            check_arrays(self.number, arrays)
        if said.add is not None:
            layout_of(self.number, said.add)

    def _packed(self, message: Envelope, place: Place, sums: SiteSums) -> Answer:
        """What leaves: mail as it is, and what is added, under masks where the plan has them.

        Where sites have other columns, what is for one of them is in boxes, or under masks that it takes away.
        """
        if self.plan.splits_columns:
            turn = Turn(place.round, place.turn, self.purpose)
            listed, adds, body = sums.letters(message, self.part.session).packed(turn, place.said)
            about: dict[str, Any] = {"mail": listed} | ({} if adds is None else {"adds": adds, TO: place.said.to})
            return about | self._figures(place.said), body
        listed, body = pack_mail(place.said.mail)
        if place.said.add is None:
            return {"mail": listed}, body
        ((_, adds),), plain = pack_mail({SERVER: place.said.add})
        if self.plan.several_trips:  # the sum follows, in messages of its own
            return {"mail": listed, "adds": adds}, body
        if self.plan.one_trip is None:
            return {"mail": listed, "adds": adds}, body + plain
        grid = np.frombuffer(plain, "<i8").astype(np.int64)
        return {"mail": listed, "adds": adds}, body + self._hidden(sums.paired(), message, place, adds, grid)

    def _figures(self, said: Say) -> dict[str, Any]:
        """Figures of a round, which only who has the labels tells, and only where the plan says so."""
        holds, told = self.me.terms.label_holder == self.number, self.plan.figures != "none"
        if not (said.figures and holds and told and self.purpose == "train"):
            return {}
        return {FIGURES: {name: float(value) for name, value in sorted(said.figures.items())}}

    def grid(self, message: Envelope) -> tuple[Occasion, Grid]:
        """What this site adds to a sum in several trips: just what it said in the turn that the sum is of."""
        round, turn, place = self.round_of(message), whole_number(message.header, "turn", MOST_TURNS), self.place
        if place is None or (place.round, place.turn) != (round, turn) or place.said.add is None:
            raise Refused("it asks for the sum of a turn in which this site has said nothing to be added")
        ((_, adds),), plain = pack_mail({SERVER: place.said.add})
        if message.body != terms_of_sum(place.told, adds):
            raise Refused("the others were told, or add, something else than this site")
        name = f"{TURN} {round}-{turn} {place.told.hex()}"
        return Occasion(name, self.plan.parties), np.frombuffer(plain, "<i8").astype(np.int64)

    def _hidden(self, pairs: SitePairs, message: Envelope, place: Place, adds: Listed, grid: Grid) -> bytes:
        session, shared = pairs.told(message)
        return pairs.hide(session, shared, self.plan.parties, terms_of_sum(place.told, adds), grid, BITS)


def terms_of_sum(told: bytes, adds: Listed) -> bytes:
    """What all who add in a turn must have been told and add: what their masks are made of."""
    return digest_of(told, repr(adds).encode()).encode()


def _last(place: Place) -> tuple[int, int, bytes, bytes]:
    return place.round, place.turn, place.before, place.question


def as_tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """An array as a tensor with memory of its own, as files keep it."""
    return torch.from_numpy(np.array(array, order="C"))
