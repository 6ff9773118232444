"""The convolutional net that FedRep trains on CIFAR-10."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.models.images import check_images, lenet
from unalike.models.model import register_model

if TYPE_CHECKING:
    from unalike.models.net import Net


@register_model("fedrep-cnn", paper="Collins et al. 2021, FedRep (arXiv:2102.07078), section 5")
class FedRepCnn:
    """Two 5x5 convolutions (64 channels each), each with 2x2 max pooling, then 120 and 64 units.

    The widths are those of the authors' code. On CIFAR-10 there are 307,842 weights.
    """

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """The net for images [channels, height, width] of at least 16x16 pixels."""
        return lenet(check_images("fedrep-cnn", shape, 16), classes, channels=(64, 64), units=(120, 64))
