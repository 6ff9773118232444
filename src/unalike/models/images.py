"""What the nets for images share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.errors import UserError

if TYPE_CHECKING:
    from unalike.models.net import Net


def check_images(model: str, shape: tuple[int, ...], least: int) -> tuple[int, int, int]:
    """Channels, height and width of a row; refuses rows that are no images, or smaller than ``least`` pixels."""
    if len(shape) != 3 or min(shape[1:]) < least:
        raise UserError(
            f"{model} needs images of at least {least}x{least} pixels, got rows of shape {shape}. "
            "Choose another --model."
        )
    channels, height, width = shape
    return channels, height, width


def lenet(shape: tuple[int, int, int], classes: int, channels: tuple[int, int], units: tuple[int, int]) -> Net:
    """Two 5x5 convolutions without padding, each with 2x2 max pooling, then two layers of units: the features."""
    from torch import nn

    from unalike.models.net import Net

    depth, *sides = shape
    height, width = (((side - 4) // 2 - 4) // 2 for side in sides)
    first, second = channels
    body = nn.Sequential(
        # Pooling before ReLU is the same function, and ReLU then has a quarter of the work.
        nn.Conv2d(depth, first, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(first, second, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(second * height * width, units[0]),
        nn.ReLU(),
        nn.Linear(units[0], units[1]),
        nn.ReLU(),
    )
    return Net(body, nn.Linear(units[1], classes))
