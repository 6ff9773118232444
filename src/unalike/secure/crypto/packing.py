"""Several signed integers in one ciphertext, and small ones in one integer: digits that are added apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from unalike.secure.crypto.additive import Ciphers
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.integers import number, power


@dataclass(frozen=True)
class Packing:
    """Signed integers below 2^(bits - 1), so many to a ciphertext as a key has room for.

    The first has the lowest digits. Nothing is added to make them positive: the digits are read from the lowest,
    each as the one that is nearest to 0, and what it borrowed is given back to the next.
    """

    bits: int
    room: int

    def __post_init__(self) -> None:
        if self.each < 1:
            raise CryptoError(
                f"Sums of {self.bits} bits do not fit into a ciphertext, which has room for {self.room}. "
                "Use a key of more bits."
            )

    @property
    def each(self) -> int:
        """How many integers a ciphertext has room for."""
        return self.room // self.bits

    def ciphertexts(self, count: int) -> int:
        """How many ciphertexts so many integers make."""
        return -(-count // self.each)

    def packed(self, ciphers: Ciphers) -> Ciphers:
        """The ciphers, several in one, by shifts: each is multiplied by a power of two."""
        modulus, shift, found = ciphers.public.modulus, number(1 << self.bits), []
        for begin in range(0, len(ciphers), self.each):
            *lower, total = ciphers.values[begin : begin + self.each]
            for value in reversed(lower):
                total = power(total, shift, modulus) * value % modulus
            found.append(total)
        return Ciphers(ciphers.public, found)

    def unpacked(self, integers: Sequence[int], count: int) -> list[int]:
        """The integers that were packed, so many; CryptoError where there is more in them."""
        if len(integers) != self.ciphertexts(count):
            raise CryptoError(f"{count} sums make {self.ciphertexts(count)} ciphertexts, not {len(integers)}.")
        found: list[int] = []
        for place, integer in enumerate(integers):
            own = min(self.each, count - place * self.each)
            found += digits(integer, [self.bits] * own)
        return found


def digits(integer: int, bits: Iterable[int]) -> list[int]:
    """Signed digits of these widths, from the lowest; CryptoError where they are not the whole of it."""
    found, rest = [], int(integer)
    for width in bits:
        half = 1 << (width - 1)
        digit = ((rest + half) & (2 * half - 1)) - half
        rest = (rest - digit) >> width
        found.append(digit)
    if rest:
        raise CryptoError("An encrypted sum is greater than it can be.")
    return found
