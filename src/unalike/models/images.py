"""What the nets for images share."""

from __future__ import annotations

from unalike.errors import UserError


def check_images(model: str, shape: tuple[int, ...], least: int) -> tuple[int, int, int]:
    """Channels, height and width of a row; refuses rows that are no images, or smaller than ``least`` pixels."""
    if len(shape) != 3 or min(shape[1:]) < least:
        raise UserError(
            f"{model} needs images of at least {least}x{least} pixels, got rows of shape {shape}. "
            "Choose another --model."
        )
    channels, height, width = shape
    return channels, height, width
