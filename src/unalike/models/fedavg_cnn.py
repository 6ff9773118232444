"""The convolutional net of the FedAvg paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.models.images import check_images
from unalike.models.model import register_model

if TYPE_CHECKING:
    from unalike.models.net import Net


@register_model("fedavg-cnn", paper="McMahan et al. 2017, FedAvg (arXiv:1602.05629), section 3")
class FedAvgCnn:
    """Two 5x5 convolutions (32 and 64 channels), each with 2x2 max pooling, then 512 units, the features.

    The paper counts 1,663,370 parameters on MNIST and does not name the padding. Only "same" padding gives that
    number: 832 + 51,264 + (7 x 7 x 64) x 512 + 512 + 5,130; without padding there would be 582,026. On CIFAR-10
    there are 2,156,490: rFedAvg (Wang et al. 2023, section VI) uses the net there too, whereas McMahan et al. took
    another one, from a tutorial.
    """

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """The net for images [channels, height, width] of at least 4x4 pixels."""
        from torch import nn

        from unalike.models.net import Net

        channels, height, width = check_images("fedavg-cnn", shape, 4)
        body = nn.Sequential(
            # Pooling before ReLU is the same function, and ReLU then has a quarter of the work.
            nn.Conv2d(channels, 32, 5, padding=2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * (height // 4) * (width // 4), 512),
            nn.ReLU(),
        )
        return Net(body, nn.Linear(512, classes))
