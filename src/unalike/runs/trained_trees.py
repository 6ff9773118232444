"""Trained trees in the place of a trained net: raw rows in, logits or numbers out, and what they go by."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from unalike.errors import UserError
from unalike.models.loss import choose_loss
from unalike.models.trees import Trees
from unalike.runs.trained import Named, TrainedModel
from unalike.trees.columns import Columns
from unalike.trees.ensemble import Ensemble
from unalike.trees.importance import Importance, importance_of

if TYPE_CHECKING:
    from unalike.runs.model_file import ModelFile


class TrainedTrees(TrainedModel):
    """Boosted trees, ready for rows as the training had them; NaN is a missing value.

    ``forward`` gives what it gives for a net, in double precision. ``ensemble`` are the trees themselves,
    ``columns`` what they look at.
    """

    rows_at_once = 2**16

    def __init__(self, about: ModelFile, text: str, ensemble: Ensemble) -> None:
        super().__init__(about, text, [], choose_loss(None, about.task))
        self.dtype = torch.float64
        self.ensemble = ensemble
        self.columns = columns_of(about, ensemble.features)

    def outputs(self, x: Tensor) -> Tensor:
        """Logits; of numbers, what is predicted, standardised as a net would have it."""
        margins = self.ensemble.margins(x.detach().cpu().numpy().reshape(len(x), -1))
        if self.classes:
            both = np.hstack([np.zeros_like(margins), margins]) if margins.shape[1] == 1 else margins
            return torch.from_numpy(both)
        shift, scale = self.target
        return torch.from_numpy((self.ensemble.objective.predict(margins) - shift) / scale)[:, None]

    def importance(self) -> Importance:
        """Which columns the trees go by."""
        return importance_of(self.ensemble, self.columns.names)


def columns_of(about: ModelFile, features: int) -> Columns:
    """What trees of such a training look at."""
    units = about.units if about.schema is None else about.schema.units
    return Columns.of(about.features, features, units, about.schema, about.gaps)


def rebuilt_trees(about: ModelFile, settings: Trees, text: str, tensors: Named, where: object) -> TrainedTrees:
    """The trees in these tensors, which are looked at first: they may be a stranger's."""
    arrays = {name: value.numpy() for name, value in tensors.items()}
    try:
        ensemble = Ensemble.of(arrays, settings, len(about.classes), about.target, math.prod(about.shape))
    except ValueError as error:
        raise UserError(f"{where} does not hold trees: {error}. Copy it back from where it was kept.") from None
    return TrainedTrees(about, text, ensemble)
