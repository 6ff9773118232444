"""TernGrad: every entry is minus, nothing or plus."""

from __future__ import annotations

import numpy as np

from unalike.channels import packing
from unalike.channels.channel import register_channel
from unalike.channels.layout import Array
from unalike.channels.quantise import from_levels, read_scales, to_levels
from unalike.channels.stage import Coder


@register_channel("ternary", paper="Wen et al. 2017 (TernGrad), arXiv:1705.07878")
class Ternary(Coder):
    """Rounds each entry at random to -s, 0 or s, s its block's largest: P(not 0) = |v| / s. 1.6 bits an entry.

    The paper has one s for a layer and clips gradients at 2.5 standard deviations first, which is not done here:
    it would bias the sum. Here 512 entries share an s.
    """

    def encode(self, vector: Array, random: np.random.Generator) -> bytes:
        """The scale of every block, then the signs, five to a byte."""
        scales, signs = to_levels(vector, 1, random)
        return scales.astype(vector.dtype.newbyteorder("<")).tobytes() + packing.pack_trits(signs + 1)

    def decode(self, data: bytes, size: int, item: np.dtype[np.generic]) -> Array:
        """The entries as they were rounded; bytes that ``encode`` cannot have made are refused."""
        scales, rest = read_scales(data, size, item)
        return from_levels(scales, packing.unpack_trits(rest, size) - 1, 1, item)
