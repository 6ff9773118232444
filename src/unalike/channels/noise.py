"""Noise on a clipped upload: Gaussian or Laplace, at the server, at every party, or in shares."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from unalike.channels.channel import register_channel
from unalike.channels.layout import Array
from unalike.channels.stage import Noise, Norm, Where
from unalike.errors import UserError


@register_channel("gauss", paper="McMahan et al. 2018, arXiv:1710.06963; Dwork and Roth 2014, appendix A")
class Gauss(Noise):
    """Gaussian noise of deviation ``multiplier`` x the l2 clip: by the server, each party, or in shares."""

    multiplier: float
    where: Where = "server"
    delta: float = 1e-5
    needs: ClassVar[Norm] = "l2"

    def __post_init__(self) -> None:
        check_noise(self, "gauss")

    def draw(self, count: int, scale: float, shares: int, random: np.random.Generator) -> Array:
        """Normal numbers; variances of independent ones add up."""
        return random.normal(0.0, scale / math.sqrt(shares), count)


@register_channel("laplace", paper="Dwork et al. 2006, doi:10.1007/11681878_14")
class Laplace(Noise):
    """Laplace noise of scale ``multiplier`` x the l1 clip: by the server, each party, or in shares."""

    multiplier: float
    where: Where = "server"
    delta: float = 1e-5
    needs: ClassVar[Norm] = "l1"

    def __post_init__(self) -> None:
        check_noise(self, "laplace")

    def draw(self, count: int, scale: float, shares: int, random: np.random.Generator) -> Array:
        """Laplace numbers; a share is the difference of two Gamma(1/shares) ones, which add up to Laplace."""
        if shares == 1:
            return random.laplace(0.0, scale, count)
        return random.gamma(1 / shares, scale, count) - random.gamma(1 / shares, scale, count)


def check_noise(noise: Noise, name: str) -> None:
    """Refuse noise that is none, and a delta that promises nothing."""
    if not 0 < noise.multiplier < math.inf:
        raise UserError(f"{name}'s multiplier must be above 0, got {noise.multiplier}. Leave {name} out for none.")
    if not 0 < noise.delta < 1:
        raise UserError(f"{name}'s delta must be between 0 and 1, got {noise.delta}. Use 1e-5.")
