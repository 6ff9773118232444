"""Training at the server, on rows that it has: plain SGD, one batch after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@dataclass(frozen=True)
class ServerWork:
    """``epochs`` of plain SGD with learning rate ``rate`` on batches of ``batch`` rows, in an order drawn anew.

    A last batch that is not full is left out, unless it is the only one. Batch norm uses the batch at hand and
    leaves the running statistics alone: they are those of the parties.
    """

    epochs: int
    rate: float
    batch: int

    def check(self, name: str) -> None:
        """Refuse work that cannot be done."""
        if self.epochs < 0 or self.batch < 1:
            raise UserError(
                f"{name} trains at the server for {self.epochs} epochs on batches of {self.batch}. "
                "Use 0 epochs or more, and batches of a row or more."
            )
        if not 0 < self.rate < float("inf"):
            raise UserError(f"{name}.rate must be above 0, got {self.rate}. Try 0.01.")

    def trained(self, task: Task, w: Tensor, x: Tensor, y: Tensor, *place: int) -> Tensor:
        """``w`` after that work on these rows; ``place`` tells the streams of several trainings apart."""
        import torch

        from unalike.models.batch import Batch
        from unalike.models.streams import own_torch_stream
        from unalike.randomness import stream

        if task.rehearsing:
            return w
        drawn, full = task.generator(*place), len(y) // self.batch
        with own_torch_stream(stream(task.seed, "server layers", *place), task.device):
            for _ in range(self.epochs):
                order = torch.randperm(len(y), generator=drawn).to(y.device)
                for index in torch.split(order[: full * self.batch or None], self.batch):
                    w = w - self.rate * task.gradient(w, Batch(x[index], y[index], training=True))
        return w
