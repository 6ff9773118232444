"""Scores on public rows: what a party's model says of rows that everybody has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


def at_their_places(values: Tensor, batch: Batch, count: int) -> Tensor:
    """A table of ``count`` rows with the batch's values at its rows' places, for a measuring pass to average.

    Passes average over rows; times ``count`` here, the mean of all batches' tables is the table of all rows. So
    logits come from a pass, which uses the running statistics that the engine has for the party.
    """
    import torch

    assert batch.index is not None
    real = torch.ones_like(values[:, 0]) if batch.mask is None else batch.mask.to(values.dtype)
    seen = torch.where(real[:, None] > 0, values, 0) * (count / real.sum())
    return values.new_zeros(count, values.shape[-1]).index_add(0, batch.index, seen)


def outputs_of(task: Task) -> int:
    """How many numbers a net gives for a row."""
    return task.objective.outputs(task.classes)


def needs_classes(task: Task, name: str) -> None:
    """Refuse a task without classes: there are no scores of classes to exchange."""
    if task.objective.task != "classification":
        raise UserError(
            f"{name} is for classes, whose scores it exchanges; this task has numbers to predict. "
            "Choose fedavg, or fedmd."
        )
