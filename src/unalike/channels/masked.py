"""A sum under masks that cancel: the server sees nothing of a single upload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from unalike.channels.channel import register_channel
from unalike.channels.setting import ChannelSetting
from unalike.channels.stage import Grid, Hidden, Sum
from unalike.errors import UserError
from unalike.secure import cost


@register_channel("masked", paper="Bonawitz et al. 2017, doi:10.1145/3133956.3133982")
class Masked(Hidden):
    """Adds uploads on a fixed-point grid modulo 2^bits under masks that cancel: the server sees the sum only."""

    bits: Literal[32, 64] = 32
    range: float = 8.0

    def __post_init__(self) -> None:
        check_range(self, "masked")

    def largest(self, cohort: int) -> int:
        """An even part of what the modulus holds."""
        return int((2 ** (self.bits - 1) - 1) // cohort)

    def add(self, grids: Sequence[Grid], setting: ChannelSetting) -> Sum:
        """The sum on the grid, which is what the protocol gives, and the bytes that the protocol would take."""
        total: Grid = np.stack(grids).sum(axis=0)
        policy = cost.example(setting.cohort, len(total), bits=self.bits)
        absent = dict.fromkeys(range(len(grids), setting.cohort), cost.START)
        up, down = cost.traffic(policy, absent)
        return Sum(total, sum(up), sum(down))


def check_range(hidden: Hidden, name: str) -> None:
    """Refuse a range that is none."""
    if not 2.0**-20 <= hidden.range <= 2.0**40:
        raise UserError(f"{name}'s range must be from 2^-20 to 2^40, got {hidden.range}. Try {name}(range=8).")
