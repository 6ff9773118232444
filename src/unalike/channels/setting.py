"""What both sides of a channel know of an exchange, and where their random numbers come from."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from unalike.errors import UserError
from unalike.randomness import stream

Use = Literal["rounding", "noise"]
Random = Callable[[Use], np.random.Generator]
"""A fresh stream of random numbers for one use in one exchange."""


def secret_random(use: Use) -> np.random.Generator:
    """For real sites: a generator with a key from the operating system, which nobody else can repeat."""
    return np.random.Generator(np.random.Philox(key=secrets.randbits(128)))


@dataclass(frozen=True)
class ChannelSetting:
    """One exchange as both sides of its channel see it.

    cohort: the parties that are expected to answer, a public number.
    scale: a public constant that a fixed-point grid divides weights by: the largest number of training rows.
    round: the round's number; 0 is what prepares. turn: the exchange's number in it.
    party: whose side this is, or on the server's whose message is opened; None for sums.
    seed: a public number, from which both sides draw alike.
    fewest: so many answers make a round; shares of noise are made for them. The whole cohort by default.
    random: where random numbers come from; by default those that nobody can repeat.
    """

    cohort: int
    scale: float = 1.0
    round: int = 0
    turn: int = 0
    party: int | None = None
    fewest: int | None = None
    random: Random = secret_random
    seed: int = 0

    def __post_init__(self) -> None:
        if self.cohort < 1 or not 0 < self.scale < float("inf"):
            raise UserError(f"A channel needs a cohort >= 1 and scale > 0, got {self.cohort} and {self.scale}.")
        if self.fewest is not None and not 1 <= self.fewest <= self.cohort:
            raise UserError(f"fewest must be in 1..{self.cohort}, the cohort, got {self.fewest}.")

    @property
    def quorum(self) -> int:
        """How many answers a round needs at least."""
        return self.cohort if self.fewest is None else self.fewest

    def of(self, party: int | None, random: Random) -> ChannelSetting:
        """The same setting on another side."""
        return replace(self, party=party, random=random)


def simulated_random(seed: int, round: int, turn: int, party: int | None) -> Random:
    """Streams that derive from the seed, so that a run can be repeated. They protect nobody: seeds are known."""

    def random(use: Use) -> np.random.Generator:
        if party is None:
            return stream(seed, "server noise", round, turn)
        return stream(seed, "rounding" if use == "rounding" else "party noise", round, party, turn)

    return random
