"""The server's part in a matching of people: it passes on boxes that it cannot open, and is told numbers.

The site with the label asks, the others answer (``secure.matching``). The server learns how many ids every site
brings, and how many people all know. A matching that stopped half-way is begun anew, with new secrets everywhere.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from unalike.data.sites.people import check_common, label_holder
from unalike.errors import UserError
from unalike.federation.asking import Asking
from unalike.federation.envelope import Envelope, Refused, shown
from unalike.federation.folders import ServerFolder, read_object
from unalike.federation.mail import unpack_mail
from unalike.federation.pairing import OCCASION, meet
from unalike.federation.plan import Plan
from unalike.federation.site_matching import ANSWER, ASK, BEGIN, FIND, HEAR, KEEP, READ, STEP
from unalike.federation.speaker import Speaker
from unalike.runs.files import atomic_write

T = TypeVar("T")
FILE = "matched.json"
_Mail = tuple[list[Any], bytes]


@dataclass(frozen=True)
class Matching:
    """What the server knows of a matching: how many ids each site brought, how many people are common."""

    session: str
    plan: str
    common: int
    sizes: dict[str, int]
    label_holder: str

    @classmethod
    def kept(cls, place: ServerFolder, plan: Plan) -> Matching | None:
        """The last matching by this plan, if there was one."""
        values = read_object(place.path / FILE)
        try:
            made = cls(**values)
        except TypeError:
            return None
        return made if made.plan == plan.digest else None


def match_people(plan: Plan, speaker: Speaker, place: ServerFolder, *, anew: bool = False) -> Matching:
    """Have the sites match their people, or, unless ``anew``, take the matching that was made before."""
    known = Matching.kept(place, plan)
    if known is not None and not anew:
        return known
    place.tell("matching people")
    made = _Round(plan, speaker, secrets.token_hex(16)).play()
    atomic_write(place.path / FILE, json.dumps(asdict(made)).encode())
    speaker.say(f"Matched: {made.common:,} people are known to all {len(plan.parties)} sites.")
    return made


class _Round:
    """One matching, from the first message to the last."""

    def __init__(self, plan: Plan, speaker: Speaker, session: str) -> None:
        self._plan, self._speaker, self._session = plan, speaker, session
        self._asking = Asking(speaker)
        self._keys: dict[str, str] = {}
        self._claims: dict[str, int] = {}

    def play(self) -> Matching:
        """All steps, and what came of them."""
        plan = self._plan
        holder = self._begin()
        meet(self._asking, self._keys, plan.parties, self._session)
        number, others = plan.number(holder), [name for name in plan.parties if name != holder]
        answers: dict[str, _Mail] = {}
        for name in others:  # one at a time: no message holds more than one site's points
            asked = self._step(ASK, {holder: plan.number(name)}, _mailed(plan.number(name)))[holder]
            answers |= self._step(ANSWER, {name: number}, _mailed(number), {name: _from(number, asked)})
        for name in others:
            mail = {holder: _from(plan.number(name), answers.pop(name))}
            self._step(HEAR, {holder: plan.number(name)}, lambda answer: None, mail)
        common = 0
        found: dict[str, Envelope] = {}
        for name in others:
            found[name] = self._step(FIND, {holder: plan.number(name)}, lambda answer: answer)[holder]
            common = _count(found[name])
            check_common(common, self._claims, plan.least_common)
        mail = {name: _from(number, _mailed(plan.number(name))(found[name])) for name in others}
        told = self._step(READ, dict.fromkeys(others, number), _count, mail)
        for name, count in {**told, **self._keep()}.items():
            if count != common:
                raise UserError(f"{name} found {count:,} common people and {holder} {common:,}. Match again.")
        return Matching(self._session, plan.digest, common, self._claims, holder)

    def _begin(self) -> str:
        """Begin the matching at every site; the name of the one that has the label."""
        plan, roster = self._plan, {name: key.hex() for name, key in self._speaker.roster.items()}
        header = {"kind": BEGIN, OCCASION: self._session, "roster": roster}
        told = self._everybody(dict.fromkeys(plan.parties, (header, b"")), self._offered)
        self._claims = {name: ids for name, (ids, _) in sorted(told.items())}
        holder = plan.parties[label_holder({name: has for name, (_, has) in told.items()}, plan.label)]
        if min(self._claims.values()) < plan.least_common:
            name = min(self._claims, key=lambda one: self._claims[one])
            raise UserError(
                f"{name} has {self._claims[name]:,} ids, fewer than least_common={plan.least_common:,}. Bring "
                "more people, or let all agree to a lower one."
            )
        return holder

    def _offered(self, name: str, message: Envelope) -> tuple[int, bool]:
        ids, has = message.header.get("ids"), message.header.get("label")
        if type(ids) is not int or not 0 < ids <= self._plan.most_ids or type(has) is not bool:
            raise Refused(f"it does not say that it brings 1 to {self._plan.most_ids:,} ids: {shown(ids, 40)}")
        return ids, has

    def _step(
        self,
        step: str,
        to: Mapping[str, int],
        use: Callable[[Envelope], T],
        mail: Mapping[str, _Mail] | None = None,
    ) -> dict[str, T]:
        """Have sites take a step, each with the number of the other site that it is about."""
        about = {"kind": STEP, "step": step, OCCASION: self._session, "keys": self._keys, "claims": self._claims}
        messages = {}
        for name, other in to.items():
            listed, body = (mail or {}).get(name, ([], b""))
            messages[name] = {**about, "other": other, "mail": listed}, body
        return self._everybody(messages, lambda _, message: use(message))

    def _keep(self) -> dict[str, int]:
        header = {"kind": KEEP, OCCASION: self._session}
        return self._everybody(
            dict.fromkeys(self._plan.parties, (header, b"")), lambda _, message: _count(message)
        )

    def _everybody(
        self, messages: dict[str, tuple[dict[str, Any], bytes]], use: Callable[[str, Envelope], T]
    ) -> dict[str, T]:
        self._asking.begin()
        return self._asking.collect(messages, use, len(messages))


def _mailed(to: int) -> Callable[[Envelope], _Mail]:
    """What reads the one piece of mail in an answer, which must be for that party."""

    def read(message: Envelope) -> _Mail:
        listed = message.header.get("mail")
        if set(unpack_mail(listed, message.body, (to,))) != {to}:
            raise Refused("it has no mail for the site that it was to write to")
        return listed, message.body  # type: ignore[return-value]

    return read


def _from(sender: int, mail: _Mail) -> _Mail:
    """The same mail as it reaches whom it is for: listed by its sender."""
    ((_, arrays),), body = mail
    return [[sender, arrays]], body


def _count(message: Envelope) -> int:
    common = message.header.get("common")
    if type(common) is not int or common < 0:
        raise Refused("it does not say how many people are common")
    return common
