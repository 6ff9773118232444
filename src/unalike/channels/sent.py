"""Which entries of an upload leave the party, and what it keeps of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unalike.channels.errors import NotFinite
from unalike.channels.layout import Array, Layout, Vectors
from unalike.channels.setting import ChannelSetting
from unalike.channels.stage import Selected


@dataclass(frozen=True, eq=False)
class Sent:
    """The entries that are sent, and a factor on those that might have been left out."""

    layout: Layout
    chosen: Array | None = None
    """a truth value for each entry; None for all of them"""
    factor: float = 1.0

    @property
    def count(self) -> int:
        """How many entries are sent."""
        return self.layout.size if self.chosen is None else int(self.chosen.sum())

    def take(self, vector: Array) -> Array:
        """The entries that are sent; of a vector without the single numbers at its end, all but those."""
        return vector if self.chosen is None else vector[self.chosen[: len(vector)]]

    def spread(self, values: Array, size: int | None = None) -> Array:
        """A vector of so many entries (of all) from those that were sent, with zeros for the others."""
        if self.chosen is None:
            return values
        vector = np.zeros(self.layout.size if size is None else size, values.dtype)
        vector[self.chosen[: len(vector)]] = values
        return vector

    def scaled(self, vector: Array) -> Array:
        """The whole upload as it stands for the party's: what may be left out, times the factor."""
        if self.factor == 1:
            return vector
        scaled: Array = (vector * np.where(self.layout.free, self.factor, 1.0)).astype(vector.dtype)
        return scaled


def sent_by(stage: Selected | None, layout: Layout, setting: ChannelSetting) -> Sent:
    """What a stage sends of such an upload in this exchange; without one, everything."""
    if stage is None:
        return Sent(layout)
    chosen, factor = stage.choose(layout, setting)
    return Sent(layout, chosen | ~layout.free, factor)


def with_rest(body: Array, memory: Vectors, setting: ChannelSetting) -> Array:
    """An upload with what of earlier ones did not get through."""
    rest = memory.get(_key(setting))
    if rest is not None and rest.numel() == len(body):
        body = body + rest.cpu().numpy()
    if not np.isfinite(body).all():
        raise NotFinite(f"Party {setting.party}'s residual is not finite. Lower --lr.")
    return body


def kept_rest(left: Array, memory: Vectors, layout: Layout, setting: ChannelSetting) -> Vectors:
    """The party's memory with what did not get through this time."""
    key = _key(setting)
    return {**memory, **Layout(((key, (len(left),)),), dtype=layout.dtype).split(left)}


def _key(setting: ChannelSetting) -> str:
    return f"residual.{setting.turn}"
