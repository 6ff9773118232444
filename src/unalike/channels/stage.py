"""The kinds of stages that a channel is made of. Each registered stage is a file of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unalike.channels.layout import Array, Layout
from unalike.channels.packing import expect
from unalike.channels.setting import ChannelSetting

Grid = NDArray[np.int64]
Where = Literal["server", "party", "shared"]
Norm = Literal["l2", "l1"]


class Stage:
    """A part of a channel; stages stand in the order of their ranks."""

    rank: ClassVar[int]


class Bound(Stage, ABC):
    """Limits what one upload can change."""

    rank = 0
    bound: float
    norm: Norm

    @abstractmethod
    def clip(self, vector: Array) -> Array:
        """The vector, made shorter where its norm is beyond the bound."""

    def holds(self, vector: Array) -> bool:
        """Whether a vector keeps to the bound, up to rounding."""
        return bool(np.allclose(self.clip(vector), vector, rtol=1e-5, atol=0))


class Noise(Stage, ABC):
    """Hides one party in random numbers whose size is a multiple of the bound."""

    rank = 1
    multiplier: float
    where: Where
    delta: float
    needs: ClassVar[Norm]

    @abstractmethod
    def draw(self, count: int, scale: float, shares: int, random: np.random.Generator) -> Array:
        """One of ``shares`` independent draws whose sum is noise of this scale."""


class Sparse(Stage, ABC):
    """Sends some of the entries."""

    rank = 2

    @abstractmethod
    def encode(self, vector: Array, values: Coder, random: np.random.Generator) -> bytes:
        """Which entries are sent, and their values as ``values`` codes them."""

    @abstractmethod
    def decode(self, data: bytes, size: int, item: np.dtype[np.generic], values: Coder) -> Array:
        """The vector, with zeros for what was not sent."""


class Selected(Stage, ABC):
    """Sends entries that both sides work out by themselves: no byte says which they are.

    ``keep``: what was left out is added to the party's next upload.
    """

    rank = 2
    keep: bool

    @property
    @abstractmethod
    def alike(self) -> bool:
        """Whether all parties of an exchange send the same entries, which hidden sums need."""

    def check(self, layers: Sequence[tuple[str, int]]) -> None:
        """Refuse a net of these layers that the stage has no meaning for; none are given where nets differ."""

    @abstractmethod
    def choose(self, layout: Layout, setting: ChannelSetting) -> tuple[Array, float]:
        """Which of the entries that may be left out (``layout.free``) are sent, and what the server makes of one.

        The first has a truth value for each entry of the upload, the second is a factor.
        """


class Coder(Stage):
    """Turns numbers into bytes. This one keeps them as they are."""

    rank = 3

    def encode(self, vector: Array, random: np.random.Generator) -> bytes:
        """The vector as bytes, every number in full, the lowest byte first."""
        return vector.astype(vector.dtype.newbyteorder("<")).tobytes()

    def decode(self, data: bytes, size: int, item: np.dtype[np.generic]) -> Array:
        """A vector of ``size`` entries; bytes that ``encode`` cannot have made are refused."""
        expect(data, size * item.itemsize)
        return np.frombuffer(data, item).astype(item.newbyteorder("="))


@dataclass(frozen=True, eq=False)
class Sum:
    """A sum over the cohort, and the bytes of all parties that it took, up and down."""

    total: Grid
    up: int
    down: int


class Hidden(Stage, ABC):
    """Adds whole numbers so that nobody sees a single party's."""

    rank = 4
    range: float
    parties_learn: ClassVar[bool] = False
    """whether the parties see the sum before the server can add noise to it"""

    @abstractmethod
    def largest(self, cohort: int) -> int:
        """The largest absolute value that each of so many parties may have on the grid."""

    def split(self, grid: Grid, cohort: int) -> Grid:
        """The entries that are really added."""
        return grid

    def join(self, total: Grid, cohort: int) -> Grid:
        """The sum of grids from the sum of what ``split`` made of them."""
        return total

    def warning(self, size: int) -> str | None:
        """What a user should know before so many entries are added, or None."""
        return None

    @abstractmethod
    def add(self, grids: Sequence[Grid], setting: ChannelSetting) -> Sum:
        """The sum as the real protocol would give it, in one process."""
