"""Only the largest entries are sent; what was left out is added to the next upload."""

from __future__ import annotations

import math

import numpy as np

from unalike.channels import packing
from unalike.channels.channel import register_channel
from unalike.channels.errors import ChannelError
from unalike.channels.layout import Array
from unalike.channels.stage import Coder, Sparse
from unalike.errors import UserError


@register_channel("topk", paper="Stich et al. 2018, arXiv:1809.07599")
class TopK(Sparse):
    """Sends the ``fraction`` of entries that are largest; the party keeps the rest and adds it next time."""

    fraction: float

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise UserError(f"topk's fraction must be above 0 and at most 1, got {self.fraction}. Try topk(0.01).")

    def count(self, size: int) -> int:
        """How many of so many entries are sent."""
        return math.ceil(self.fraction * size)

    def encode(self, vector: Array, values: Coder, random: np.random.Generator) -> bytes:
        """The places, then the values at them in order."""
        size, count = len(vector), self.count(len(vector))
        places = np.sort(np.argpartition(-np.abs(vector), count - 1)[:count]) if count else np.empty(0, np.int64)
        if _as_bitmap(size, count):
            chosen = np.zeros(size, np.int64)
            chosen[places] = 1
            head = packing.pack(chosen, 1)
        else:
            head = packing.pack(places.astype(np.int64), _width(size))
        return head + values.encode(vector[places], random)

    def decode(self, data: bytes, size: int, item: np.dtype[np.generic], values: Coder) -> Array:
        """The vector, with zeros for what was not sent."""
        count = self.count(size)
        bitmap = _as_bitmap(size, count)
        length = packing.packed_bytes(size, 1) if bitmap else packing.packed_bytes(count, _width(size))
        if len(data) < length:
            raise ChannelError(f"The message must begin with {length} bytes of places, got {len(data)}.")
        head, rest = data[:length], data[length:]
        if bitmap:
            places = np.flatnonzero(packing.unpack(head, size, 1))
        else:
            places = packing.unpack(head, count, _width(size))
        if len(places) != count or (np.diff(places) <= 0).any() or (places >= size).any():
            raise ChannelError(f"The message must name {count} different places below {size}, in order.")
        vector = np.zeros(size, item.newbyteorder("="))
        vector[places] = values.decode(rest, count, item)
        return vector


def _width(size: int) -> int:
    """How many bits the number of a place needs in a vector of this size."""
    return max(1, (size - 1).bit_length())


def _as_bitmap(size: int, count: int) -> bool:
    """Whether one bit for every entry is shorter than a list of places."""
    return size <= count * _width(size)
