"""Integers of thousands of bits: by gmpy2 where it is installed, else by Python, with the same results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from math import gcd as python_gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unalike.secure.crypto.errors import CryptoError

Number = Any
"""An int, or gmpy2's mpz, which behaves as one."""
Bytes = NDArray[np.uint8]
_ROUNDS = 32
"""Tries of Miller and Rabin: a composite number passes all of them with a chance of less than 2^-64."""


@cache
def gmpy2() -> Any:
    """The library gmpy2, or None; then one line says, once, what that costs."""
    try:
        return import_module("gmpy2")
    except ImportError:
        print(
            "Encrypted sums run on Python's own integers, about 7 times slower: pip install 'unalike[vertical]'.",
            file=sys.stderr,
        )
        return None


def number(value: int) -> Number:
    """An integer in the form that is fastest here."""
    library = gmpy2()
    return int(value) if library is None else library.mpz(int(value))


def power(base: Number, exponent: Number, modulus: Number) -> Number:
    """``base`` to the power of ``exponent``, by the modulus."""
    library = gmpy2()
    return pow(base, exponent, modulus) if library is None else library.powmod(base, exponent, modulus)


def inverse(value: Number, modulus: Number) -> Number:
    """What gives 1 with ``value`` by the modulus; CryptoError where there is none."""
    library = gmpy2()
    try:
        return pow(value, -1, modulus) if library is None else library.invert(value, modulus)
    except (ValueError, ZeroDivisionError) as error:
        raise CryptoError("A number has no inverse by the modulus: it is not of this key.") from error


def common_divisor(one: Number, other: Number) -> Number:
    """The greatest number that divides both."""
    library = gmpy2()
    return python_gcd(one, other) if library is None else library.gcd(one, other)


def product(values: Iterable[Number], modulus: Number) -> Number:
    """All numbers multiplied, by the modulus."""
    found = number(1)
    for value in values:
        found = found * value % modulus
    return found


def is_prime(value: Number) -> bool:
    """Whether an odd number is prime, but for a chance below 2^-64."""
    library = gmpy2()
    if library is not None:
        return bool(library.is_prime(value, _ROUNDS))
    if any(value % small == 0 for small in _small_primes()):
        return value in _small_primes()
    odd, twos = value - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(_passes(value, base, odd, twos) for base in _small_primes()[:_ROUNDS])


def _passes(value: int, base: int, odd: int, twos: int) -> bool:
    found = pow(base, odd, value)
    if found in (1, value - 1):
        return True
    for _ in range(twos - 1):
        found = found * found % value
        if found == value - 1:
            return True
    return False


@cache
def _small_primes() -> tuple[int, ...]:
    return tuple(n for n in range(3, 2000, 2) if all(n % d for d in range(3, int(n**0.5) + 1, 2)))


def new_prime(following: Callable[[int], bytes], bits: int) -> Number:
    """A prime of so many bits from a stream of random bytes; its three highest bits are ones."""
    while True:
        drawn = int.from_bytes(following((bits + 7) // 8), "little") % (1 << bits)
        candidate = drawn | 0b111 << (bits - 3) | 1
        if all(candidate % small for small in _small_primes()[:60]) and is_prime(number(candidate)):
            return number(candidate)


def uniform(following: Callable[[int], bytes], count: int, most: Number) -> list[Number]:
    """Numbers below ``most`` from a stream of random bytes, uniform but for 2^-64."""
    width = (int(most).bit_length() + 64 + 7) // 8
    return [value % most for value in from_rows(np.frombuffer(following(count * width), np.uint8), width)]


def to_rows(values: Sequence[Number], width: int) -> Bytes:
    """Numbers as bytes, little end first, uint8 [count, width]."""
    library = gmpy2()
    if library is None:
        raw = b"".join(value.to_bytes(width, "little") for value in values)
    else:
        raw = b"".join(library.to_binary(value)[2:].ljust(width, b"\0") for value in values)
    return np.frombuffer(raw, np.uint8).reshape(len(values), width).copy()


def from_rows(rows: Bytes, width: int) -> list[Number]:
    """The numbers of bytes of which each has so many, little end first."""
    raw, library = rows.tobytes(), gmpy2()
    parts = (raw[at : at + width] for at in range(0, len(raw), width))
    if library is None:
        return [int.from_bytes(part, "little") for part in parts]
    return [library.from_binary(b"\x01\x01" + part) for part in parts]
