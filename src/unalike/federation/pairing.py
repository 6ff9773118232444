"""Hidden sums in one trip between real sites, where all that are asked must answer (``secure.pairwise``).

The server asks each site once a run for its key, and hands the keys out with every question. A site is told
nothing else of a sum: who is in it follows from the plan, how long it is and what was asked from its own work. So
a server that tells two sites different things gets noise, since their masks do not cancel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from unalike.channels.stage import Grid
from unalike.federation.asking import Asking
from unalike.federation.envelope import Envelope, Refused
from unalike.federation.folders import make_key, read_key
from unalike.federation.once import Once
from unalike.federation.speaker import Outgoing
from unalike.federation.summing import VectorOf, question
from unalike.secure import pairwise
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.primitives import signing_public
from unalike.secure.policy import Policy, new_session

GREET, ADD = "greet", "add"
"""Kinds of messages: tell your key for hidden sums; add what you are asked to compute."""
OCCASION = "occasion"
"""In a header: which job beside the run a message is of."""
KEY_FILE = Path("keys") / "pairs.key"
"""In a site's folder: the secret of its masks and boxes with all others, until the run is over."""
_OCCASION = re.compile(r"([0-9a-f]{32})?")


def paired_total(asking: Asking, keys: dict[str, str], messages: Outgoing, length: int, bits: int) -> Grid:
    """The sum of all parties' grids, asked for until all are there. ``keys`` are those known so far."""
    speaker, names = asking.speaker, sorted(messages)
    meet(asking, keys, names)
    identities = [*(speaker.roster[name] for name in names), signing_public(speaker.signer)]
    policy = pairwise.terms(new_session(), identities, length, question(*messages[names[0]]), bits)
    about = {"kind": ADD, "session": policy.session.hex(), "keys": {name: keys[name] for name in names}}

    def use(name: str, answer: Envelope) -> bytes:
        try:
            pairwise.check_payload(policy, answer.body)
        except CryptoError as error:
            raise Refused(str(error)) from None
        return answer.body

    asked = {name: ({**header, **about}, body) for name, (header, body) in messages.items()}
    found = asking.collect(asked, use, len(names))
    return pairwise.total(policy, {number: found[name] for number, name in enumerate(names)})


def meet(asking: Asking, keys: dict[str, str], names: Sequence[str], occasion: str = "") -> None:
    """Ask those for their keys for sums in one trip, and for boxes, whose are not known yet.

    ``occasion``: 32 hexadecimal digits where the keys are for one job beside the run; each has keys of its own.
    """
    context, roster = context_of(asking.speaker.plan.digest, occasion), asking.speaker.roster
    about = {"kind": GREET, OCCASION: occasion} if occasion else {"kind": GREET}
    new = {name: (about, b"") for name in names if name not in keys}
    if new:
        keys |= asking.collect(new, lambda name, told: _told(name, told, roster, context), len(new))


def context_of(plan: str, occasion: str) -> str:
    """What keys are signed for: a plan, or one job beside its run."""
    return f"{plan} {occasion}" if occasion else plan


def occasion_of(message: Envelope) -> str:
    """The job that a message is of, if it is not of the run."""
    occasion = message.header.get(OCCASION, "")
    if not isinstance(occasion, str) or not _OCCASION.fullmatch(occasion):
        raise Refused("it does not say which job it is of")
    return occasion


def key_file(occasion: str) -> Path:
    """Where a site keeps the secret of its keys with all others, for the run or for one job beside it."""
    return KEY_FILE if not occasion else KEY_FILE.with_stem(f"{KEY_FILE.stem}-{occasion}")


