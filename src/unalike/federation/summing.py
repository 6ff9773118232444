"""Sums between real sites that hide single uploads: one trip for each step of the protocol in `unalike.secure`.

A site trains in the trip that sends its vector. It takes part only in sums of the parties that it agreed with,
each known by its key, and in one at a time; who vanishes on the way is recovered from the others' shares. Two sums
of one exchange over different parties would show the difference, which is one party's update: a site signs one
list of parties of an exchange, for good, and helps to open a sum only where as many have signed the same list as
``safe_threshold`` says. Of how many, the plan decides and never the server: all that it could ask in the exchange.
Neither may the server ask the others something that makes their vectors small: what is asked is part of the terms
of a sum, which are the same for all in it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unalike.channels.stage import Grid
from unalike.errors import UserError
from unalike.federation.envelope import Envelope, Refused
from unalike.federation.once import Once
from unalike.federation.speaker import Outgoing, Speaker
from unalike.secure import party as party_side
from unalike.secure import server as server_side
from unalike.secure.crypto import bfv
from unalike.secure.crypto.primitives import signing_public
from unalike.secure.errors import ProtocolError, TooFewParties
from unalike.secure.messages import Step, steps
from unalike.secure.party import PartyState
from unalike.secure.policy import Policy, Protect, new_session, safe_threshold

KIND, OPEN = "sum", "open"
MOST_SPOILT = 3
"""Sums under one key that a site tries to decrypt although they turn out not to be what the sites added."""
_ASKED = ("schema", "ask", "phase", "round", "turn", "most_rows", "of", "policy", "arrays")
"""What a header asks of all parties alike. What a party kept (``base``) is its own."""


@dataclass(frozen=True)
class Occasion:
    """What a sum is made for, such as an exchange: of each, sites open one sum. ``parties`` may be in it."""

    name: str
    parties: tuple[str, ...]


VectorOf = Callable[[Envelope], tuple[Occasion, Grid]]
"""What a site adds, from the message that asks for it, and on which occasion."""


@dataclass(frozen=True, eq=False)
class Protection:
    """How a sum is protected: masks over words of ``bits``, or ciphertexts under the key in ``context``."""

    bits: int = 0
    context: bfv.Context | None = None

    @property
    def name(self) -> Protect:
        """The name of this protection in a policy of the secure sum."""
        return "masks" if self.context is None else "fhe"

    @property
    def bound(self) -> int:
        """The largest sum that is exact."""
        return 2 ** (self.bits - 1) - 1 if self.context is None else bfv.HALF

    @property
    def fingerprint(self) -> bytes:
        """Of the key; none for masks."""
        return b"" if self.context is None else self.context.fingerprint


def secure_total(
    speaker: Speaker,
    messages: Outgoing,
    length: int,
    how: Protection,
    needed: int,
    cohort: int,
    kind: str = KIND,
    begun: Callable[[list[str]], None] = lambda names: None,
) -> tuple[list[str], Grid]:
    """The sum of the parties' grids, and whose are in it. ``messages`` is what each is asked to compute.

    By the plan ``cohort`` parties could be asked; ``messages`` may be for fewer. ``begun`` is told who is in the
    sum before anybody signs that: should it fail from then on, only a sum of the same parties can be made of this
    exchange, as sites refuse others. Raises TooFewParties where not enough stay, and ProtocolError, which names
    whose message was not right.
    """
    names, threshold = sorted(messages), safe_threshold(cohort)
    if len(names) < threshold:
        raise TooFewParties(f"Only {len(names)} parties are asked, a sum of {cohort} needs {threshold}.")
    policy = Policy(
        session=new_session(),
        protect=how.name,
        parties=len(names),
        length=length,
        bound=how.bound,
        threshold=threshold,
        identities=(*(speaker.roster[name] for name in names), signing_public(speaker.signer)),
        fingerprint=how.fingerprint,
        bits=how.bits,
        question=question(*next(iter(messages.values()))),
    )
    central = server_side.start(policy, context=how.context, signer=speaker.signer)
    say: dict[int, bytes] = dict.fromkeys(range(len(names)), policy.to_bytes())

    def trip(number: int, vector: bool) -> list[tuple[str, Envelope]]:
        out = {}
        for i, raw in say.items():
            header, body = messages[names[i]] if vector else ({}, b"")
            about = {"kind": kind, "step": number, "session": policy.session.hex(), "protocol": len(raw)}
            out[names[i]] = ({**header, **about}, raw + body)
        return list(speaker.ask(out, speaker.plan.deadline))

    for number, step in enumerate(steps(policy)):
        received = [(names.index(name), message.body) for name, message in trip(number, step is Step.VECTOR)]
        central, said = server_side.step(central, received)
        if step is Step.VECTOR and len(central.survivors) < needed:  # nobody has signed anything yet
            raise TooFewParties(f"Only {len(central.survivors)} vectors came, the quorum is {needed}.")
        if step is Step.VECTOR:
            begun([names[i] for i in central.survivors])
        say = dict(said)
    survivors = [names[i] for i in central.survivors]
    if central.total is not None:
        return survivors, central.total
    return survivors, _told(trip(len(steps(policy)), False), policy)


def question(header: Mapping[str, Any], body: bytes) -> bytes:
    """SHA-256 of what a party of a sum is asked to compute."""
    asked = json.dumps([header.get(key) for key in _ASKED], sort_keys=True).encode()
    return hashlib.sha256(hashlib.sha256(asked).digest() + body).digest()


def _told(answers: Sequence[tuple[str, Envelope]], policy: Policy) -> Grid:
    """The sum as the parties decrypted it: all must tell the same."""
    told = {name: message.body for name, message in answers}
    if len(told) < policy.threshold:
        raise TooFewParties(f"Only {len(told)} of {policy.parties} parties told the sum.")
    first = next(iter(told.values()))
    odd = [name for name, body in told.items() if body != first or len(body) != 8 * policy.length]
    if odd:
        raise ProtocolError(None, "tell different sums.", who=f"{', '.join(sorted(told))}")
    return np.frombuffer(first, "<i8").astype(np.int64)


class SiteSum:
    """A site's part in one sum after the other, of ``cohort`` parties by the plan and ``fewest`` at least."""

    def __init__(
        self,
        name: str,
        signer: bytes,
        roster: Mapping[str, bytes],
        server: bytes,
        how: Protection,
        cohort: int,
        fewest: int,
        once: Once,
    ) -> None:
        self._name, self._signer, self._roster, self._server, self._how = name, signer, roster, server, how
        self._threshold, self._fewest, self._once = safe_threshold(cohort), fewest, once
        self._state: PartyState | None = None
        self._step = 0
        self._occasion = Occasion("", ())

    def answer(self, message: Envelope, vector: VectorOf) -> tuple[dict[str, Any], bytes]:
        """The next message of the protocol; ``vector`` is called at the step that sends it."""
        header = message.header
        size, number = header.get("protocol"), header.get("step")
        if type(size) is not int or type(number) is not int or not 0 <= size <= len(message.body):
            raise Refused("it is not a step of a sum")
        raw, rest = message.body[:size], Envelope(header, message.body[size:])
        try:
            if number == 0:
                return {}, self._open(raw)
            state = self._state
            if state is None or state.policy.session.hex() != header.get("session") or number != self._step + 1:
                raise Refused("it belongs to a sum that this site takes no part in, or not any more")
            self._state = None  # a state is used once, also if what follows fails
            grid: Grid | None = None
            if state.needs_vector:
                if question(header, rest.body) != state.policy.question:
                    raise Refused(
                        "it asks this site something else than the terms of the sum, which all have, say"
                    )
                self._occasion, grid = vector(rest)
                self._check_invited(state.policy)
            decrypts = state.policy.encrypted and state.awaits is steps(state.policy)[-1]
            if decrypts:
                self._count_spoilt(state.policy)
            new, answer = party_side.step(state, raw, grid)
            if decrypts:
                self._once.forget(*_spoilt(state.policy))
            if state.awaits is Step.VECTOR:  # the answer is this site's signature under the survivors
                self._check_survivors(new)
            if new.total is not None:  # with ciphertexts it is the parties who can read the sum
                answer = new.total.astype("<i8").tobytes()
            self._state = new
        except ProtocolError as error:
            raise Refused(str(error)) from None
        self._step = number
        return {}, answer or b""

    def _check_invited(self, policy: Policy) -> None:
        """Refuse parties whom the plan does not ask on this occasion, and a session that this site was in before.

        The threshold is made for those whom the plan asks. Two vectors of a site under the same terms could take
        each other's place in a sum of ciphertexts, which would show their difference.
        """
        allowed = {self._roster[name] for name in self._occasion.parties}
        if not set(policy.identities[:-1]) <= allowed:
            raise Refused("the sum is with somebody who by the plan takes no part in this exchange")
        again = "this site has added its vector to this sum before; a sum that is made again has a new session"
        self._once.ask(f"session {policy.session.hex()}", secrets.token_hex(8), again)

    def _count_spoilt(self, policy: Policy) -> None:
        """Before a sum is decrypted, count it as spoilt, until it is found to be right.

        Whether a ciphertext that the server changed still decrypts tells something of the secret key: of a few
        thousand such answers it can compute the key, and read every update.
        """
        why = "too many sums under this key were spoilt: start the server again, and the sites deal new keys"
        self._once.ask(*_spoilt(policy), why, MOST_SPOILT)

    def _check_survivors(self, state: PartyState) -> None:
        """Enough to hide among, and on each occasion the same."""
        if len(state.survivors) < self._fewest:
            raise Refused(f"the sum is of {len(state.survivors)} parties, the plan needs {self._fewest}")
        parties = sorted(state.policy.identities[i].hex() for i in state.survivors)
        why = "this site agreed to a sum of this exchange over other parties: the difference would show one update"
        self._once.ask(f"sum {self._occasion.name}", hashlib.sha256("".join(parties).encode()).hexdigest(), why)

    def _open(self, raw: bytes) -> bytes:
        try:
            policy = Policy.from_bytes(raw)
        except (UserError, ValueError) as error:
            raise Refused(f"the terms of the sum are malformed: {error}") from None
        *parties, server = policy.identities
        known = set(self._roster.values())
        if server != self._server or not set(parties) <= known or len(set(parties)) != len(parties):
            raise Refused("the sum is with somebody whom this site has not agreed to")
        # A bound of the server's choice would tell it, by what is refused, how large this site's entries are.
        asked = (policy.protect, policy.bits, policy.fingerprint, policy.bound, policy.allow_two)
        if asked != (self._how.name, self._how.bits, self._how.fingerprint, self._how.bound, False):
            raise Refused(
                f"the sum is protected by {policy.protect}({policy.bits}), or another key or bound, not as agreed"
            )
        if policy.threshold != self._threshold:  # with a lower one, two different sums could have enough consents
            raise Refused(f"the sum's threshold is {policy.threshold}, by the plan it must be {self._threshold}")
        if len(parties) < self._fewest:
            raise Refused(f"the sum is of {len(parties)} parties, the plan needs {self._fewest}")
        own = self._roster[self._name]
        if own not in parties:
            raise Refused("the sum is without this site")
        self._state, hello = party_side.start(
            policy, parties.index(own), context=self._how.context, signer=self._signer
        )
        self._step = 0
        return hello


def _spoilt(policy: Policy) -> tuple[str, str]:
    """What a site remembers of a sum that it decrypts."""
    return f"spoilt {policy.fingerprint.hex()}", policy.session.hex()


__all__ = ["ProtocolError", "SiteSum", "TooFewParties", "secure_total"]
