"""Powers of one number, many times: its powers by every digit of an exponent are kept in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil

import numpy as np

from unalike.secure.crypto.integers import Number, inverse, number

MOST_WINDOW = 13
"""Bits of a digit at most: a table of more does not fit into a processor's cache."""


def best_window(bits: int, count: int) -> int:
    """The bits of a digit with which a table and so many powers take the fewest multiplications."""
    return min(range(2, MOST_WINDOW + 1), key=lambda w: (ceil(bits / w) * (count + 2**w), w))


class Powers:
    """Powers of ``base`` by a modulus, of exponents that are drawn at random or are signed integers.

    Row ``i`` of the table has the powers of ``base`` to the power of 2^(window i). A random exponent is as many
    uniform digits as there are rows. A signed one has digits from -2^(window - 1) on, so that small numbers of
    either sign have few digits that are not zero.
    """

    def __init__(self, base: Number, modulus: Number, bits: int, count: int, signed: bool = False) -> None:
        self.modulus, self.signed = modulus, signed
        self.window = best_window(bits, count)
        self.size = ceil((bits + signed) / self.window)
        self.rows: list[list[Number]] = []
        for _ in range(self.size):
            row, base = self._row(base)
            self.rows.append(row)

    def _row(self, base: Number) -> tuple[list[Number], Number]:
        """The powers of a base by one digit, and the base of the next."""
        size = 1 << self.window
        row = [number(1)]
        for _ in range(size // 2 if self.signed else size - 1):
            row.append(row[-1] * base % self.modulus)
        if not self.signed:
            return row, row[-1] * base % self.modulus
        back, below = inverse(base, self.modulus), [number(1)]
        for _ in range(size // 2):
            below.append(below[-1] * back % self.modulus)
        # A digit is looked up as it is in Python: negative ones count from the end.
        return row[: size // 2] + below[:0:-1], row[size // 2] * row[size // 2] % self.modulus

    def random(self, following: Callable[[int], bytes], count: int) -> list[Number]:
        """Powers of so many exponents drawn from a stream of random bytes."""
        words = np.frombuffer(following(2 * count * self.size), "<u2") & ((1 << self.window) - 1)
        modulus, (first, *rest), found = self.modulus, self.rows, []
        for digits in words.reshape(count, self.size).tolist():
            value = first[digits[0]]
            for row, digit in zip(rest, digits[1:], strict=True):
                value = value * row[digit] % modulus
            found.append(value)
        return found

    def of(self, exponents: Iterable[int]) -> list[Number]:
        """The powers of signed exponents; one that is too long for the table is an error of the caller."""
        half, mask, found = 1 << (self.window - 1), (1 << self.window) - 1, []
        for exponent in exponents:
            value, rest = number(1), int(exponent)
            for row in self.rows:
                if not rest:
                    break
                digit = ((rest + half) & mask) - half
                rest = (rest - digit) >> self.window
                if digit:
                    value = value * row[digit] % self.modulus
            if rest:
                raise ValueError(f"The exponent {exponent} is too long for this table.")
            found.append(value)
        return found
