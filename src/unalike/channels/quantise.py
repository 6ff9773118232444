"""Numbers rounded at random to a few levels: right on average, and a few bits each."""

from __future__ import annotations

import numpy as np

from unalike.channels import packing
from unalike.channels.channel import register_channel
from unalike.channels.errors import ChannelError
from unalike.channels.layout import Array
from unalike.channels.stage import Coder
from unalike.errors import UserError

BLOCK = 512
"""Entries that share a scale, as in QSGD's buckets."""


@register_channel("quantise", paper="Alistarh et al. 2017 (QSGD), arXiv:1610.02132")
class Quantise(Coder):
    """Rounds each entry at random, without bias, to one of 2^bits - 1 levels of its block of 512 entries."""

    bits: int = 8

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 16:
            raise UserError(f"quantise's bits must be from 2 to 16, got {self.bits}. For less use ternary.")

    @property
    def levels(self) -> int:
        """Levels on each side of zero."""
        return int(2 ** (self.bits - 1) - 1)

    def encode(self, vector: Array, random: np.random.Generator) -> bytes:
        """The scale of every block, then the levels, packed."""
        scales, steps = to_levels(vector, self.levels, random)
        return scales.astype(vector.dtype.newbyteorder("<")).tobytes() + packing.pack(
            steps + self.levels, self.bits
        )

    def decode(self, data: bytes, size: int, item: np.dtype[np.generic]) -> Array:
        """The entries as they were rounded; bytes that ``encode`` cannot have made are refused."""
        scales, rest = read_scales(data, size, item)
        steps = packing.unpack(rest, size, self.bits) - self.levels
        if (steps > self.levels).any():
            raise ChannelError(f"A quantised number must be at most {self.levels} levels, got {steps.max()}.")
        return from_levels(scales, steps, self.levels, item)


def to_levels(vector: Array, levels: int, random: np.random.Generator) -> tuple[Array, packing.Codes]:
    """The largest absolute value of each block, and every entry as a whole number of its 1/levels."""
    size, blocks = len(vector), -(-len(vector) // BLOCK)
    table = np.zeros((blocks, BLOCK), vector.dtype)
    table.ravel()[:size] = vector
    scales = np.abs(table).max(axis=1, initial=0)
    unit = table.astype(np.float64) / np.where(scales > 0, scales, 1)[:, None].astype(np.float64)
    exact = (unit * levels).ravel()[:size]
    lower = np.floor(exact)
    steps = lower + (random.random(size) < exact - lower)
    return scales, steps.astype(np.int64)


def from_levels(scales: Array, steps: packing.Codes, levels: int, item: np.dtype[np.generic]) -> Array:
    """The entries that ``to_levels`` made these of."""
    each = np.repeat(scales.astype(np.float64), BLOCK)[: len(steps)]
    made: Array = (steps / levels * each).astype(item.newbyteorder("="))
    return made


def read_scales(data: bytes, size: int, item: np.dtype[np.generic]) -> tuple[Array, bytes]:
    """The scales at the start of a message, and the rest of it."""
    length = -(-size // BLOCK) * item.itemsize
    if len(data) < length:
        raise ChannelError(f"The message must begin with {length} bytes of scales, got {len(data)}.")
    scales = np.frombuffer(data[:length], item)
    if not np.isfinite(scales).all() or (scales < 0).any():
        raise ChannelError("The scales of quantised numbers must be finite and not below zero.")
    return scales, data[length:]
