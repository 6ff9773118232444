"""Integers that are added while they are encrypted: what others may do with them, and what only the key reads.

Whoever has the secret keys encrypts by parts, which is faster and has the same outcome. By p^2 a ciphertext is
(1 + k m p) w, where w is a random power of h; by q, the rest of an Okamoto-Uchiyama key, the powers of h are drawn
apart, so a uniform number stands for them: c = that + p^2 t with a random t below q.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unalike.secure.crypto.additive_keys import PublicKey, SecretKeys, make_keys, read_public
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.fixed_base import Powers
from unalike.secure.crypto.integers import (
    Bytes,
    Number,
    common_divisor,
    from_rows,
    inverse,
    number,
    power,
    product,
    to_rows,
    uniform,
)
from unalike.secure.crypto.primitives import stream

__all__ = [
    "Ciphers",
    "PublicKey",
    "SecretKeys",
    "add",
    "add_plain",
    "combine",
    "decrypt",
    "encrypt",
    "make_keys",
    "negative",
    "read_ciphers",
    "read_public",
    "rerandomised",
    "times",
]


@dataclass(frozen=True, eq=False)
class Ciphers:
    """A vector of encrypted integers, all by one key."""

    public: PublicKey
    values: list[Number]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, places: slice) -> Ciphers:
        return Ciphers(self.public, self.values[places])

    def to_array(self) -> Bytes:
        """The ciphertexts as bytes for mail, uint8 [count, width]."""
        return to_rows(self.values, self.public.width)


def read_ciphers(public: PublicKey, array: Bytes) -> Ciphers:
    """The ciphertexts that :meth:`Ciphers.to_array` has written; CryptoError where one is none of this key."""
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != public.width:
        raise CryptoError(f"Ciphertexts are uint8 (any, {public.width}), not {array.dtype} {array.shape}.")
    values, modulus = from_rows(array, public.width), public.modulus
    if values and not (min(values) > 1 and max(values) < modulus):
        raise CryptoError("A ciphertext is not between 1 and the modulus.")
    if common_divisor(product(values, modulus), public.n) != 1:
        raise CryptoError("A ciphertext has a divisor in common with the modulus.")
    return Ciphers(public, values)


def encrypt(key: PublicKey | SecretKeys, integers: Sequence[int], secret: bytes) -> Ciphers:
    """Encrypt signed integers. The secret is for this call alone: used again, it tells which numbers are equal.

    Whoever has the secret keys gives them, and is some times faster.
    """
    public = key.public if isinstance(key, SecretKeys) else key
    numbers = [int(value) for value in integers]
    if any(abs(value) >> public.room for value in numbers):
        raise CryptoError(f"An integer has more than the {public.room} bits that this key has room for.")
    if isinstance(key, SecretKeys):
        return Ciphers(public, _by_parts(key, numbers, secret))
    modulus, zeros = public.modulus, public.zeros(secret, len(numbers))
    ones = _powers_of_one(public, numbers)
    return Ciphers(public, [zero * one % modulus for zero, one in zip(zeros, ones, strict=True)])


def _powers_of_one(public: PublicKey, numbers: Sequence[int]) -> list[Number]:
    """What encrypts these integers without hiding them."""
    if public.cipher == "paillier":
        return [(1 + value * public.n) % public.modulus for value in numbers]
    bits = max((abs(value).bit_length() for value in numbers), default=1) + 1
    return Powers(public.g, public.modulus, bits, len(numbers), signed=True).of(numbers)


def _by_parts(keys: SecretKeys, numbers: list[int], secret: bytes) -> list[Number]:
    """Ciphertexts by each prime's square, put together to those by the modulus."""
    following, count, bits = stream(secret), len(numbers), keys.public.exponent_bits
    parts = []
    for prime in keys.primes:
        hidden, square, step = prime.hidden(following, count, bits), prime.square, prime.kind * prime.p
        parts.append([(1 + m * step) * w % square for m, w in zip(numbers, hidden, strict=True)])
    first = keys.primes[0].square
    if len(parts) == 1:
        return [c + first * t for c, t in zip(parts[0], uniform(following, count, keys.rest), strict=True)]
    other = keys.primes[1].square
    back = inverse(first, other)
    return [a + first * ((b - a) * back % other) for a, b in zip(*parts, strict=True)]


