"""Rows that a Python program gives to ``unalike.run(dataset=...)``: they have no name to load them by."""

from __future__ import annotations

from unalike.data.dataset import DATASETS, Dataset, register_dataset, trainable
from unalike.errors import UserError


@register_dataset("given")
class Given:
    """Rows that a Python program gave to unalike.run(dataset=...): named by their hash, and its to give again."""

    name: str = ""
    sha256: str = ""

    def load(self) -> Dataset:
        """Nothing: the rows are not kept anywhere."""
        raise UserError(
            f"The rows of {DATASETS.describe(self)} were given by a Python program and are not kept here. Make "
            "them again by unalike.dataset(...), or keep them: data.save(FOLDER), and saved:FOLDER works anywhere."
        )


def given(data: Dataset) -> str:
    """What stands for the data in a run's spec: other rows, labels or natural parties are another run."""
    data = trainable(data)
    return DATASETS.describe(Given(data.name, data.digest[:16]))
