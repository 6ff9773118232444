"""What sites with other columns of the same people tell each other: mail in boxes, and sums for one of them.

Nothing that one site has for another is read by the server. Mail goes in boxes (``boxes``). A sum for a site is
one of all the others: each adds its vector under masks with everybody, the receiver too, so that what the server
adds up and passes on is noise to it. The receiver takes its own masks away, and has the sum and no part of it.

What masks are bound to is the same for all who add and needs no word of the server: the conversation, the turn,
who gets the sum, and the names and shapes of what is added. So a turn that is played again has the same masks,
and the same vector under them: a site answers one question a turn, for good (docs/secure-measurement.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from unalike.algorithms.protocol import SERVER, SUM, Arrays, Inbox, Say, Turn, WrongMail
from unalike.federation.boxes import SiteBoxes
from unalike.federation.contents import digest_of
from unalike.federation.envelope import Refused
from unalike.federation.mail import Listed, pack_mail, unpack_mail
from unalike.federation.pairing import SitePairs
from unalike.secure import pairwise
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.errors import ProtocolError
from unalike.secure.policy import SESSION_BYTES

BITS = 64
"""Of the words in which integers of a protocol are added under masks."""
FEWEST = 2
"""Sites whose vectors are in a sum for another: of one alone, the sum would be its vector."""
_CHECKS, _PART = "zeros", "sum/"


@dataclass(frozen=True, eq=False)
class Letters:
    """One site's mail and sums with the others in one conversation; ``shared``: its keys with them by name."""

    boxes: SiteBoxes
    pairs: SitePairs
    shared: Mapping[str, bytes]
    names: tuple[str, ...]

    def opened(self, turn: Turn, inbox: Inbox) -> dict[int, Arrays]:
        """What came for a turn, as the protocol reads it."""
        found = self.boxes.opened(turn, {by: arrays for by, arrays in inbox.items() if by != SUM})
        if SUM in inbox:
            found[SUM] = self._sum(turn, inbox[SUM])
        return {by: found[by] for by in sorted(found)}

    def packed(self, turn: Turn, said: Say) -> tuple[Listed, Listed | None, bytes]:
        """What leaves: a list of the mail, one of what is added, and the bytes of both, sealed and masked."""
        listed, body = pack_mail(self.boxes.sealed(turn, said.mail))
        if said.add is None:
            return listed, None, body
        if len(self.names) - 1 < FEWEST:
            raise Refused("a sum for one site is of two others or more, and this plan has two sites")
        if said.to in (SERVER, self.boxes.own):
            raise Refused("what sites with other columns add is for another of them")
        ((_, adds),), plain = pack_mail({said.to: said.add})
        grid = np.frombuffer(plain, "<i8").astype(np.int64)
        asked = self._asked(turn, turn.number, said.to, adds)
        words = self.pairs.hide(self._session, self.shared, self.names, asked, grid, BITS)
        return listed, adds, body + words

    def _sum(self, turn: Turn, arrays: Arrays) -> Arrays:
        """The sum for this site, without the masks that only it can take away."""
        adds = [[name.removeprefix(_PART), "int64", list(arrays[name].shape)] for name in masked_names(arrays)]
        rest = b"".join(arrays[name].tobytes() for name in [*masked_names(arrays), _CHECKS])
        asked = self._asked(turn, turn.number - 1, self.boxes.own, adds)
        try:
            total = self.pairs.opened(self._session, self.shared, self.names, asked, rest, BITS)
        except (ProtocolError, CryptoError):
            raise WrongMail(
                SUM, "is noise: it is not what all other sites added in this turn, or was changed on the way."
            ) from None
        return unpack_mail([[SUM, adds]], total.astype("<i8").tobytes(), (SUM,))[SUM]

    def _asked(self, turn: Turn, said: int, to: int, adds: Listed) -> bytes:
        """What masks are made of: all must add the same, in the same turn, for the same receiver."""
        place = repr((turn.purpose, turn.round, said, to, adds))
        return digest_of(b"sum for a site", self.boxes.session, place.encode()).encode()

    @property
    def _session(self) -> bytes:
        return sha256(b"unalike sums" + self.boxes.session).digest()[:SESSION_BYTES]


def masked_names(arrays: Arrays) -> list[str]:
    """The names of what is added, in order, in a sum on its way to a site; Refused where it is no such sum."""
    names = sorted(name for name in arrays if name.startswith(_PART))
    checks = arrays.get(_CHECKS)
    if checks is None or checks.shape != (pairwise.CHECKS,) or len(names) != len(arrays) - 1 or not names:
        raise Refused("the sum that it passes on is none")
    if any(array.dtype != np.int64 for array in arrays.values()):
        raise Refused("the sum that it passes on is not of whole numbers")
    return names


def passed_on(adds: Listed, payloads: Mapping[int, bytes]) -> Arrays:
    """The sum of masked vectors as the server passes it on, noise to itself; all have the same length."""
    words = np.sum([np.frombuffer(one, "<u8") for one in payloads.values()], axis=0, dtype=np.uint64)
    listed = [[f"{_PART}{name}", kind, shape] for name, kind, shape in adds]
    end: list[Any] = [_CHECKS, "int64", [pairwise.CHECKS]]
    found = unpack_mail([[SUM, [*listed, end]]], words.tobytes(), (SUM,))
    return found[SUM]
