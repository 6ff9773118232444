"""Vectors of masks that two parties can both compute and that cancel in a sum, uniform modulo any modulus.

Bonawitz et al. 2017 (doi:10.1145/3133956.3133982), section 4: party i adds ``mask(i, j)`` for every other party j,
and ``mask(i, j) = -mask(j, i)`` modulo t, so the sum over all parties has no masks left.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from unalike.crypto.errors import CryptoError
from unalike.crypto.primitives import KEY_BYTES, derive, stream

Vector = NDArray[np.int64]
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


def pairwise_sum(own: int, seeds: Mapping[int, bytes], length: int, modulus: int) -> Vector:
    """What party ``own`` adds: its masks with all others: plus towards higher numbers, minus towards lower."""
    total = np.zeros(length, np.int64)
    for other, seed in seeds.items():
        if other == own:
            raise CryptoError(f"Party {own} has no mask with itself.")
        mask = expand(seed, length, modulus)
        total = (total + mask if own < other else total - mask) % modulus
    return total


def _info(purpose: bytes, session: bytes, first: int, second: int) -> bytes:
    """What a key is for, in one unambiguous byte string."""
    return b"".join(
        [b"unalike", len(purpose).to_bytes(1, "big"), purpose, len(session).to_bytes(1, "big"), session]
        + [number.to_bytes(4, "big") for number in (first, second)]
    )
