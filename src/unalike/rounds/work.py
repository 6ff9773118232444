"""Local work: how many steps a party takes in a round, and which rows each step sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unalike.data.dataset import Array
from unalike.errors import UserError

PADDING = -1
LARGEST = 10**7


@dataclass(frozen=True)
class LocalWork:
    """Either ``epochs`` over the party's rows or a fixed number of ``steps``, in batches.

    With ``drop_last`` an incomplete last batch of an epoch is left out, unless it is the epoch's only one: a
    party with fewer rows than a batch still trains. Counted in steps, epochs follow each other until the
    steps are done.
    """

    batch_size: int
    epochs: int | None = None
    steps: int | None = None
    drop_last: bool = False

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.steps is None):
            raise UserError("Give local work as epochs or as steps: one of the two.")
        for name, value in (("batch size", self.batch_size), ("epochs", self.epochs), ("steps", self.steps)):
            if value is not None and not 1 <= value <= LARGEST:
                raise UserError(f"The local {name} must be from 1 to {LARGEST:,}, got {value}. Try 10.")

    def steps_per_epoch(self, rows: int) -> int:
        """Batches in one pass over ``rows`` rows."""
        whole, rest = divmod(rows, self.batch_size)
        return max(1, whole) if self.drop_last or not rest else whole + 1

    def count(self, rows: int) -> int:
        """Local steps in a round of a party with that many rows."""
        return self.steps if self.steps is not None else (self.epochs or 0) * self.steps_per_epoch(rows)

    def plan(self, size: int, rng: np.random.Generator) -> Array:
        """Which of ``size`` rows every step sees, [steps, batch]; a short batch is filled up with ``PADDING``."""
        steps = self.count(size)
        per_epoch = self.steps_per_epoch(size)
        width = min(self.batch_size, size)
        taken = min(size, per_epoch * width)
        epochs = -(-steps // per_epoch)
        plan = np.full((epochs, per_epoch * width), PADDING, dtype=np.int64)
        for epoch in plan:
            epoch[:taken] = rng.permutation(size)[:taken]
        return plan.reshape(epochs * per_epoch, width)[:steps]
