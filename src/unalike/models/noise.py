"""Random numbers for pure methods: a function of a key, so that every engine draws the same.

Counter-based: number i of a key is SplitMix64's i-th output (Steele, Lea and Flood 2014), in ordinary tensor
arithmetic that works for one party and for a stack of them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_GAMMA, _FIRST, _SECOND = (
    value - 2**64 if value >= 2**63 else value  # the same bits as a signed number
    for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)

_STRIDE = 0x5851F42D4C957F2D
"""What a key moves by from one step to the next: an odd number, so that 2^64 steps have different keys."""


def key_of_step(key: Tensor, step: int) -> Tensor:
    """The key of a step of local training: steps draw different numbers."""
    moved = (step + 1) * _STRIDE % 2**64
    return key + (moved - 2**64 if moved >= 2**63 else moved)


def uniform(key: Tensor, count: int, which: int, dtype: torch.dtype) -> Tensor:
    """``count`` numbers in [0, 1); ``which`` tells independent draws of one key apart."""
    place = torch.arange(count, device=key.device) + (which * 2**32 + 1)
    z = key + place * _GAMMA
    z = (z ^ _shift(z, 30)) * _FIRST
    z = (z ^ _shift(z, 27)) * _SECOND
    z = z ^ _shift(z, 31)
    bits = 53 if dtype == torch.float64 else 24
    return _shift(z, 64 - bits).to(dtype) * 2.0**-bits


def normal(key: Tensor, count: int, which: int, dtype: torch.dtype) -> Tensor:
    """``count`` standard normal numbers (Box and Muller 1958)."""
    radius = torch.sqrt(-2 * torch.log1p(-uniform(key, count, 2 * which, dtype)))
    return radius * torch.cos(2 * math.pi * uniform(key, count, 2 * which + 1, dtype))


def _shift(z: Tensor, bits: int) -> Tensor:
    """A right shift that fills up with zeros."""
    return torch.bitwise_and(z >> bits, 2 ** (64 - bits) - 1)
