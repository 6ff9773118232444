"""Vectors of masks that two parties can both compute and that cancel in a sum, uniform modulo any modulus.

Bonawitz et al. 2017 (doi:10.1145/3133956.3133982), section 4: party i adds ``mask(i, j)`` for every other party j,
and ``mask(i, j) = -mask(j, i)`` modulo t, so the sum over all parties has no masks left. A ``Ring`` is where
masks are added: ``Residues`` modulo any t, or ``Words`` modulo 2^32 or 2^64, which the processor does by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.primitives import KEY_BYTES, derive, stream

Vector = NDArray[np.int64]
Elements = NDArray[np.integer[Any]]
"""Vectors of a ring's elements: int64 below the modulus, or unsigned words."""
LARGEST_MODULUS = 2**62
"""So that the sum of two numbers below it fits into int64."""


def pair_seed(shared: bytes, purpose: bytes, session: bytes, one: int, other: int) -> bytes:
    """The seed that two parties derive from their shared X25519 secret: the same on both sides."""
    low, high = sorted((one, other))
    return derive(shared, _info(purpose, session, low, high))


def direction_key(shared: bytes, purpose: bytes, session: bytes, sender: int, receiver: int) -> bytes:
    """The key for what one party sends to another: not the same as for the way back."""
    return derive(shared, _info(purpose, session, sender, receiver))


def expand(seed: bytes, length: int, modulus: int) -> Vector:
    """``length`` integers in [0, modulus), exactly uniform if the seed is.

    The AES-256-CTR stream is read as little-endian words of 32 bits (64 for a modulus above 2^31); words from the
    largest multiple of the modulus upwards are skipped, as they would make small remainders likelier.
    """
    if len(seed) != KEY_BYTES:
        raise CryptoError(f"A mask's seed must have {KEY_BYTES} bytes, got {len(seed)}.")
    if length < 0 or not 2 <= modulus <= LARGEST_MODULUS:
        raise CryptoError(f"A mask needs length >= 0 and modulus in 2..2^62, got {length} and {modulus}.")
    bits = 32 if modulus <= 2**31 else 64
    last = 2**bits // modulus * modulus - 1
    following = stream(seed)
    parts, missing = [], length
    while missing > 0:
        wanted = missing * 2**bits // (last + 1) + 8  # how many words give as many as are missing, on average
        words = np.frombuffer(following(wanted * bits // 8), f"<u{bits // 8}")
        fair = words[words <= last][:missing]
        parts.append((fair % modulus).astype(np.int64))
        missing -= len(fair)
    return np.concatenate([np.empty(0, np.int64), *parts])


class Ring(Protocol):
    """Integers modulo something, in vectors to which masks are added in place."""

    def elements(self, vector: Vector) -> Elements:
        """A vector of integers as elements; a copy."""

    def add(self, total: Elements, seed: bytes, *, minus: bool = False) -> None:
        """Add the mask of a seed to ``total`` in place, or take it away."""


@dataclass(frozen=True)
class Residues:
    """Integers modulo any number, as int64; masks by ``expand``."""

    modulus: int

    def elements(self, vector: Vector) -> Elements:
        """A vector of integers as elements; a copy."""
        return vector % self.modulus

    def add(self, total: Elements, seed: bytes, *, minus: bool = False) -> None:
        """Add the mask of a seed to ``total`` in place, or take it away."""
        mask = expand(seed, len(total), self.modulus)
        (np.subtract if minus else np.add)(total, mask, out=total)
        total %= self.modulus


@dataclass(frozen=True)
class Words:
    """Integers modulo 2^32 or 2^64, as unsigned little-endian words; every AES word is a fair mask."""

    bits: int

    def __post_init__(self) -> None:
        if self.bits not in (32, 64):
            raise CryptoError(f"Words have 32 or 64 bits, got {self.bits}.")

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger[Any]]:
        """The type that numpy keeps such words in."""
        return np.dtype(f"<u{self.bits // 8}")

    def elements(self, vector: Vector) -> Elements:
        """A vector of integers as elements; a copy."""
        return vector.astype(self.dtype)  # keeps the low bits: two's complement

    def integers(self, elements: Elements) -> Vector:
        """The integer in -2^(bits-1)..2^(bits-1)-1 of every element."""
        return elements.view(f"<i{self.bits // 8}").astype(np.int64)

    def add(self, total: Elements, seed: bytes, *, minus: bool = False) -> None:
        """Add the mask of a seed to ``total`` in place, or take it away."""
        mask = np.frombuffer(stream(seed)(total.nbytes), self.dtype)
        (np.subtract if minus else np.add)(total, mask, out=total)


def add_pairwise(
    ring: Ring, total: Elements, own: int, seeds: Mapping[int, bytes], *, minus: bool = False
) -> None:
    """Add to ``total`` what party ``own`` adds: its masks, plus towards higher numbers and minus towards lower."""
    for other, seed in seeds.items():
        if other == own:
            raise CryptoError(f"Party {own} has no mask with itself.")
        ring.add(total, seed, minus=minus != (own > other))


def _info(purpose: bytes, session: bytes, first: int, second: int) -> bytes:
    """What a key is for, in one unambiguous byte string."""
    return b"".join(
        [b"unalike", len(purpose).to_bytes(1, "big"), purpose, len(session).to_bytes(1, "big"), session]
        + [number.to_bytes(4, "big") for number in (first, second)]
    )
