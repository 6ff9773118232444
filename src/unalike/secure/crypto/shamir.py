"""Secret sharing: any ``threshold`` of the shares give the secret, fewer tell nothing about it.

Shamir 1979, "How to share a secret". The secret is the value at 0 of a random polynomial of degree
``threshold - 1`` over the integers modulo the prime 2^256 + 297; the share of holder x is the value at x. A byte
string is cut into blocks of 32 bytes, each with a polynomial of its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from unalike.secure.crypto.errors import CryptoError

PRIME = 2**256 + 297
BLOCK_BYTES = 32
VALUE_BYTES = 33
"""Bytes of a share for each block of the secret."""
MOST_HOLDERS = 2**16 - 1


@dataclass(frozen=True)
class Share:
    """What one holder keeps: the point ``x`` (1 or more) and the polynomials' values there."""

    x: int
    values: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.x <= MOST_HOLDERS:
            raise CryptoError(f"A share's x must be in 1..{MOST_HOLDERS}, got {self.x}.")
        if not self.values or len(self.values) % VALUE_BYTES:
            raise CryptoError(f"A share must have a multiple of {VALUE_BYTES} bytes, got {len(self.values)}.")
        if max(self.numbers()) >= PRIME:
            raise CryptoError("A share's value is not below the prime of the field.")

    def numbers(self) -> list[int]:
        """The values as integers, one for each block of the secret."""
        return [int.from_bytes(block, "big") for block in _blocks(self.values, VALUE_BYTES)]


def share_bytes(secret_bytes: int) -> int:
    """How many bytes a share of a secret of so many bytes has."""
    return -(-secret_bytes // BLOCK_BYTES) * VALUE_BYTES


def split(
    secret: bytes, threshold: int, holders: Iterable[int], draw: Callable[[int], int] = secrets.randbelow
) -> list[Share]:
    """Shares of a secret for the holders' points, of which any ``threshold`` give it back.

    draw: gives a uniform number below its argument.
    """
    points = list(holders)
    if not secret:
        raise CryptoError("There is nothing to share: the secret is empty.")
    if not 1 <= threshold <= len(points):
        raise CryptoError(f"The threshold must be in 1..{len(points)} (the holders), got {threshold}.")
    if len(set(points)) != len(points) or min(points) < 1 or max(points) > MOST_HOLDERS:
        raise CryptoError(f"Holders must be distinct points in 1..{MOST_HOLDERS}.")
    polynomials = []
    for block in _blocks(secret, BLOCK_BYTES):
        above = [draw(PRIME) for _ in range(threshold - 1)]
        polynomials.append([int.from_bytes(block, "big"), *above])
    return [Share(x, b"".join(_value(p, x).to_bytes(VALUE_BYTES, "big") for p in polynomials)) for x in points]


def reconstruct(shares: Sequence[Share], threshold: int, size: int) -> bytes:
    """The secret of ``size`` bytes. More shares than the threshold are welcome; the first ones are used."""
    if len({share.x for share in shares}) != len(shares):
        raise CryptoError("Two shares are of the same holder.")
    if threshold < 1 or len(shares) < threshold:
        raise CryptoError(f"{threshold} shares are needed, got {len(shares)}.")
    if {len(share.values) for share in shares} != {share_bytes(size)}:
        raise CryptoError(f"Every share of a secret of {size} bytes must have {share_bytes(size)} bytes.")
    used = shares[:threshold]
    weights = _weights_at_zero(tuple(share.x for share in used))
    columns = zip(*(share.numbers() for share in used), strict=True)
    blocks = [sum(w * value for w, value in zip(weights, column, strict=True)) % PRIME for column in columns]
    sizes = [BLOCK_BYTES] * (size // BLOCK_BYTES) + [size % BLOCK_BYTES] * (size % BLOCK_BYTES > 0)
    try:
        return b"".join(block.to_bytes(count, "big") for block, count in zip(blocks, sizes, strict=True))
    except OverflowError as error:
        raise CryptoError("The shares do not fit together: they give no secret of that size.") from error


def _value(coefficients: Sequence[int], x: int, prime: int = PRIME) -> int:
    """The polynomial at x (Horner's rule)."""
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % prime
    return value


@lru_cache(maxsize=64)
def _weights_at_zero(points: tuple[int, ...], prime: int = PRIME) -> tuple[int, ...]:
    """Lagrange's weights: the value at 0 is their scalar product with the values at ``points``."""
    weights = []
    for i, x in enumerate(points):
        above = below = 1
        for j, other in enumerate(points):
            if i != j:
                above = above * other % prime
                below = below * (other - x) % prime
        weights.append(above * pow(below, -1, prime) % prime)
    return tuple(weights)


def _blocks(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]
