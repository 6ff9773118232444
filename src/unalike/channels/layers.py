"""Deep layers are sent in some rounds only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unalike.channels.channel import register_channel
from unalike.channels.layout import Array, Layout
from unalike.channels.setting import ChannelSetting
from unalike.channels.stage import Selected
from unalike.errors import UserError


@register_channel("layers", paper="Chen et al. 2019, arXiv:1903.07424")
class Layers(Selected):
    """Sends the net's ``deep`` last layers (half of all, unless given) in every ``every``-th round only.

    In other rounds the server keeps its own values of them. The paper's parties go on from deep layers of their
    own until these are sent; here every round begins with the server's. With ``keep`` what parties learnt in the
    rounds between is added to what they send next, else it is lost.
    """

    every: int = 3
    deep: int | None = None
    keep: bool = False

    def __post_init__(self) -> None:
        if self.every < 1:
            raise UserError(f"layers' every must be at least 1, got {self.every}. Try layers(3).")
        if self.deep is not None and self.deep < 1:
            raise UserError(f"layers' deep must be at least 1, got {self.deep}. Leave it out for half of them.")

    @property
    def alike(self) -> bool:
        """Always: which layers are sent depends on the round alone."""
        return True

    def check(self, layers: Sequence[tuple[str, int]]) -> None:
        """Some layers must be deep, and some not."""
        if not layers:
            raise UserError("layers: nets that differ have no deep layers in common. Use subsample(0.1).")
        self.shallow(layers)

    def choose(self, layout: Layout, setting: ChannelSetting) -> tuple[Array, float]:
        """All but the deep layers, of everything that has a number for each of the net's weights."""
        shallow = self.shallow(layout.layers)
        if setting.round % self.every == 0:
            return layout.free, 1.0
        parts = [
            np.tile(shallow, size // len(shallow)) if shape and shape[-1] == len(shallow) else np.ones(size, bool)
            for (_, shape), size in zip(layout.shapes, layout.sizes, strict=True)
        ]
        return np.concatenate([np.ones(0, bool), *parts]) & layout.free, 1.0

    def shallow(self, layers: Sequence[tuple[str, int]]) -> Array:
        """For each weight of a net with these layers, whether it is sent in every round."""
        deep = len(layers) // 2 if self.deep is None else self.deep
        if not 0 < deep < len(layers):
            names = ", ".join(name for name, _ in layers)
            raise UserError(
                f"layers(deep={deep}): the net has {len(layers)} layers with weights ({names}); some must be sent "
                "always, and some not. Choose another --model, or another deep."
            )
        first = len(layers) - deep
        return np.repeat(np.arange(len(layers)) < first, [size for _, size in layers])
