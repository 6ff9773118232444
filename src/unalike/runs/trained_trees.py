"""Trained trees in the place of a trained net: raw rows in, logits or numbers out, and what they go by."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from unalike.errors import UserError
from unalike.models.trees import Trees
from unalike.runs.trained import Named
from unalike.runs.trained_grown import TrainedGrown
from unalike.trees.columns import Columns
from unalike.trees.ensemble import Ensemble
from unalike.trees.importance import Importance, importance_of

if TYPE_CHECKING:
    from unalike.runs.model_file import ModelFile


class TrainedTrees(TrainedGrown):
    """Boosted trees, ready for rows as the training had them; NaN is a missing value.

    ``ensemble`` are the trees themselves, ``columns`` what they look at.
    """

    def __init__(self, about: ModelFile, text: str, ensemble: Ensemble) -> None:
        super().__init__(about, text, ensemble)
        self.ensemble = ensemble
        self.columns = columns_of(about, ensemble.features)

    def prepared(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Rows as they are: trees read the numbers of the table."""
        return x.reshape(len(x), -1)

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
