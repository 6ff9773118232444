"""Keys of encryption that adds: Okamoto-Uchiyama and Paillier, from a secret of 32 bytes.

Okamoto and Uchiyama 1998: n = p^2 q, a message m below p is g^m h^r mod n with h = g^n; it is read back as
L(c^(p-1) mod p^2) / L(g^(p-1) mod p^2) mod p, where L(x) = (x - 1) / p. Paillier 1999: n = p q, and a message
below n is (1 + n)^m h^r mod n^2 with h an n-th power, read back likewise by p and by q. Both hide a message from
those who only see ciphertexts, and from nobody who may ask for decryptions: p follows from one that was chosen
well. That a single message stays hidden rests on an assumption: powers of h cannot be told from other numbers.

A departure from both papers: exponents r have 256 bits (``short``), which takes it that powers of h of such
exponents cannot be told from all its powers; ``full`` has exponents as long as n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.fixed_base import Powers
from unalike.secure.crypto.integers import (
    Number,
    common_divisor,
    from_rows,
    inverse,
    new_prime,
    number,
    power,
    to_rows,
    uniform,
)
from unalike.secure.crypto.primitives import stream

Cipher = Literal["okamoto-uchiyama", "paillier"]
Exponents = Literal["short", "full"]
Bytes = NDArray[np.uint8]
SHORT: Final = 256
"""Bits of a short exponent: twice those of the security that keys of 3,072 bits have."""
LEAST_BITS: Final = 256
"""Keys of fewer bits have no room for a message; safe ones have many more, see :data:`SAFE_BITS`."""
SAFE_BITS: Final = 3072
"""Keys of so many bits take about 2^128 steps to break; 2,048 bits take 2^112."""
MOST_BITS: Final = 16_384
"""Longer keys protect no better against anybody, and their primes take minutes to hours to find."""


@dataclass(frozen=True, eq=False)
class PublicKey:
    """What others need to add, multiply and hide: ``g`` encrypts 1, and powers of ``h`` encrypt 0.

    ``room``: messages from -2^room to 2^room, both aside, are read back as they were.
    """

    cipher: Cipher
    bits: int
    n: Number
    g: Number
    h: Number
    exponents: Exponents = "short"
    kept: dict[int, Powers] = field(default_factory=dict, repr=False)

    @property
    def modulus(self) -> Number:
        """What ciphertexts are multiplied by: n, or for Paillier its square."""
        return self.n if self.cipher == "okamoto-uchiyama" else self.n * self.n

    @property
    def room(self) -> int:
        """The bits of the greatest message, without its sign."""
        return self.bits // 3 - 2 if self.cipher == "okamoto-uchiyama" else self.bits - 2

    @property
    def width(self) -> int:
        """The bytes of a ciphertext."""
        return (self.bits + 7) // 8 * (1 if self.cipher == "okamoto-uchiyama" else 2)

    def to_array(self) -> Bytes:
        """The key as bytes for mail, uint8 [3, width]."""
        return to_rows([self.n, self.g, self.h], self.width)

    def zeros(self, secret: bytes, count: int) -> list[Number]:
        """So many fresh encryptions of 0, drawn from a secret that is used for nothing else."""
        most = 1 << count.bit_length()  # what is drawn follows from the count alone, not from what is kept
        if most not in self.kept:
            self.kept[most] = Powers(self.h, self.modulus, self.exponent_bits, most)
        return self.kept[most].random(stream(secret), count)

    @property
    def exponent_bits(self) -> int:
        """The bits of an exponent that hides a message."""
        return SHORT if self.exponents == "short" else self.bits + 64


@dataclass(frozen=True, eq=False)
class Prime:
    """One of the key's primes that a message is read by: ``kind`` is what ``g`` is there, 1 + kind p by p^2."""

    p: Number
    square: Number
    kind: Number
    back: Number
    """What L(c^(p-1)) is multiplied by to have the message."""
    hiding: Number
    """``h`` by p^2: powers of it hide."""
    kept: dict[int, Powers] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, p: Number, g: Number, h: Number) -> Prime:
        """What follows from a prime and the public numbers; CryptoError where ``g`` encrypts nothing."""
        square = p * p
        seen = (power(g, p - 1, square) - 1) // p % p
        if not seen:
            raise CryptoError("The number g is of the wrong kind for this prime.")
        back = inverse(seen, p)
        return cls(p, square, seen * inverse(p - 1, p) % p, back, h % square)

    def hidden(self, following: Callable[[int], bytes], count: int, bits: int) -> list[Number]:
        """So many random powers of ``h`` by p^2, of exponents of so many bits."""
        most = 1 << count.bit_length()
        if most not in self.kept:
            self.kept[most] = Powers(self.hiding, self.square, min(bits, int(self.p).bit_length() + 64), most)
        return self.kept[most].random(following, count)

    def read(self, ciphertext: Number) -> Number:
        """The message by this prime: a number from 0 to p."""
        return (power(ciphertext, self.p - 1, self.square) - 1) // self.p * self.back % self.p


