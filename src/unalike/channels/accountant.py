"""How much the noise of a channel hides: epsilon at a stated delta, for the parties' participation as it is.

A party's whole upload is protected. With all parties in every round, a neighbour is the same federation with one
party more or less, and k exchanges of noise z C are one with z / sqrt(k). With cohorts of a fixed size the
*number* of parties is public and a neighbour has one party *replaced*, which moves the sum by up to 2 C. Two
bounds hold then, and the smaller one counts: what sampling without replacement gives to those who do not know the
cohorts (Wang, Balle and Kasiviswanathan 2019, arXiv:1808.00087, theorem 27), and plain composition over the
exchanges of the party that took part most often. The figure for Poisson sampling is lower than either, and is not
the one for such cohorts. Between real sites the cohorts are known: they derive from the seed in the plan that all
have, so only the second bound is claimed. Noise that every party adds itself protects its upload from whoever sees
it; it too is replaced, and no sampling is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from unalike.channels.channel import Channel
from unalike.channels.noise import Laplace
from unalike.secure.crypto.errors import library

ORDERS = (*(1 + x / 4 for x in range(1, 28)), *range(8, 33, 2), 40, 48, 64, 96, 128, 256)
"""Orders of Rényi divergence that are tried: fewer than dp-accounting's, which take half a second a round."""
_HOPELESS = 1e-2  # noise over sensitivity; epsilon is beyond 5,000
_INTERVAL = 1e-3  # of privacy loss distributions; whatever it is, they round up


@dataclass(frozen=True)
class Participation:
    """What took place so far: how many rounds had how many exchanges, and the most of one party."""

    rounds: Mapping[int, int]
    """exchanges in a round -> how many such rounds there were"""
    most: int
    """exchanges of the party that took part most often"""

    @property
    def exchanges(self) -> int:
        """How many exchanges there were in all rounds together."""
        return sum(count * rounds for count, rounds in self.rounds.items())


@dataclass(frozen=True)
class Accountant:
    """The privacy of a channel in a federation of so many parties with cohorts of this size.

    ``known``: whoever sees the result may know who was in which cohort.
    """

    channel: Channel
    population: int
    cohort: int
    known: bool = False

    @property
    def neighbours(self) -> Literal["one party more or less", "one party replaced"]:
        """What two federations that must look alike differ in."""
        noise = self.channel.noise
        whole = noise is not None and noise.where != "party" and self.cohort == self.population
        return "one party more or less" if whole else "one party replaced"

    def epsilon(self, done: Participation) -> float | None:
        """Epsilon at the noise's delta; None where there is no noise."""
        noise = self.channel.noise
        if noise is None:
            return None
        if not done.exchanges:
            return 0.0
        laplace = isinstance(noise, Laplace)
        composed = laplace_epsilon if laplace else gauss_epsilon
        if self.neighbours == "one party more or less":
            return composed(noise.multiplier, done.exchanges, noise.delta)
        half = noise.multiplier / 2  # replaced: the sum moves by twice the clip
        plain = composed(half, done.most, noise.delta)
        if laplace or noise.where == "party" or self.known:
            return plain
        rounds = tuple(sorted(done.rounds.items()))
        return min(plain, sampled_epsilon(half, self.population, self.cohort, rounds, noise.delta))


@cache
def gauss_epsilon(multiplier: float, count: int, delta: float) -> float:
    """Of ``count`` Gaussian mechanisms, exactly (Balle and Wang 2018, arXiv:1805.06530)."""
    if not count:
        return 0.0
    ratio = multiplier / math.sqrt(count)
    if ratio < _HOPELESS:  # from concentrated privacy, arXiv:1605.02065: the search would not find it
        return 1 / (2 * ratio**2) + math.sqrt(2 * math.log(1 / delta)) / ratio
    return float(_accounting().get_epsilon_gaussian(ratio, delta))


@cache
def laplace_epsilon(multiplier: float, count: int, delta: float) -> float:
    """Of ``count`` Laplace mechanisms on l1 norms, by their privacy loss distribution; rounded up."""
    if not count:
        return 0.0
    simple = count / multiplier  # pure: delta 0
    if simple > 50:  # the distribution would be too wide to be computed quickly
        return min(simple, _laplace_renyi(multiplier, count, delta))
    accountant = library("dp_accounting.pld").PLDAccountant(value_discretization_interval=_INTERVAL)
    accountant.compose(_accounting().LaplaceDpEvent(multiplier), count)
    return min(simple, float(accountant.get_epsilon(delta)))


@cache
def sampled_epsilon(
    ratio: float, population: int, cohort: int, rounds: tuple[tuple[int, int], ...], delta: float
) -> float:
    """Of cohorts without replacement; ``ratio`` is the noise over what replacing one party changes.

    Exchanges of one round have the same cohort: they are one Gaussian mechanism, not several samples.
    """
    dp = _accounting()
    accountant = library("dp_accounting.rdp").RdpAccountant(ORDERS, dp.NeighboringRelation.REPLACE_ONE)
    for exchanges, count in rounds:
        event = dp.GaussianDpEvent(ratio / math.sqrt(exchanges))
        accountant.compose(dp.SampledWithoutReplacementDpEvent(population, cohort, event), count)
    return float(accountant.get_epsilon(delta))


def _laplace_renyi(multiplier: float, count: int, delta: float) -> float:
    accountant = library("dp_accounting.rdp").RdpAccountant(ORDERS)
    accountant.compose(_accounting().LaplaceDpEvent(multiplier), count)
    return float(accountant.get_epsilon(delta))


def _accounting() -> Any:
    return library("dp_accounting")
