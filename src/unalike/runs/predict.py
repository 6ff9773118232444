"""What a trained net says of new rows: its file, the coding of its rows, and predictions piece by piece."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from unalike.data.columns import Column
from unalike.data.dataset import Array
from unalike.errors import UserError
from unalike.models import Batch, Task
from unalike.models.layout import tensors_digest
from unalike.rounds import local
from unalike.rounds.evaluation import chosen_scores
from unalike.rounds.judging import Figures, Judged, fewest, lines_of
from unalike.runs.files import read_bytes
from unalike.scores import Score

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
class Predictions:
    """What a model says of every row of a table, in the table's order."""

    classes: tuple[str, ...]
    answers: Array
    """the place of the predicted class among the classes; -1 for a row that cannot be predicted"""
    probabilities: Array
    """[rows, classes]; NaN for a row that cannot be predicted"""
    figures: Figures | None = None
    """of the rows that have a label: how many, the score that the training went by, the loss and all scores"""

    @property
    def counts(self) -> dict[str, int]:
        """How many rows are predicted to be of each class."""
        found = np.bincount(self.answers[self.answers >= 0], minlength=len(self.classes))
        return dict(zip(self.classes, found.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained net with the coding that makes its rows of a table's columns."""

    task: Task
    w: Tensor
    buffers: Tensor
    classes: tuple[str, ...]
    score: Score
    read: Callable[[Sequence[Column]], CodedRows]

    def predict(self, columns: Sequence[Column]) -> Predictions:
        """The predictions for a table; one that does not fit the coding is a UserError, before anything is done.

        Rows go through the net in the pieces that evaluation uses: never are all of them coded at once.
        """
        rows = self.read(columns)
        count = int(rows.usable.sum())
        if count < fewest(self.task):
            raise UserError(
                "This net normalises by the rows of a batch: one row alone has no prediction. Add rows."
            )
        labels = np.full(count, -1) if rows.labels is None else rows.labels
        answers, lines = np.full(len(rows.usable), -1), np.full((count, 2 + len(self.classes)), np.nan)
        places = np.flatnonzero(rows.usable)
        for piece in np.array_split(np.arange(count), math.ceil(count / local.MEASURE_ROWS)):
            answers[places[piece]], lines[piece] = self._piece(rows.code(piece), labels[piece])
        probabilities = np.full((len(answers), len(self.classes)), np.nan)
        probabilities[places] = lines[:, 2:]
        known, figures = labels >= 0, None
        if known.any():
            judged = Judged("classification", torch.from_numpy(lines[known]), torch.from_numpy(labels[known]))
            scores = judged.figures(chosen_scores(self.score, everything=True))
            figures = {"rows": len(judged), "score": self.score.name, **scores}
        return Predictions(self.classes, answers, probabilities, figures)

    @torch.no_grad()
    def _piece(self, x: Array, labels: Array) -> tuple[Array, Array]:
        """The answers to some rows, and their lines as evaluation has them; an unknown label counts as 0."""
        task = self.task
        y = torch.from_numpy(labels).clamp(min=0).to(task.device)
        batch = Batch(torch.from_numpy(x).to(task.device, task.dtype), y, buffers=self.buffers)
        outputs = task.logits(self.w, batch)
        lines = lines_of(task.objective, outputs, y, whole=True)
        return outputs.argmax(dim=1).cpu().numpy(), lines.cpu().numpy()


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


def flat_model(task: Task, tensors: Mapping[str, Tensor], path: Path) -> tuple[Tensor, Tensor]:
    """Weights and running statistics as a task's flat vectors, if the tensors are of just that net."""
    w, buffers = task.initial(), task.initial_buffers()
    own = task.named(w, buffers)
    frozen = own.keys() - {*task.parameters.names, *task.buffers.names}
    for name in sorted(own.keys() | tensors.keys()):
        here, there = own.get(name), tensors.get(name)
        if here is None or there is None or (here.shape, here.dtype) != (there.shape, there.dtype):
            raise UserError(
                f"{path} is of another net: its {name} does not fit. Use the --plugin of the training."
            )
        if name in frozen and here.is_floating_point() and not here.cpu().equal(there):
            raise UserError(
                f"The net's frozen {name} is another than in {path}. Use the --plugin of the training."
            )
        if there.is_floating_point() and not there.isfinite().all():
            raise UserError(f"{path} is damaged: its {name} is not finite. Copy it back from where it was kept.")
    flat = (part.flatten(tensors, task.dtype).to(task.device) for part in (task.parameters, task.buffers))
    return next(flat), next(flat)
