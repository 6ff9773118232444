"""Mail from site to site, in boxes that the server passes on unopened: it sees who writes to whom, and sizes.

Two sites share a key (``secure.pairwise``), from which the key of their boxes derives. A box belongs to one place
in one conversation: the same mail at the same place is the same box, so that a round may be played again, and a
box from anywhere else does not open. What opens was sealed by the other of the two, as nobody else has the key.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from unalike.algorithms.protocol import Arrays, Inbox, Turn, WrongMail
from unalike.federation.envelope import Refused
from unalike.federation.mail import pack_mail, unpack_mail
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.primitives import derive, seal_fixed, unseal_fixed

BOX = "box"
"""The name of the only array in mail from site to site, as the server sees it."""
_LENGTH = struct.Struct(">I")
_PARTS = (b"unalike box 1", b"unalike box 2")


@dataclass(frozen=True, eq=False)
class SiteBoxes:
    """One site's boxes to and from the others, in a conversation of ``session``, such as a run or a matching.

    ``pairs``: by party number, the key shared with that party (of ``SitePairs``); ``own``: this site's number.
    ``session`` must be the same whenever a turn is played again, and another in any other conversation.
    """

    pairs: Mapping[int, bytes] = field(repr=False)
    own: int
    session: bytes

    def sealed(self, turn: Turn, mail: Mapping[int, Arrays]) -> dict[int, Arrays]:
        """What this site says in a turn, with what is for other parties in boxes; the server's is as it is."""
        return {to: self._seal(turn, to, arrays) if to >= 0 else arrays for to, arrays in mail.items()}

    def opened(self, turn: Turn, inbox: Inbox) -> dict[int, Arrays]:
        """The mail that came for a turn, said in the turn before; a box that does not open is refused."""
        return {by: self._open(turn, by, arrays) if by >= 0 else arrays for by, arrays in inbox.items()}

    def _seal(self, turn: Turn, to: int, arrays: Arrays) -> Arrays:
        ((_, listed),), body = pack_mail({to: arrays})
        told = json.dumps(listed, separators=(",", ":")).encode()
        content = b"".join([_LENGTH.pack(len(told)), told, body])
        place = self._place(turn, turn.number, self.own, to)
        return {BOX: np.frombuffer(seal_fixed(self._key(to), content, place), np.uint8)}

    def _open(self, turn: Turn, by: int, arrays: Arrays) -> Arrays:
        box = arrays.get(BOX)
        if box is None or len(arrays) > 1 or box.dtype != np.uint8 or box.ndim != 1:
            raise WrongMail(by, "wrote to this site without a box. What sites tell each other must be sealed.")
        try:
            place = self._place(turn, turn.number - 1, by, self.own)
            content = unseal_fixed(self._key(by), box.tobytes(), place)
        except CryptoError:
            raise WrongMail(
                by, "sent a box that does not open: it was changed on the way, or is of another turn."
            ) from None
        try:
            (size,) = _LENGTH.unpack_from(content)
            told = json.loads(content[_LENGTH.size : _LENGTH.size + size])
            return unpack_mail([[by, told]], content[_LENGTH.size + size :], (by,))[by]
        except (Refused, ValueError, struct.error, RecursionError) as error:
            raise WrongMail(by, f"sent a box that holds no mail: {str(error)[:100]}.") from None

    def _place(self, turn: Turn, said: int, by: int, to: int) -> tuple[bytes, bytes]:
        """What a box is bound to: the conversation, the turn in which it was said, who seals it, and for whom."""
        return self.session, json.dumps([turn.purpose, turn.round, said, by, to]).encode()

    def _key(self, party: int) -> bytes:
        if party not in self.pairs:
            raise Refused(f"there is no key that this site shares with party {party}")
        return b"".join(derive(self.pairs[party], part) for part in _PARTS)
