"""Residual nets for small images, with batch or group normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from unalike.errors import UserError
from unalike.models.images import check_images
from unalike.models.model import register_model
from unalike.models.net import Net

Norm = Callable[[int], nn.Module]

_WIDTHS = (64, 128, 256, 512)
_SMALLEST = 9
"""From here on the last feature map has more than one pixel, which batch norm needs for a batch of one row."""


class ResidualBlock(nn.Module):
    """``relu(residual(x) + shortcut(x))``, He et al. 2016, eq. 1 and 2; basic or bottleneck (figure 5).

    Where the shape changes the shortcut is a projection (option B). The stride is in the 3x3 convolution.
    """

    def __init__(self, before: int, width: int, stride: int, norm: Norm, bottleneck: bool) -> None:
        super().__init__()
        after = 4 * width if bottleneck else width
        if bottleneck:
            steps = [(before, width, 1, 1), (width, width, 3, stride), (width, after, 1, 1)]
        else:
            steps = [(before, width, 3, stride), (width, after, 3, 1)]
        layers: list[nn.Module] = []
        for inputs, outputs, kernel, step in steps:
            layers += [_convolution(inputs, outputs, kernel, step), norm(outputs), nn.ReLU()]
        self.residual = nn.Sequential(*layers[:-1])
        same = stride == 1 and before == after
        self.shortcut = (
            nn.Identity() if same else nn.Sequential(_convolution(before, after, 1, stride), norm(after))
        )

    def forward(self, x: Tensor) -> Tensor:
        """[rows, channels, height, width] to the same with this block's channels and stride."""
        return torch.relu(self.residual(x) + self.shortcut(x))


class MeanOverPixels(nn.Module):
    """Averages each channel over all pixels (global average pooling)."""

    def forward(self, x: Tensor) -> Tensor:
        """[rows, channels, height, width] to [rows, channels]."""
        return x.mean(dim=(-2, -1))


def _convolution(before: int, after: int, kernel: int, stride: int) -> nn.Conv2d:
    made = nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(made.weight, mode="fan_out", nonlinearity="relu")  # He et al. 2015, section 2.2
    return made


def _norm(name: str, kind: str, groups: int) -> Norm:
    """The normalisation of so many channels; refuses numbers of groups that do not divide all widths."""
    if groups < 1 or _WIDTHS[0] % groups:
        raise UserError(f"{name}'s groups must be 1, 2, 4, 8, 16, 32 or 64, got {groups}. Use 2.")
    if kind == "batch" and groups != 2:
        raise UserError(f"{name}'s groups are for group norm. Write {name}(norm=group, groups={groups}).")
    return nn.BatchNorm2d if kind == "batch" else lambda channels: nn.GroupNorm(groups, channels)


def _build(
    name: str, shape: tuple[int, ...], classes: int, norm: Norm, depths: tuple[int, ...], bottleneck: bool
) -> Net:
    channels, _, _ = check_images(name, shape, _SMALLEST)
    before = _WIDTHS[0]
    layers: list[nn.Module] = [_convolution(channels, before, 3, 1), norm(before), nn.ReLU()]
    for stage, (width, depth) in enumerate(zip(_WIDTHS, depths, strict=True)):
        for number in range(depth):
            stride = 2 if stage > 0 and number == 0 else 1
            layers.append(ResidualBlock(before, width, stride, norm, bottleneck))
            before = 4 * width if bottleneck else width
    return Net(nn.Sequential(*layers, MeanOverPixels()), nn.Linear(before, classes))


@register_model(
    "resnet18", paper="He et al. 2016 (arXiv:1512.03385); Hsieh et al. 2020 (arXiv:1910.00189), section 5"
)
class ResNet18:
    """ResNet-18 for small images: a 3x3 stem without pooling, 512 features; norm=batch or group.

    11,173,962 parameters on CIFAR-10, whichever the norm. ``norm="group"`` (Wu and He 2018, arXiv:1803.08494)
    treats every row by itself: parties whose batches are unalike do not disturb each other's statistics (Hsieh et
    al.), and the net can be vectorised. ``groups=2`` is what the federated literature takes (Reddi et al. 2021,
    arXiv:2003.00295); Wu and He's own number, for ImageNet, is 32.
    """

    norm: Literal["batch", "group"] = "batch"
    groups: int = 2

    def __post_init__(self) -> None:
        _norm("resnet18", self.norm, self.groups)

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """The net for images [channels, height, width] of at least 9x9 pixels."""
        norm = _norm("resnet18", self.norm, self.groups)
        return _build("resnet18", shape, classes, norm, (2, 2, 2, 2), bottleneck=False)


@register_model("resnet50", paper="He et al. 2016 (arXiv:1512.03385); Li et al. 2022, NIID-Bench, figure 11")
class ResNet50:
    """ResNet-50 for small images: bottleneck blocks, 2,048 features; norm=batch or group as for resnet18.

    23,520,842 parameters on CIFAR-10.
    """

    norm: Literal["batch", "group"] = "batch"
    groups: int = 2

    def __post_init__(self) -> None:
        _norm("resnet50", self.norm, self.groups)

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """The net for images [channels, height, width] of at least 9x9 pixels."""
        norm = _norm("resnet50", self.norm, self.groups)
        return _build("resnet50", shape, classes, norm, (3, 4, 6, 3), bottleneck=True)
