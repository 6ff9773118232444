"""Linear models: the convex case."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from unalike.models.model import register_model

if TYPE_CHECKING:
    from unalike.models.net import Net


@register_model("logistic", paper="Li et al. 2020, FedProx (arXiv:1812.06127), section 5")
class Logistic:
    """Multinomial logistic regression: a head alone, whose features are the flattened row itself.

    The body has no weights (``task.slices["body"]`` is empty). Without weight decay adding the same to every class
    changes nothing, so the optimum is unique in its predictions, not in its weights.
    """

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """The net; rows of any shape are flattened first."""
        from torch import nn

        from unalike.models.net import Net

        return Net(nn.Flatten(), nn.Linear(math.prod(shape), classes))


@register_model("linear")
class Linear(Logistic):
    """A linear function of the row: least squares where numbers are predicted, with classes as logistic."""