class SitePairs:
    """A site's keys with all others, and its part in sums of one trip; ``folder`` keeps its secret key.

    ``occasion``: where they are for one job beside the run, which one.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        signer: bytes,
        roster: Mapping[str, bytes],
        server: bytes,
        bits: int,
        plan: str,
        once: Once,
        occasion: str = "",
    ) -> None:
        self._path, self._name, self._signer, self._roster = folder / key_file(occasion), name, signer, roster
        self._server, self._bits, self._once = server, bits, once
        self._plan = context_of(plan, occasion)
        self._known: dict[str, tuple[str, bytes]] = {}
        """of each other site, its introduction and the key that this site shares with it"""

    def greet(self) -> tuple[dict[str, Any], bytes]:
        """This site's public key for masks, signed with the key that the others know it by."""
        return {"key": pairwise.introduction(self._secret(), self._signer, self._plan.encode()).hex()}, b""

    def answer(self, message: Envelope, vector: VectorOf) -> tuple[dict[str, Any], bytes]:
        """What the site adds, under its masks with all that the plan asks in this exchange.

        Two vectors under the same masks would tell their difference: the same terms have the same bytes, for good.
        """
        session, shared = self.told(message)
        occasion, grid = vector(message)
        asked = question(message.header, message.body)
        return {}, self.hide(session, shared, sorted(occasion.parties), asked, grid, self._bits)

    def told(self, message: Envelope) -> tuple[bytes, dict[str, bytes]]:
        """The session of a sum, and the keys that this site shares with others, whose public ones come with it."""
        try:
            session = bytes.fromhex(message.header["session"])
        except (KeyError, TypeError, ValueError):
            raise Refused("it is not a question of a sum in one trip") from None
        return session, self.shared(message)

    def shared(self, message: Envelope) -> dict[str, bytes]:
        """The keys that this site shares with others, by name, from the public ones in a message."""
        try:
            keys = dict(message.header["keys"])
        except (KeyError, TypeError, ValueError):
            raise Refused("it is not a question of a sum in one trip: it has no keys") from None
        if keys.get(self._name) != self.greet()[0]["key"]:
            raise Refused(
                "the server has another key of this site for hidden sums than it has. Start the run again"
            )
        return self._shared_with(keys)

    def hide(
        self,
        session: bytes,
        shared: Mapping[str, bytes],
        names: Sequence[str],
        asked: bytes,
        grid: Grid,
        bits: int,
    ) -> bytes:
        """A vector under this site's masks with all others of these names, who are asked the same."""
        policy, others = self._terms(session, shared, names, asked, len(grid), bits)
        answer = pairwise.hide(policy, names.index(self._name), others, grid)
        why = (
            "this site has answered the same with another vector, and under the same masks the two would tell "
            "their difference. Stop the run and start it again: that makes new masks"
        )
        self._once.ask(f"masks {policy.digest.hex()}", sha256(answer).hexdigest(), why)
        return answer

    def opened(
        self,
        session: bytes,
        shared: Mapping[str, bytes],
        names: Sequence[str],
        asked: bytes,
        rest: bytes,
        bits: int,
    ) -> Grid:
        """The sum of the vectors of all others of these names, which only this site can read."""
        length = len(rest) // (bits // 8) - pairwise.CHECKS
        policy, others = self._terms(session, shared, names, asked, max(0, length), bits)
        return pairwise.opened(policy, names.index(self._name), others, rest)

    def _terms(
        self,
        session: bytes,
        shared: Mapping[str, bytes],
        names: Sequence[str],
        asked: bytes,
        length: int,
        bits: int,
    ) -> tuple[Policy, dict[int, bytes]]:
        """The terms of a sum of these sites, and the keys with the others of them by number."""
        if not set(names) <= {*shared, self._name}:
            raise Refused("it has no key of a site that by the plan takes part in this exchange")
        identities = [*(self._roster[name] for name in names), self._server]
        policy = pairwise.terms(session, identities, length, asked, bits)
        return policy, {number: shared[name] for number, name in enumerate(names) if name != self._name}

    def _shared_with(self, keys: Mapping[str, Any]) -> dict[str, bytes]:
        """The keys shared with others, whose own must be signed by them, and the same in all of the run."""
        told = {name: key for name, key in sorted(keys.items()) if name != self._name}
        new = {name for name, key in told.items() if self._known.get(name, ("",))[0] != key}
        publics = {name: _introduced(name, told[name], self._roster, self._plan) for name in sorted(new)}
        why = "the key of {0} for hidden sums has changed since this run began. Ask {0}, and begin anew"
        self._once.ask_all(
            *((f"key of {name} {self._plan}", key.hex(), why.format(name), 1) for name, key in publics.items())
        )
        for name, public in publics.items():
            self._known[name] = told[name], pairwise.pair_key(self._secret(), public, self._plan.encode())
        return {name: self._known[name][1] for name in told}

    def _secret(self) -> bytes:
        make_key(self._path)
        return read_key(self._path)


def _told(name: str, answer: Envelope, roster: Mapping[str, bytes], plan: str) -> str:
    key = answer.header.get("key")
    _introduced(name, key, roster, plan)
    return str(key)


def _introduced(name: str, told: Any, roster: Mapping[str, bytes], plan: str) -> bytes:
    """The X25519 key of a site, if it signed it for this plan."""
    if name not in roster:
        raise Refused(f"{name[:40]!r} is nobody whom this site has agreed to")
    try:
        return pairwise.introduced(bytes.fromhex(told), roster[name], plan.encode())
    except (TypeError, ValueError, CryptoError):
        raise Refused(f"the key of {name} for hidden sums is none, or not signed by it for this plan") from None
