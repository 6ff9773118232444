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

_STEP, _PHASE = 0x5851F42D4C957F2D, 0x2545F4914F6CDD1D
"""What a key moves by from one step, or phase, to the next: odd numbers, so that 2^64 have different keys."""


def key_of_step(key: Tensor, step: int) -> Tensor:
    """The key of a step of local training: steps draw different numbers."""
    return key + _signed((step + 1) * _STEP)


def key_of_phase(key: Tensor, later: int) -> Tensor:
    """The key of a phase that so many others follow: the last one has that of a training of one phase."""
    return key + _signed(later * _PHASE)


def _signed(value: int) -> int:
    """The same 64 bits as a signed number."""
    value %= 2**64
    return value - 2**64 if value >= 2**63 else value


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
