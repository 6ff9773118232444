"""A random part of the entries is sent, which both sides draw alike: no byte says which."""

from __future__ import annotations

import math

import numpy as np

from unalike.channels.channel import register_channel
from unalike.channels.layout import Array, Layout
from unalike.channels.setting import ChannelSetting
from unalike.channels.stage import Selected
from unalike.errors import UserError
from unalike.randomness import stream


@register_channel("subsample", paper="Konečný et al. 2016, arXiv:1610.05492, section 3")
class Subsample(Selected):
    """Sends a ``fraction`` of entries, drawn anew in each exchange; the server divides them by it.

    So the sum is right on average, as the paper's. Each party draws for itself, and errors of many parties average
    out; with ``same`` all send the same entries, as hidden sums need it. With ``keep`` nothing is divided: what
    was left out is added to the party's next upload (Stich et al. 2018, arXiv:1809.07599, rand-k).
    """

    fraction: float
    same: bool = False
    keep: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise UserError(
                f"subsample's fraction must be above 0 and at most 1, got {self.fraction}. Try subsample(0.1)."
            )

    @property
    def alike(self) -> bool:
        """Whether the draw is that of the exchange, and not of each party."""
        return self.same

    def choose(self, layout: Layout, setting: ChannelSetting) -> tuple[Array, float]:
        """Drawn from the run's public seed, without replacement, so that as many are sent in every exchange."""
        free = np.flatnonzero(layout.free)
        count = math.ceil(self.fraction * len(free))
        chosen = np.zeros(layout.size, bool)
        chosen[free if count == len(free) else self._drawn(free, count, setting)] = True
        return chosen, 1.0 if self.keep or not count else len(free) / count

    def _drawn(self, free: Array, count: int, setting: ChannelSetting) -> Array:
        whose = () if self.same or setting.party is None else (setting.party,)
        draw = stream(setting.seed, "entries sent", setting.round, setting.turn, *whose)
        drawn: Array = draw.choice(free, count, replace=False, shuffle=False)
        return drawn
