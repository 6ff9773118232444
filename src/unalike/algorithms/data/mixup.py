"""Mixup within each party: the baseline of what means of others' rows can add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.algorithms.contract import Algorithm, Party, Vectors, algorithm
from unalike.algorithms.data.mixing import check_mixable, check_numbers, symmetric_beta
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@algorithm("mixup", paper="Zhang et al. 2018 (arXiv:1710.09412), equation 1")
class Mixup(Algorithm):
    """FedAvg whose parties mix their own rows and labels with each other.

    In every step all rows of a batch are mixed with another row of it: x = (1-l) x_i + l x_j, and the loss is
    (1-l) L(x, y_i) + l L(x, y_j), which for cross-entropy is that of the mixed label. l is drawn from
    Beta(``alpha``, ``alpha``), once a batch, as in the authors' code. j is the row after i in the batch (after the
    last comes the first): batches are in random order. Nothing but the update leaves a party.
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.alpha < float("inf"):
            raise UserError(f"Mixup.alpha must be above 0, got {self.alpha}. Use 1, or fedavg for no mixing.")

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model alone; labels that are no classes are refused."""
        check_mixable("Mixup", task)
        return {"w": w}

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """The loss of the mixed rows."""
        import torch

        task, x, y = party.task, batch.x, batch.y
        check_numbers("Mixup", x)
        rows = torch.arange(len(y), device=y.device) + 1
        # In a padded batch the real rows come first: the last of them is followed by the first.
        other = torch.where(rows < (len(y) if batch.mask is None else batch.mask.sum()), rows, 0)
        lam = symmetric_beta(torch.cat([batch.uniform(1, 0), batch.uniform(1, 1)]), self.alpha)
        return self._mixed(task, w, batch, other, lam)

    def _mixed(self, task: Task, w: Tensor, batch: Batch, other: Tensor, lam: Tensor) -> Tensor:
        """(1-lam) L(x, y) + lam L(x, y of the others) at x = (1-lam) of each row and lam of its other one."""
        from dataclasses import replace

        x, y = batch.x, batch.y
        logits = task.logits(w, replace(batch, x=(1 - lam) * x + lam * x[other]))
        return (1 - lam) * task.loss_of(logits, batch) + lam * task.loss_of(logits, replace(batch, y=y[other]))
