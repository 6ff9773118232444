"""The small convolutional net that NIID-Bench trains on images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.models.images import check_images, lenet
from unalike.models.model import register_model

if TYPE_CHECKING:
    from unalike.models.net import Net


@register_model("simple-cnn", paper="Li et al. 2022, NIID-Bench (arXiv:2102.02079), section 5")
class SimpleCnn:
    """Two 5x5 convolutions (6 and 16 channels), each with 2x2 max pooling, then 120 and 84 units."""

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """The net for images [channels, height, width] of at least 16x16 pixels."""
        return lenet(check_images("simple-cnn", shape, 16), classes, channels=(6, 16), units=(120, 84))
