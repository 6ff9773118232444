"""Multi-layer perceptron for tables and small images."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from unalike.errors import UserError
from unalike.models.model import register_model

if TYPE_CHECKING:
    from unalike.models.net import Net

WIDEST = 100_000


@register_model("mlp", paper="Li et al. 2022, NIID-Bench (arXiv:2102.02079), section 5")
class Mlp:
    """Fully connected layers with ReLU; mlp(32,16,8) is NIID-Bench's net for tables."""

    hidden: tuple[int, ...] = (64,)

    def __post_init__(self) -> None:
        if not self.hidden or min(self.hidden) < 1 or max(self.hidden) > WIDEST:
            raise UserError(
                f"mlp's hidden widths must be from 1 to {WIDEST:,}, got {self.hidden}. Write mlp(32,16,8)."
            )

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """The net; rows of any shape are flattened first."""
        from torch import nn

        from unalike.models.net import Net

        layers: list[nn.Module] = [nn.Flatten()] if len(shape) > 1 else []
        width = math.prod(shape)
        for hidden in self.hidden:
            layers += [nn.Linear(width, hidden), nn.ReLU()]
            width = hidden
        return Net(nn.Sequential(*layers), nn.Linear(width, classes))
