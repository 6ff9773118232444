"""A site's part in a matching of people: what it sends of ids leaves it as powers of points, sealed for one other.

Each matching is a session with a secret of its own. Asked the same again, the site says the same; asked anything
else in the same step, it refuses: else a server could have more ids tried than a site may bring.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unalike.algorithms.protocol import Arrays, Turn, WrongMail, want
from unalike.data.columns import Column
from unalike.data.dataset import Array
from unalike.data.sites.ids import ids_digest, in_order
from unalike.errors import UserError
from unalike.federation.boxes import SiteBoxes
from unalike.federation.contents import digest_of
from unalike.federation.envelope import Envelope, Refused
from unalike.federation.folders import make_key, read_key
from unalike.federation.mail import pack_mail, unpack_mail
from unalike.federation.matched import Matched
from unalike.federation.once import Once
from unalike.federation.others import Others
from unalike.federation.pairing import occasion_of
from unalike.federation.plan import Plan
from unalike.federation.site_sums import Answer, SiteSums
from unalike.secure import hints
from unalike.secure.crypto.primitives import KEY_BYTES
from unalike.secure.errors import ProtocolError
from unalike.secure.matching import HintTable, Matcher, table_of

BEGIN, STEP, KEEP = "match-begin", "match-step", "match-keep"
"""Kinds of messages: bring ids; a step of the matching; store who was matched."""
ASK, ANSWER, HEAR, FIND, READ = "ask", "answer", "hear", "find", "read"
"""Steps: ask one other; answer the asking site; hear one answer; find who is common; read who is."""
TURNS = {ASK: 0, ANSWER: 1, HEAR: 2, FIND: 2, READ: 3}
"""What sealed mail of a step is bound to: who opens it does so one turn later."""
MOST_MATCHINGS = 50
"""So often a site lets its people be matched by one plan: each time, others may bring other ids."""


@dataclass
class _Session:
    """A matching that is under way at a site."""

    name: str
    matcher: Matcher
    rows: Array
    claims: dict[str, int] = field(default_factory=dict)
    heard: dict[int, tuple[bytes, HintTable]] = field(default_factory=dict)
    found: Array | None = None
    """places of common people among the ids"""
    mail: dict[int, bytes] = field(default_factory=dict)


@dataclass
class SiteMatching:
    """One site's part; ``workers`` is how many processes compute powers."""

    folder: Path
    name: str
    plan: Plan
    columns: Sequence[Column]
    once: Once
    others: Others
    sums: SiteSums
    tell: Callable[[str], None]
    workers: int = 1

    def __post_init__(self) -> None:
        self.number = self.plan.number(self.name)
        self._session: _Session | None = None
        _, ids = self.plan.people.rows(
            self.columns
        )  # what is wrong with them is told here, and never to the server
        if len(ids) > self.plan.most_ids:
            raise UserError(
                f"This table has {len(ids):,} ids; by the plan a site may bring {self.plan.most_ids:,} (most_ids)."
            )

    def begin(self, message: Envelope) -> Answer:
        """Take part in a new matching: tell how many ids this site brings, and whether it has the label."""
        name = occasion_of(message)
        if not name:
            raise Refused("it does not say which matching it begins")
        roster = self.others.check(message.header.get("roster"))
        why = f"this site's people were matched {MOST_MATCHINGS} times by this plan. Make a new plan"
        self.once.ask("matchings", name, why, MOST_MATCHINGS)
        self.others.keep(roster)
        if self._session is None or self._session.name != name:
            self._forget(but=name)
            path = self._key(name)
            make_key(path)
            rows, ids = self.plan.people.rows(self.columns)
            matcher = Matcher(bytes.fromhex(name), self.number, ids, read_key(path), self.workers)
            self._session = _Session(name, matcher, rows)
        has = self.plan.label in {column.name for column in self.columns}
        return {"ids": len(self._session.rows), "label": has}, b""

    def step(self, message: Envelope) -> Answer:
        """Take a step: mail of others comes in boxes, and leaves in boxes."""
        session = self._of(message)
        self._claim(session, message)
        step, other = message.header.get("step"), message.header.get("other")
        if step not in TURNS or type(other) is not int or not 0 <= other < len(self.plan.parties):
            raise Refused("it is no step of a matching")
        if other == self.number:
            raise Refused("it is mail of this site to itself")
        asked = digest_of(repr(sorted(session.claims.items())).encode(), message.body)
        why = "this site has taken the step with something else. Match again"
        self.once.ask(f"match {session.name} {step} {other}", asked, why)
        boxes = self.sums.boxes(message, bytes.fromhex(session.name))
        turn = Turn(0, TURNS[step], "train")
        try:
            inbox: Arrays = {}
            if step in (ANSWER, HEAR, READ):
                mail = unpack_mail(message.header.get("mail"), message.body, (other,))
                inbox = boxes.opened(turn, mail).get(other, {})
            said, header = self._take(session, step, other, inbox, boxes.pairs)
        except (ProtocolError, WrongMail) as error:
            raise Refused(self._named(error)) from None
        return self._sealed(boxes, turn, other, said, header)

    def keep(self, message: Envelope) -> Answer:
        """Store who was matched, once every site has found them."""
        session = self._of(message)
        if session.found is None:
            raise Refused("nobody was found in this matching yet")
        ids = session.matcher.ids
        order = in_order([ids[place] for place in session.found.tolist()])
        rows = session.rows[session.found[order]].tolist()
        Matched(session.name, self.plan.digest, ids_digest(ids), rows, session.claims).write(self.folder)
        self._key(session.name).unlink(missing_ok=True)
        self.sums.end(session.name)
        self.tell(f"Matched: {len(rows):,} of this site's {len(ids):,} people are known to all sites.")
        return {"common": len(rows)}, b""

    def _take(
        self, session: _Session, step: str, other: int, inbox: Arrays, keys: Mapping[int, bytes]
    ) -> tuple[Arrays, dict[str, Any]]:
        """What a step says to the other, and to the server; ``keys`` are those shared with the other sites."""
        matcher, sizes = session.matcher, session.claims
        if step == ASK:
            return {"points": _points(matcher.ask())}, {}
        if step == ANSWER:
            count = sizes[self.plan.parties[other]]
            asked = want({other: inbox}, other, "points", "uint8", (count, KEY_BYTES)).tobytes()
            points, table = matcher.answer(other, asked, {n: key for n, key in keys.items() if n != other})
            words = table.words.view(np.int64)
            return {"points": _points(points), "hints": words, "salt": np.array([table.salt])}, {}
        if step == HEAR:
            length = 3 * hints.third(sizes[self.plan.parties[other]])
            told = want({other: inbox}, other, "hints", "int64", (length, 2))
            listed: np.ndarray[Any, np.dtype[np.uint64]] = told.view(np.uint64)
            salt = int(want({other: inbox}, other, "salt", "int64", (1,))[0])
            points = want({other: inbox}, other, "points", "uint8", (len(matcher.ids), KEY_BYTES)).tobytes()
            session.heard[other] = points, table_of(other, salt, listed)
            return {}, {}
        if step == FIND:
            return self._find(session, other)
        found = matcher.read(other, want({other: inbox}, other, "people", "uint8", (None,)).tobytes())
        if len(found) < self.plan.least_common:
            raise Refused(f"{len(found):,} common people are fewer than the plan's {self.plan.least_common:,}")
        session.found = found
        return {}, {"common": len(found)}

    def _find(self, session: _Session, other: int) -> tuple[Arrays, dict[str, Any]]:
        """Whom all know, at the site that asked; too few it tells nobody."""
        if set(session.heard) != set(range(len(self.plan.parties))) - {self.number}:
            raise Refused("not all sites' answers have come yet")
        if not session.mail:
            session.found, session.mail = session.matcher.common(session.heard)
        assert session.found is not None
        common = len(session.found)
        if common < self.plan.least_common:
            session.found, session.mail = None, {}
            return {}, {"common": common}
        return {"people": np.frombuffer(session.mail[other], np.uint8)}, {"common": common}

    def _claim(self, session: _Session, message: Envelope) -> None:
        """How many ids every site brings, which all must be told alike, and before anything of them leaves."""
        told = message.header.get("claims")
        sizes = told.values() if isinstance(told, dict) and tuple(sorted(told)) == self.plan.parties else ()
        if (
            not isinstance(told, dict)
            or not sizes
            or not all(type(size) is int and 0 < size <= self.plan.most_ids for size in sizes)
        ):
            raise Refused(f"it does not say that every site brings 1 to {self.plan.most_ids:,} ids")
        if told[self.name] != len(session.rows) or (session.claims and session.claims != told):
            raise Refused("it says that sites bring other numbers of ids than before")
        if not session.claims:
            session.claims = dict(told)
            each = ", ".join(f"{name} {size:,}" for name, size in told.items() if name != self.name)
            self.tell(f"Matching people with {each} ids; this site brings {len(session.rows):,}.")

    def _sealed(self, boxes: SiteBoxes, turn: Turn, other: int, said: Arrays, header: dict[str, Any]) -> Answer:
        if not said:
            return header, b""
        listed, body = pack_mail(boxes.sealed(turn, {other: said}))
        return {**header, "mail": listed}, body

    def _of(self, message: Envelope) -> _Session:
        name = occasion_of(message)
        if self._session is None or self._session.name != name or not self._key(name).exists():
            raise Refused(
                "this matching is not under way here: it is over, or this site was restarted. Match again"
            )
        return self._session

    def _named(self, error: ProtocolError | WrongMail) -> str:
        """What is wrong with a party's mail, with its name."""
        number = error.party if isinstance(error, ProtocolError) else error.sender
        name = self.plan.parties[number] if number is not None and number >= 0 else "the server"
        return re.sub(r"^(Party \d+|The server)", name, str(error))

    def _key(self, session: str) -> Path:
        return self.folder / "keys" / f"match-{session}.key"

    def _forget(self, but: str) -> None:
        """Give up matchings that did not come to an end: their secrets serve nobody."""
        for path in self.folder.glob("keys/match-*.key"):
            old = path.stem.removeprefix("match-")
            if old != but:
                path.unlink(missing_ok=True)
                self.sums.end(old)


def _points(raw: bytes) -> Any:
    return np.frombuffer(raw, np.uint8).reshape(-1, KEY_BYTES)
