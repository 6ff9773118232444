"""How vectors travel: as plain integers, as masked words, or as BFV ciphertexts. All add, subtract and check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unalike.errors import UserError
from unalike.secure.crypto import bfv, masks
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.masks import Elements
from unalike.secure.errors import ProtocolError, blame
from unalike.secure.policy import Policy

Vector = NDArray[np.int64]


class Carrier(Protocol):
    """Turns vectors into payloads of messages and back."""

    def pack(self, vector: Elements) -> bytes:
        """A party's vector, masked where masks are used, as a payload."""

    def total(self, payloads: Mapping[int, bytes]) -> bytes:
        """The sum of the parties' payloads; a bad one names its party."""

    def subtract(self, payload: bytes, vector: Elements) -> bytes:
        """The payload less a plain vector."""

    def unpack(self, payload: bytes) -> Vector:
        """The vector that a payload carries; one that is malformed is refused."""


@dataclass(frozen=True)
class Plain:
    """Little-endian int64, for all to read."""

    length: int

    def pack(self, vector: Elements) -> bytes:
        """A party's vector as a payload."""
        return vector.astype("<i8").tobytes()

    def total(self, payloads: Mapping[int, bytes]) -> bytes:
        """The sum of the parties' payloads; a bad one names its party."""
        total = np.zeros(self.length, np.int64)
        for party, payload in payloads.items():
            with blame(party):
                total = total + self.unpack(payload)
        return self.pack(total)

    def subtract(self, payload: bytes, vector: Elements) -> bytes:
        """The payload less a plain vector."""
        return self.pack(self.unpack(payload) - vector)

    def unpack(self, payload: bytes) -> Vector:
        """The vector that a payload carries; one of a wrong length is refused."""
        if len(payload) != 8 * self.length:
            raise CryptoError(f"The vector must have {8 * self.length} bytes, got {len(payload)}.")
        return np.frombuffer(payload, "<i8").astype(np.int64)


@dataclass(frozen=True)
class MaskedWords:
    """Little-endian words of 32 or 64 bits, which say nothing until the masks are taken away."""

    length: int
    words: masks.Words

    def pack(self, vector: Elements) -> bytes:
        """A party's vector as a payload."""
        return vector.tobytes()

    def total(self, payloads: Mapping[int, bytes]) -> bytes:
        """The sum of the parties' payloads; a bad one names its party."""
        total = np.zeros(self.length, self.words.dtype)
        for party, payload in payloads.items():
            with blame(party):
                np.add(total, self._read(payload), out=total)
        return total.tobytes()

    def subtract(self, payload: bytes, vector: Elements) -> bytes:
        """The payload less a plain vector."""
        return np.subtract(self._read(payload), vector).tobytes()

    def unpack(self, payload: bytes) -> Vector:
        """The vector of a payload without masks: signed."""
        return self.words.integers(self._read(payload))

    def _read(self, payload: bytes) -> Elements:
        size = self.words.dtype.itemsize * self.length
        if len(payload) != size:
            raise CryptoError(f"The vector must have {size} bytes, got {len(payload)}.")
        return np.frombuffer(payload, self.words.dtype)


@dataclass(frozen=True)
class Sealed:
    """BFV ciphertexts. With public keys it only adds; with secret keys it also unpacks."""

    length: int
    context: bfv.Context

    def pack(self, vector: Elements) -> bytes:
        """A party's vector as a payload; entries count modulo the plain modulus."""
        return self.context.encrypt(bfv.centred(vector.astype(np.int64))).to_bytes()

    def total(self, payloads: Mapping[int, bytes]) -> bytes:
        """The sum of the parties' payloads; a bad one names its party."""
        total: bfv.EncryptedVector | None = None
        for party, payload in payloads.items():
            with blame(party):
                one = self.context.read(payload, self.length)
                total = one if total is None else total + one
        if total is None:
            raise CryptoError("There is nothing to add.")
        return total.to_bytes()

    def subtract(self, payload: bytes, vector: Elements) -> bytes:
        """The payload less a plain vector."""
        return self.context.read(payload, self.length).subtract_plain(vector.astype(np.int64)).to_bytes()

    def unpack(self, payload: bytes) -> Vector:
        """The vector of a payload."""
        return self.context.decrypt(self.context.read(payload, self.length))


def largest(vector: Elements) -> int:
    """The largest absolute value; not by abs, which is negative for the least int64."""
    return max(int(vector.max()), -int(vector.min()))


def check_bound(policy: Policy, total: Vector) -> None:
    """Refuse a sum beyond what was agreed: some party did not keep to its part."""
    if largest(total) > policy.bound:
        raise ProtocolError(None, f"spoilt the sum: an entry exceeds the agreed bound {policy.bound}.")


def make_carrier(policy: Policy, context: bfv.Context | None) -> Carrier:
    """The carrier that a policy asks for; ``context`` are the dealer's keys, None for "none" and "masks"."""
    if policy.bits:
        return MaskedWords(policy.width, masks.Words(policy.bits))
    if not policy.encrypted:
        return Plain(policy.width)
    if context is None or context.fingerprint != policy.fingerprint:
        raise UserError("The keys are not those of the policy. Ask the dealer for the keys of this sum.")
    return Sealed(policy.width, context)