def decrypt(keys: SecretKeys, ciphers: Ciphers) -> list[int]:
    """The integers, with their signs."""
    if len(keys.primes) == 1:
        prime = keys.primes[0]
        found, size = [prime.read(value) for value in ciphers.values], prime.p
    else:
        one, other = keys.primes
        back, size = inverse(one.p, other.p), one.p * other.p
        found = []
        for value in ciphers.values:
            low = one.read(value)
            found.append(low + one.p * ((other.read(value) - low) * back % other.p))
    half = size // 2
    return [int(value - size if value > half else value) for value in found]


def add(one: Ciphers, other: Ciphers) -> Ciphers:
    """The sums of two vectors, place by place."""
    modulus, pairs = one.public.modulus, zip(one.values, other.values, strict=True)
    return Ciphers(one.public, [a * b % modulus for a, b in pairs])


def add_plain(ciphers: Ciphers, integers: Iterable[int]) -> Ciphers:
    """The sums with integers that are known here; who knows a cipher before and after can tell which."""
    ones = _powers_of_one(ciphers.public, [int(value) for value in integers])
    return add(ciphers, Ciphers(ciphers.public, ones))


def negative(ciphers: Ciphers) -> Ciphers:
    """The integers with the other sign."""
    return Ciphers(ciphers.public, [inverse(value, ciphers.public.modulus) for value in ciphers.values])


def times(ciphers: Ciphers, factors: Iterable[int]) -> Ciphers:
    """The products with integers that are known here, one for each cipher."""
    modulus = ciphers.public.modulus
    pairs = zip(ciphers.values, factors, strict=True)
    return Ciphers(ciphers.public, [power(value, number(factor), modulus) for value, factor in pairs])


def rerandomised(ciphers: Ciphers, secret: bytes) -> Ciphers:
    """The same integers in fresh ciphertexts, from which nobody can tell what they were made of.

    The secret is for this call alone.
    """
    return add(ciphers, Ciphers(ciphers.public, ciphers.public.zeros(secret, len(ciphers))))


def combine(ciphers: Ciphers, weights: NDArray[np.int64]) -> Ciphers:
    """Of each column of ``weights``, int64 [ciphers, columns], the sum of all integers times their weights.

    The outcome is not fresh: re-randomise it before it goes to whoever has the key.
    """
    if weights.ndim != 2 or len(weights) != len(ciphers):
        raise ValueError(f"Weights of {len(ciphers)} ciphers are needed, not {weights.shape}.")
    modulus = ciphers.public.modulus
    found = []
    for column in weights.T:
        bits = int(np.abs(column).max(initial=0)).bit_length()
        window = _window(bits, int((column != 0).sum()))
        plus = _weighted(ciphers.values, np.where(column > 0, column, 0), bits, window, modulus)
        minus = _weighted(ciphers.values, np.where(column < 0, -column, 0), bits, window, modulus)
        found.append(plus * inverse(minus, modulus) % modulus)
    return Ciphers(ciphers.public, found)


def _window(bits: int, count: int) -> int:
    """The bits of a digit with which a weighted sum takes the fewest multiplications."""
    return min(range(1, 11), key=lambda w: (-(-max(bits, 1) // w) * (count + 4 * 2**w), w))


def _weighted(values: list[Number], weights: NDArray[np.int64], bits: int, window: int, modulus: Number) -> Number:
    """The product of all values to the power of their weights, digit by digit from the highest."""
    total = number(1)
    places = np.flatnonzero(weights)
    for shift in range((max(bits, 1) - 1) // window * window, -1, -window):
        total = power(total, number(1 << window), modulus) if total != 1 else total
        digits = (weights[places] >> shift) & ((1 << window) - 1)
        buckets = [number(1)] * (1 << window)
        for place, digit in zip(places[digits > 0].tolist(), digits[digits > 0].tolist(), strict=True):
            buckets[digit] = buckets[digit] * values[place] % modulus
        # Each bucket counts as often as its digit says: sums of sums from the highest down.
        running, sums = number(1), number(1)
        for bucket in buckets[:0:-1]:
            running = running * bucket % modulus
            sums = sums * running % modulus
        total = total * sums % modulus
    return total
