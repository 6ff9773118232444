"""The small convolutional net that NIID-Bench trains on images."""

from __future__ import annotations

from torch import nn

from unalike.errors import UserError
from unalike.models.model import register_model
from unalike.models.task import Net


@register_model("simple-cnn", paper="Li et al. 2022, NIID-Bench (arXiv:2102.02079), section 5")
class SimpleCnn:
    """Two 5x5 convolutions (6 and 16 channels), each with 2x2 max pooling, then 120 and 84 units."""

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """The net for images [channels, height, width] of at least 16x16 pixels."""
        if len(shape) != 3 or min(shape[1:]) < 16:
            raise UserError(
                f"simple-cnn needs images of at least 16x16 pixels, got rows of shape {shape}. "
                "Choose another --model."
            )
        channels, height, width = shape
        after = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
        body = nn.Sequential(
            # Pooling before ReLU is the same function, and ReLU then has a quarter of the work.
            nn.Conv2d(channels, 6, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(6, 16, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * after[0] * after[1], 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
        )
        return Net(body, nn.Linear(84, classes))