@dataclass(frozen=True, eq=False)
class SecretKeys:
    """Both keys of somebody who decrypts. ``rest`` is q in n = p^2 q, and 1 for Paillier, who has both primes."""

    public: PublicKey
    primes: tuple[Prime, ...]
    rest: Number


def make_keys(
    secret: bytes,
    bits: int = SAFE_BITS,
    cipher: Cipher = "okamoto-uchiyama",
    exponents: Exponents = "short",
) -> SecretKeys:
    """The keys that follow from a secret: always the same, and no others with the same primes."""
    if cipher not in get_args(Cipher) or exponents not in get_args(Exponents):
        raise CryptoError(f"There is no cipher {cipher!r} with exponents {exponents!r}.")
    if bits < LEAST_BITS:
        raise CryptoError(f"Keys of {bits} bits have no room for a message. Use {SAFE_BITS}.")
    following = stream(secret)
    of_three = cipher == "okamoto-uchiyama"
    size = bits // 3 if of_three else bits // 2
    p, q = new_prime(following, size), new_prime(following, bits - size * (2 if of_three else 1))
    if p == q:
        raise CryptoError("Both primes of a key are the same: the secret is not random.")
    n = p * p * q if of_three else p * q
    modulus = n if of_three else n * n
    drawn = uniform(following, 1, modulus - 2)[0] + 2
    g, h = (drawn, power(drawn, n, n)) if of_three else (n + 1, power(drawn * drawn, n, modulus))
    public = PublicKey(cipher, bits, n, g, h, exponents)
    own = [Prime.of(prime, g, h) for prime in ((p,) if of_three else (p, q))]
    return SecretKeys(public, tuple(own), q if of_three else number(1))


def read_public(
    array: Bytes,
    bits: int = SAFE_BITS,
    cipher: Cipher = "okamoto-uchiyama",
    exponents: Exponents = "short",
) -> PublicKey:
    """The public key that :meth:`PublicKey.to_array` has written, if it is one of so many bits."""
    empty = PublicKey(cipher, bits, number(0), number(0), number(0), exponents)
    if array.dtype != np.uint8 or array.shape != (3, empty.width):
        raise CryptoError(f"A key of {bits} bits is uint8 (3, {empty.width}), not {array.dtype} {array.shape}.")
    n, g, h = from_rows(array, empty.width)
    key = PublicKey(cipher, bits, n, g, h, exponents)
    sound = int(n).bit_length() == bits and n % 2 == 1
    if not sound or not all(1 < x < key.modulus and common_divisor(x, n) == 1 for x in (g, h)):
        raise CryptoError(f"The numbers of the key are none of a key of {bits} bits.")
    if cipher == "paillier" and g != n + 1:
        raise CryptoError("The number g of a Paillier key must be n + 1.")
    return key
