"""Whom all parties know, without telling ids: one party asks, the others answer, and all learn the common people.

Kolesnikov, Matania, Pinkas, Rosulek and Trieu, "Practical Multi-party Private Set Intersection from
Symmetric-Key Techniques" (CCS 2017), with keyed hashes of ids made by powers of points (``crypto.curve``):

1. The party that asks raises the points of its ids to a power that only it can undo, and mails them in an order
   that is random.
2. Every other party raises them to its own power, in the order in which they came. It also gives a table of hints
   (``hints``): for each of its own ids, the keyed hash of the id hidden by the party's share of zero. Shares of
   one id, made of keys that the answering parties have in pairs, add up to zero over all of them, and to noise
   over any fewer.
3. The asking party undoes its power, so it has all parties' keyed hashes of its ids, and of these alone. An id
   whose hints add up to its hashes is known to all. Who knows it and who does not, if some do not, is noise.
4. It mails every party the second half of that party's hash of each common id, sorted. Others they cannot read.

Departure: lists do not pass through all parties, which would let one of them compare lists that are still those of
two parties: who sees them sees how many people any two have in common. All steps are functions of their
arguments. The asking party and one that answers can together learn which asked ids each other party has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from unalike.secure import hints
from unalike.secure.crypto import curve
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.primitives import KEY_BYTES, derive, stream
from unalike.secure.errors import ProtocolError
from unalike.secure.hints import Words

Rows = NDArray[np.int64]
_HALF = 16
_OWN, _ORDER, _FILL, _SHARE = b"own", b"order", b"fill", b"unalike share of zero"


@dataclass(frozen=True, eq=False)
class HintTable:
    """A party's hints: the salt of its places, and 16 bytes for each of these."""

    salt: int
    words: Words


@dataclass(frozen=True, eq=False)
class Matcher:
    """One party's side of a matching: its number, ids that are all different, and a secret of this session alone.

    A secret must not serve in two sessions: the same powers would show which ids were there before.
    """

    session: bytes
    number: int
    ids: Sequence[bytes] = field(repr=False)
    secret: bytes = field(repr=False)
    workers: int = 1

    @cached_property
    def _points(self) -> list[bytes]:
        return curve.hashed_all(self.session, self.ids, self.workers)

    @cached_property
    def _order(self) -> Rows:
        """A random order of the own ids, which says nothing about them."""
        raw = stream(derive(self.secret, _ORDER))(16 * len(self.ids))
        words = np.frombuffer(raw, "<u8").reshape(-1, 2)
        return np.lexsort((words[:, 0], words[:, 1]))

    @cached_property
    def _hashes(self) -> tuple[Words, Words]:
        """Of a party that answers: its own keyed hash of each of its ids, the two halves."""
        own = curve.powers(curve.scalar(self.secret, _OWN), self._points, self.workers)
        return _halves(self.session, self.number, own)

    def ask(self) -> bytes:
        """Step 1: the points of the own ids, blinded, in random order."""
        points = self._points
        first, _ = curve.blinding(self.secret, _OWN)
        return b"".join(curve.powers(first, [points[row] for row in self._order.tolist()], self.workers))

    def answer(self, asker: int, asked: bytes, shared: Mapping[int, bytes]) -> tuple[bytes, HintTable]:
        """Step 2: the asked points to the own power, and hints. ``shared``: keys with others that answer."""
        points = self._powers(asker, curve.scalar(self.secret, _OWN), asked)
        keys, _ = self._hashes
        values = keys ^ self._share(shared)
        fill = stream(derive(self.secret, _FILL))
        return points, HintTable(*hints.make(keys, values, fill))

    def common(self, answers: Mapping[int, tuple[bytes, HintTable]]) -> tuple[Rows, dict[int, bytes]]:
        """Step 3, for the party that asked: the places of its ids that all know, and what to mail to each."""
        _, undo = curve.blinding(self.secret, _OWN)
        total = np.zeros((len(self.ids), 2), np.uint64)
        second = {}
        for number, (points, table) in sorted(answers.items()):
            if len(points) != KEY_BYTES * len(self.ids):
                raise ProtocolError(number, f"answered {len(points):,} bytes of points, not one for each asked.")
            plain = _split(self._powers(number, undo, points))
            keys, second[number] = _halves(self.session, number, plain)
            total ^= keys ^ hints.look_up(keys, table.salt, table.words)
        found = ~total.any(axis=1)
        rows = np.sort(self._order[found])
        return rows, {number: _sorted_bytes(words[found]) for number, words in second.items()}

    def read(self, asker: int, mailed: bytes) -> Rows:
        """Step 4, for a party that answered: the places of its ids that all know."""
        _, own = self._hashes
        places = {word.tobytes(): place for place, word in enumerate(own)}
        told = [mailed[at : at + _HALF] for at in range(0, len(mailed), _HALF)]
        if len(set(told)) < len(told) or len(mailed) % _HALF or not all(one in places for one in told):
            raise ProtocolError(asker, "names common people whom this party does not know.")
        return np.sort(np.array([places[one] for one in told], np.int64))

    def _powers(self, sender: int, scalar: bytes, points: bytes) -> bytes:
        if len(points) % KEY_BYTES:
            raise ProtocolError(sender, "sent points that are cut short.")
        try:
            return b"".join(curve.powers(scalar, _split(points), self.workers))
        except CryptoError:
            raise ProtocolError(sender, "sent a point that is malformed or of low order.") from None

    def _share(self, shared: Mapping[int, bytes]) -> Words:
        """The own shares of zero of all own ids: they cancel where every party that answers has the id."""
        total = np.zeros((len(self.ids), 2), np.uint64)
        for key in shared.values():
            start = sha256(_SHARE + key + self.session)
            raw = b"".join(_hash_on(start, one) for one in self.ids)
            total ^= np.frombuffer(raw, "<u8").reshape(-1, 2)
        return total


def table_of(sender: int, salt: int, words: Words) -> HintTable:
    """A table as it came from a party; ProtocolError where it is none."""
    if words.ndim != 2 or words.shape[1] != 2 or not len(words) or len(words) % 3 or not 0 <= salt < 2**31:
        raise ProtocolError(sender, "sent a table of hints that is none.")
    return HintTable(salt, words)


def _halves(session: bytes, number: int, points: Sequence[bytes]) -> tuple[Words, Words]:
    """A party's keyed hashes of ids: a first half that hides hints, and a second that names common people."""
    start = sha256(b"unalike keyed hash" + session + number.to_bytes(4, "big"))
    raw = b"".join(_hash_on(start, point, 2 * _HALF) for point in points)
    words = np.frombuffer(raw, "<u8").astype(np.uint64).reshape(-1, 4)
    return words[:, :2], words[:, 2:]


def _hash_on(start: hashlib._Hash, text: bytes, size: int = _HALF) -> bytes:
    one = start.copy()
    one.update(text)
    return bytes(one.digest()[:size])


def _split(points: bytes) -> list[bytes]:
    return [points[at : at + KEY_BYTES] for at in range(0, len(points), KEY_BYTES)]


def _sorted_bytes(words: Words) -> bytes:
    """The words as bytes, sorted: their order says nothing about the ids'."""
    return b"".join(sorted(word.astype("<u8").tobytes() for word in words))
