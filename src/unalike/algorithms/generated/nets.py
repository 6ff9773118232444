"""Small nets that make rows and judge them, without statistics or dropout, so that any engine can stack them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

WIDTH = 64
"""How wide the layers for tables are, and the last layer of every judge."""
CHANNELS = 16
"""How many channels pictures have on the way; twice as many where they are smallest."""


def makes(shape: tuple[int, ...], classes: int, noise: int) -> nn.Module:
    """A generator of rows of this shape: (noise, labels as ones and zeros) -> rows."""
    return MakesPictures(shape, classes, noise) if len(shape) == 3 else MakesTables(shape, classes, noise)


def judges(shape: tuple[int, ...], classes: int) -> nn.Module:
    """A judge of rows of this shape: (rows, labels as ones and zeros) -> a number, high where taken for real."""
    return Judge(shape, classes)


class MakesTables(nn.Module):
    """Rows of a table, by two hidden layers."""

    def __init__(self, shape: tuple[int, ...], classes: int, noise: int) -> None:
        super().__init__()
        self.shape = shape
        self.layers = nn.Sequential(
            nn.Linear(noise + classes, WIDTH),
            nn.LeakyReLU(0.2),
            nn.Linear(WIDTH, WIDTH),
            nn.LeakyReLU(0.2),
            nn.Linear(WIDTH, math.prod(shape)),
        )

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """Rows for noise and labels."""
        rows: Tensor = self.layers(torch.cat([z, labels], dim=1))
        return rows.reshape(len(z), *self.shape)


class MakesPictures(nn.Module):
    """Pictures of any size, from a quarter of it by two doublings."""

    def __init__(self, shape: tuple[int, ...], classes: int, noise: int) -> None:
        super().__init__()
        self.shape = shape
        self.small = (2 * CHANNELS, math.ceil(shape[1] / 4), math.ceil(shape[2] / 4))
        self.first = nn.Linear(noise + classes, math.prod(self.small))
        self.middle = nn.Conv2d(2 * CHANNELS, CHANNELS, 3, padding=1)
        self.last = nn.Conv2d(CHANNELS, shape[0], 3, padding=1)
        self.norms = nn.ModuleList([nn.GroupNorm(4, 2 * CHANNELS), nn.GroupNorm(4, CHANNELS)])

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """Pictures for noise and labels."""
        bend = nn.functional.leaky_relu
        x = self.first(torch.cat([z, labels], dim=1)).reshape(len(z), *self.small)
        x = bend(self.norms[0](x), 0.2)
        x = bend(self.norms[1](self.middle(_doubled(x))), 0.2)
        rows: Tensor = self.last(_doubled(x))[:, :, : self.shape[1], : self.shape[2]]
        return rows


class Judge(nn.Module):
    """Rows' features, scored as such and by their label (the projection of arXiv:1802.05637)."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        body: list[nn.Module] = [nn.Flatten(), nn.Linear(math.prod(shape), WIDTH), nn.LeakyReLU(0.2)]
        if len(shape) == 3:
            size = 2 * CHANNELS * math.ceil(shape[1] / 4) * math.ceil(shape[2] / 4)
            body = [
                nn.Conv2d(shape[0], CHANNELS, 3, stride=2, padding=1),
                nn.LeakyReLU(0.2),
                nn.Conv2d(CHANNELS, 2 * CHANNELS, 3, stride=2, padding=1),
                nn.LeakyReLU(0.2),
                nn.Flatten(),
                nn.Linear(size, WIDTH),
                nn.LeakyReLU(0.2),
            ]
        self.body = nn.Sequential(*body)
        self.score = nn.Linear(WIDTH, 1)
        self.label = nn.Linear(classes, WIDTH, bias=False) if classes else None

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """How real each row looks for its label."""
        features = self.body(x)
        score: Tensor = self.score(features)[:, 0]
        return score if self.label is None else score + (self.label(labels) * features).sum(dim=1)


def _doubled(x: Tensor) -> Tensor:
    """The picture at twice its size, each pixel four times."""
    rows, channels, height, width = x.shape
    wide = x[:, :, :, None, :, None].expand(rows, channels, height, 2, width, 2)
    return wide.reshape(rows, channels, 2 * height, 2 * width)
