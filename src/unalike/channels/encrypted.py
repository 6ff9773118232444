"""A sum of ciphertexts under a key that the server does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import ClassVar, Literal

import numpy as np

from unalike.channels.channel import register_channel
from unalike.channels.masked import check_range
from unalike.channels.setting import ChannelSetting
from unalike.channels.stage import Grid, Hidden, Sum
from unalike.secure import secure_sum
from unalike.secure.crypto import bfv

_LARGE = 1e6  # bytes of a party in an exchange


@register_channel("encrypted", paper="Fan and Vercauteren 2012 (BFV), eprint 2012/144")
class Encrypted(Hidden):
    """Adds uploads on a fixed-point grid under homomorphic encryption: the server sees ciphertexts only.

    A number of the sum has 23 bits and a sign. ``limbs=2`` sends every number as two, high and low, for twice the
    bytes and finer steps.
    """

    limbs: Literal[1, 2] = 1
    range: float = 8.0
    parties_learn: ClassVar[bool] = True  # it is they who decrypt it

    def __post_init__(self) -> None:
        check_range(self, "encrypted")

    def largest(self, cohort: int) -> int:
        """An even part of what the plain modulus holds; with two limbs, what both together hold."""
        share = bfv.HALF // cohort
        return share if self.limbs == 1 else max(0, _base(cohort) * (share - 1))

    def split(self, grid: Grid, cohort: int) -> Grid:
        """All low limbs, then all high ones."""
        if self.limbs == 1:
            return grid
        base = _base(cohort)
        low = (grid + base // 2) % base - base // 2
        return np.concatenate([low, (grid - low) // base])

    def join(self, total: Grid, cohort: int) -> Grid:
        """The sum of whole numbers, put together from the sums of their low and high limbs."""
        if self.limbs == 1:
            return total
        low, high = np.split(total, 2)
        return low + _base(cohort) * high

    def warning(self, size: int) -> str | None:
        """Ciphertexts are large and slow to make."""
        _, most = bfv.encrypted_bytes(self.limbs * size)
        typical = most * 88.6e3 / bfv.LARGEST_CHUNK
        if typical < _LARGE:
            return None
        return f"encrypted: every party encrypts about {typical / 1e6:.1f} MB in each exchange. This is slow."

    def add(self, grids: Sequence[Grid], setting: ChannelSetting) -> Sum:
        """The sum by real ciphertexts and messages between parties and a server.

        The parties decrypt it; one of them then tells the server, in four bytes an entry.
        """
        done = secure_sum(grids, protect="fhe", bound=bfv.HALF, keys=_keys())
        return Sum(done.total, sum(done.bytes_up) + 4 * len(done.total), sum(done.bytes_down))


def _base(cohort: int) -> int:
    """What a high limb counts: the largest power of two whose half each of so many parties may have."""
    return int(2 ** ((2 * (bfv.HALF // cohort)).bit_length() - 1))


@cache
def _keys() -> bfv.Keys:
    """A dealer's keys for simulations: sums do not depend on them."""
    return bfv.deal()
