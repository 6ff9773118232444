"""Residual nets for small images, with batch or group normalisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from unalike.errors import UserError
from unalike.models.images import check_images
from unalike.models.model import register_model

if TYPE_CHECKING:
    from unalike.models.net import Net

_WIDTHS = (64, 128, 256, 512)
_SMALLEST = 9
"""From here on the last feature map has more than one pixel, which batch norm needs for a batch of one row."""


def _check_groups(name: str, kind: str, groups: int) -> None:
    """Refuse numbers of groups that do not divide all widths."""
    if groups < 1 or _WIDTHS[0] % groups:
        raise UserError(f"{name}'s groups must be 1, 2, 4, 8, 16, 32 or 64, got {groups}. Use 2.")
    if kind == "batch" and groups != 2:
        raise UserError(f"{name}'s groups are for group norm. Write {name}(norm=group, groups={groups}).")


def _build(
    model: ResNet18 | ResNet50, name: str, shape: tuple[int, ...], classes: int, depths: tuple[int, ...]
) -> Net:
    from torch import nn

    from unalike.models.layers import MeanOverPixels, ResidualBlock, convolution
    from unalike.models.net import Net

    def norm(features: int) -> nn.Module:
        return nn.BatchNorm2d(features) if model.norm == "batch" else nn.GroupNorm(model.groups, features)

    channels, _, _ = check_images(name, shape, _SMALLEST)
    bottleneck = isinstance(model, ResNet50)
    before = _WIDTHS[0]
    layers: list[nn.Module] = [convolution(channels, before, 3, 1), norm(before), nn.ReLU()]
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
        _check_groups("resnet18", self.norm, self.groups)

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """The net for images [channels, height, width] of at least 9x9 pixels."""
        return _build(self, "resnet18", shape, classes, (2, 2, 2, 2))


@register_model("resnet50", paper="He et al. 2016 (arXiv:1512.03385); Li et al. 2022, NIID-Bench, figure 11")
class ResNet50:
    """ResNet-50 for small images: bottleneck blocks, 2,048 features; norm=batch or group as for resnet18.

    23,520,842 parameters on CIFAR-10.
    """

    norm: Literal["batch", "group"] = "batch"
    groups: int = 2

    def __post_init__(self) -> None:
        _check_groups("resnet50", self.norm, self.groups)

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """The net for images [channels, height, width] of at least 9x9 pixels."""
        return _build(self, "resnet50", shape, classes, (3, 4, 6, 3))
