"""The augmentation of CIFAR-10 in NIID-Bench: pad by reflection, crop at random, mirror half of the images."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from unalike.data.dataset import Array
from unalike.errors import UserError


def draw(rng: np.random.Generator, shape: tuple[int, ...], padding: int = 4) -> tuple[Array, Array, Array]:
    """Where each of ``shape`` images is cropped (top, left: 0 to ``2 * padding``) and whether it is mirrored."""
    top, left = rng.integers(0, 2 * padding + 1, (2, *shape))
    return top, left, rng.random(shape) < 0.5


def crop_flip(x: Tensor, top: Tensor, left: Tensor, flip: Tensor, padding: int = 4) -> Tensor:
    """Images ``x`` [..., C, H, W] padded by reflection, cropped to their old size at (top, left), then mirrored.

    ``top``, ``left`` (from 0 to ``2 * padding``) and ``flip`` (boolean) have the leading axes of ``x``. Nothing is
    padded in fact: each pixel of the result is fetched from where the padded image would have it.
    """
    height, width = x.shape[-2:]
    if not 0 <= padding < min(height, width):
        raise UserError(
            f"The padding must be from 0 to less than the images' sides, {height} and {width}, got {padding}."
        )
    rows = torch.arange(height, device=x.device).expand(*top.shape, height)
    columns = torch.arange(width, device=x.device)
    columns = torch.where(flip.unsqueeze(-1), width - 1 - columns, columns)
    rows = _reflect(rows + (top.unsqueeze(-1) - padding), height)
    columns = _reflect(columns + (left.unsqueeze(-1) - padding), width)
    # One index for all channels of an image; `expand` does not copy it.
    index = (rows.unsqueeze(-1) * width + columns.unsqueeze(-2)).flatten(-2).unsqueeze(-2)
    pixels = x.flatten(-2)
    return pixels.gather(-1, index.expand(pixels.shape)).view(x.shape)


def _reflect(place: Tensor, size: int) -> Tensor:
    """Places outside 0 to size - 1, mirrored at the first and the last without repeating these."""
    return size - 1 - (size - 1 - place.abs()).abs()
