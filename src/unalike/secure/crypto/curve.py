"""Points of Curve25519 for matching ids: texts hashed to points, powers of points, and powers that are undone.

A power is an X25519 agreement (RFC 7748) of the library ``cryptography``. Its scalars are clamped, so all are
multiples of 8: they commute, and leave nothing of a point's part of low order. A number that is no point of the
curve is one of its twist, and so are all its powers: a hash that ignored that would show one bit of every id.
"""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from hashlib import sha256
from typing import Any

from unalike.secure.crypto.primitives import KEY_BYTES, agreement

PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of the subgroup that every power is in."""
_A = 486662
_HASH, _SCALAR = b"unalike point", b"unalike scalar"
_MOST_TRIES = 512
_PART = 2000
"""Points that a process takes at a time."""


def is_on_curve(u: int) -> bool:
    """Whether ``u`` is the coordinate of a point on the curve: not one of its twist, and not zero."""
    return quickest_jacobi()((u * u * u + _A * u * u + u) % PRIME, PRIME) == 1


def hashed(session: bytes, text: bytes) -> bytes:
    """The point of a text in a session: the first of its SHA-256 hashes, by a counter, that is on the curve."""
    return _hashed_part(session, [text])[0]


def hashed_all(session: bytes, texts: Sequence[bytes], workers: int = 1) -> list[bytes]:
    """The points of all texts, in their order."""
    return _over(_hashed_part, session, texts, workers)


def powers(scalar: bytes, points: Sequence[bytes], workers: int = 1) -> list[bytes]:
    """Every point to the power of a scalar, in order; CryptoError for one that is malformed or of low order."""
    return _over(_powers_part, scalar, points, workers)


def scalar(secret: bytes, use: bytes) -> bytes:
    """A scalar for one use from a secret."""
    return _clamped(sha256(_SCALAR + secret + use).digest())


def blinding(secret: bytes, use: bytes) -> tuple[bytes, bytes]:
    """Two scalars for one use from a secret: a power of the second undoes one of the first.

    Every other scalar has no inverse that is clamped too, so some are tried until one has.
    """
    for counter in range(2**16):
        first = scalar(secret, use + counter.to_bytes(4, "big"))
        eighth = pow(8 * int.from_bytes(first, "little"), -1, ORDER)
        if 2**251 <= eighth < 2**252:
            return first, (8 * eighth).to_bytes(KEY_BYTES, "little")
    raise AssertionError("one of two scalars has an inverse")


def _clamped(raw: bytes) -> bytes:
    """The scalar that X25519 takes for these 32 bytes."""
    return bytes([raw[0] & 248, *raw[1:31], raw[31] & 127 | 64])


def _hashed_part(session: bytes, texts: Sequence[bytes]) -> list[bytes]:
    start, jacobi = sha256(_HASH + len(session).to_bytes(4, "big") + session), quickest_jacobi()
    counters = [counter.to_bytes(4, "big") for counter in range(_MOST_TRIES)]
    found = []
    for text in texts:
        for counter in counters:
            one = start.copy()
            one.update(counter + text)
            u = int.from_bytes(one.digest(), "little") & (2**255 - 1)
            if u < PRIME and jacobi(u * (u * (u + _A) + 1), PRIME) == 1:
                found.append(u.to_bytes(KEY_BYTES, "little"))
                break
        else:
            raise AssertionError("one of two hashes is on the curve")
    return found


def _powers_part(scalar: bytes, points: Sequence[bytes]) -> list[bytes]:
    power = agreement(scalar)
    return [power(point) for point in points]


def _over(
    work: Callable[[bytes, Sequence[bytes]], list[bytes]], first: bytes, items: Sequence[bytes], workers: int
) -> list[bytes]:
    """The work on all items, by some processes where there are enough of them."""
    if workers < 2 or len(items) <= _PART:
        return work(first, items)
    parts = [items[at : at + _PART] for at in range(0, len(items), _PART)]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        return [one for part in pool.map(work, [first] * len(parts), parts) for one in part]


@cache
def quickest_jacobi() -> Callable[[int, int], int]:
    """The quickest way here to see whether a number is a square modulo a prime."""
    try:
        found: Any = importlib.import_module("gmpy2").jacobi
    except ImportError:
        return jacobi
    return found  # type: ignore[no-any-return]


def jacobi(a: int, n: int) -> int:
    """The Jacobi symbol of ``a`` modulo an odd ``n``: modulo a prime, 1 for squares and -1 for others."""
    a, sign = a % n, 1
    while a:
        twos = (a & -a).bit_length() - 1
        a >>= twos
        if twos & 1 and n & 7 in (3, 5):
            sign = -sign
        if a & 3 == 3 and n & 3 == 3:
            sign = -sign
        a, n = n % a, a
    return sign if n == 1 else 0
