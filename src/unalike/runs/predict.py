"""What a trained net says of new rows: its file, the coding of its rows, and predictions piece by piece."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from unalike.data.arrays import as_array, check_rows
from unalike.data.columns import Column
from unalike.data.dataset import Array
from unalike.errors import UserError
from unalike.models.layout import tensors_digest
from unalike.rounds.evaluation import chosen_scores
from unalike.rounds.judging import Judged, lines_of
from unalike.runs.files import read_bytes
from unalike.runs.model_file import ModelFile, is_trees
from unalike.runs.trained import TrainedModel
from unalike.scores import Figures, Score

DIGEST = "sha256"
"""What the SHA-256 of a model's tensors is called in what its file says of them."""


class CodedRows(Protocol):
    """The rows of a table that were checked and can be coded for the net."""

    @property
    def usable(self) -> Array:
        """A mask of the table's rows that have a prediction."""

    @property
    def labels(self) -> Array | None:
        """The class of every usable row, -1 where it is not known; None where no row tells it."""

    def code(self, places: Array) -> Array:
        """The usable rows at these places as the net sees them."""


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """Rows that are numbers already, as those of the training were before any scaling."""

    x: Any

    @property
    def usable(self) -> Array:
        """All of them have a prediction."""
        return np.ones(self.x.shape[0], bool)

    @property
    def labels(self) -> Array | None:
        """Nobody knows what is right."""
        return None

    def code(self, places: Array) -> Array:
        """The rows at these places; those of a sparse matrix are made dense here, piece by piece."""
        rows: Array = self.x[places].toarray() if hasattr(self.x, "indptr") else self.x[places]
        return rows


def array_rows(x: Any, about: ModelFile) -> ArrayRows:
    """Rows of numbers, if the model reads such rows; a UserError says what does not fit."""
    rows = as_array(x, "x")
    shape = about.shape
    if rows.shape[1:] != shape:
        one = " Give one row as x[None]." if rows.shape == shape else ""
        raise UserError(f"x has rows of shape {rows.shape[1:]}, but the model reads rows of shape {shape}.{one}")
    dense = rows.ndim == 2 and rows.dtype.kind == "f" and not hasattr(rows, "indptr")
    check_rows(rows, "x", gaps=dense and is_trees(about.model))
    if about.kind == "tokens" and rows.dtype.kind not in "iu":
        raise UserError(
            f"x is of type {rows.dtype}, but the model reads tokens. Make them whole numbers: np.int64."
        )
    return ArrayRows(rows)


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says of every row of a table, in the table's order."""

    classes: tuple[str, ...]
    """empty where numbers are predicted"""
    answers: Array
    """the place of the predicted class among the classes, -1 for a row that cannot be predicted; or the predicted
    number in its own units, NaN for such a row"""
    probabilities: Array
    """[rows, classes]; NaN for a row that cannot be predicted"""
    figures: Figures | None = None
    """of the rows that have a label: how many, the score that the training went by, the loss and all scores"""
    keys: tuple[Column, ...] = ()
    """the columns that tell which row is which, where the table says so"""

    @property
    def predicted(self) -> Array:
        """A mask of the rows that have a prediction."""
        mask: Array = self.answers >= 0 if self.classes else ~np.isnan(self.answers)
        return mask

    @property
    def counts(self) -> dict[str, int]:
        """How many rows are predicted to be of each class."""
        if not self.classes:
            return {}
        found = np.bincount(self.answers[self.answers >= 0], minlength=len(self.classes))
        return dict(zip(self.classes, found.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained net with the coding that makes its rows of a table's columns."""

    model: TrainedModel
    score: Score
    read: Callable[[Sequence[Column]], CodedRows]

    def predict(self, columns: Sequence[Column]) -> Predictions:
        """The predictions for a table; what does not fit the coding is a UserError, before anything is done."""
        return predictions(self.model, self.score, self.read(columns))


def predictions(model: TrainedModel, score: Score, rows: CodedRows) -> Predictions:
    """What a model says of rows, which go through the net in the pieces that evaluation uses.

    Never are all of them coded at once.
    """
    classes, usable = model.classes, rows.usable
    count = int(usable.sum())
    if count < (1 if model.rows_are_apart else 2):
        raise UserError("This net normalises by the rows of a batch: one row alone has no prediction. Add rows.")
    labels = rows.labels
    if labels is None:
        labels = np.full(count, -1) if classes else np.full(count, np.nan)
    known = labels >= 0 if classes else ~np.isnan(labels)
    answers = np.full(len(usable), -1) if classes else np.full(len(usable), np.nan)
    places, lines = np.flatnonzero(usable), np.full((count, 2 + len(classes)), np.nan)
    for piece in np.array_split(np.arange(count), math.ceil(count / model.rows_at_once)):
        asked = np.where(known[piece], labels[piece], 0)
        answers[places[piece]], lines[piece] = _piece(model, rows.code(piece), asked)
    probabilities = np.full((len(answers), len(classes)), np.nan)
    probabilities[places] = lines[:, 2:]
    figures = None
    if known.any():
        true = labels[known] if classes else labels[known] - model.target[0]
        judged = Judged(model.objective.task, torch.from_numpy(lines[known]), torch.from_numpy(true))
        scores = judged.figures(chosen_scores(score, everything=True))
        figures = {"rows": len(judged), "score": score.name, **scores}
    return Predictions(classes, answers, probabilities, figures)


@torch.no_grad()
def _piece(model: TrainedModel, x: Array, labels: Array) -> tuple[Array, Array]:
    """The answers to some rows, and their lines as evaluation has them."""
    outputs = model.outputs(torch.from_numpy(np.ascontiguousarray(x)))
    if model.classes:
        lines = lines_of(model.objective, outputs, torch.from_numpy(labels), whole=True)
        return outputs.argmax(dim=1).numpy(), lines.numpy()
    shift, scale = model.target
    y = torch.from_numpy((labels - shift) / scale).to(model.dtype)
    lines = lines_of(model.objective, outputs, y, scale, whole=False)
    return (model.objective.predict(outputs).double() * scale + shift).numpy(), lines.numpy()


def read_model(path: Path) -> tuple[dict[str, Tensor], dict[str, str]] | None:
    """The tensors by name in a safetensors file, and what it says of them; None where there is no such file.

    Where it says their SHA-256, a changed bit is noticed.
    """
    import safetensors.torch

    data = read_bytes(path)
    if data is None:
        return None
    try:
        tensors = safetensors.torch.load(data)
        about = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})
    except (ValueError, safetensors.SafetensorError) as error:
        raise UserError(f"{path} is damaged ({error}). Copy it back from where it was kept.") from None
    if about.get(DIGEST, digest := tensors_digest(tensors)) != digest:
        raise UserError(f"{path} is damaged (checksum). Copy it back from where it was kept.")
    # A copy in memory aligned as torch's own: results of matrix products may depend on the alignment.
    return {name: tensor.clone() for name, tensor in tensors.items()}, about
