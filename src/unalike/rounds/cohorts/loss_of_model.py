"""What a candidate for a cohort answers: how large the model's loss is on its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unalike.algorithms.contract import Algorithm, Party, Vectors
from unalike.models.batch import Batch


@dataclass(frozen=True)
class LossOfModel(Algorithm):
    """One pass over the training rows; nothing is learnt, and no state changes."""

    needs_each: ClassVar[bool] = True

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """The task's loss under the model that was sent."""
        return {"loss": party.task.loss(party.received["w"], batch)}
