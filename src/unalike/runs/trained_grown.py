"""A model that a protocol trained in the place of a trained net: raw rows in, logits or numbers out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from unalike.errors import UserError
from unalike.models.loss import choose_loss
from unalike.rounds.margins import Grown, two_sided
from unalike.runs.column_cast import scaled
from unalike.runs.trained import Named, TrainedModel

if TYPE_CHECKING:
    from unalike.runs.model_file import ModelFile


class TrainedGrown(TrainedModel):
    """What a protocol trained, ready for rows as the training had them before any scaling.

    ``forward`` gives what it gives for a net, in double precision. ``grown`` is the model itself.
    """

    rows_at_once = 2**16

    def __init__(self, about: ModelFile, text: str, grown: Grown) -> None:
        super().__init__(about, text, [], choose_loss(None, about.task))
        self.dtype = torch.float64
        self.grown = grown
        self._about: Any = about

    def prepared(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Rows as the model reads them, from raw ones."""
        x = x.reshape(len(x), -1)
        made: np.ndarray[Any, Any] = scaled(x if x.dtype.kind == "f" else x.astype(np.float32), self._about)
        return made

    def outputs(self, x: Tensor) -> Tensor:
        """Logits; of numbers, what is predicted, standardised as a net would have it."""
        margins = self.grown.margins(self.prepared(x.detach().cpu().numpy()))
        if self.classes:
            return torch.from_numpy(two_sided(margins))
        shift, scale = self.target
        return torch.from_numpy((self.grown.objective.predict(margins) - shift) / scale)[:, None]


def rebuilt_grown(
    about: ModelFile, reader: Any, settings: object, text: str, tensors: Named, where: object
) -> TrainedGrown:
    """The model in these tensors, which are looked at first: they may be a stranger's."""
    arrays = {name: value.numpy() for name, value in tensors.items()}
    try:
        grown: Grown = reader.of(arrays, settings, len(about.classes), about.target)
        grown.margins(np.zeros((1, int(np.prod(about.shape))), np.float32))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise UserError(
            f"{where} does not hold a model of {about.algorithm.partition('(')[0]}: {error}. Copy it back from "
            "where it was kept."
        ) from None
    return TrainedGrown(about, text, grown)
