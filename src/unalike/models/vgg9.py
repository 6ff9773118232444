"""The VGG-9 of the literature on non-IID data."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from unalike.models.images import check_images
from unalike.models.model import register_model

if TYPE_CHECKING:
    from unalike.models.net import Net

_BLOCKS = ((32, 64), (128, 128), (256, 256))


@register_model("vgg9", paper="Wang et al. 2020, FedMA (arXiv:2002.06440); Li et al. 2022, NIID-Bench, figure 11")
class Vgg9:
    """Six 3x3 convolutions (32, 64, pool, 128, 128, pool, 256, 256, pool), then 512 and 512 units, the features.

    Simonyan and Zisserman's VGG (arXiv:1409.1556) has no variant of nine layers: this one is FedMA's, which
    NIID-Bench took over. It has 3,491,530 parameters on CIFAR-10. The public code of both adds light dropout
    (0.05 and 0.1); it is left out here, so that the net has no randomness of its own and can be vectorised.
    For MNIST their code has 1,024 units in place of the first 512; here the widths are the same for all images.
    """

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """The net for images [channels, height, width] of at least 8x8 pixels."""
        from torch import nn

        from unalike.models.net import Net

        channels, height, width = check_images("vgg9", shape, 8)
        layers: list[nn.Module] = []
        for block in _BLOCKS:
            for before, after in pairwise((channels, *block)):
                layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
            channels = block[-1]
            # The last ReLU of a block comes after the pooling: the same function, for a quarter of the work.
            layers.insert(-1, nn.MaxPool2d(2))
        layers += [nn.Flatten(), nn.Linear(channels * (height // 8) * (width // 8), 512), nn.ReLU()]
        layers += [nn.Linear(512, 512), nn.ReLU()]
        return Net(nn.Sequential(*layers), nn.Linear(512, classes))
