"""Small data sets made for partitions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from unalike.data import Dataset


def from_labels(labels: np.ndarray, classes: int, group: np.ndarray | None = None, groups: int = 0) -> Dataset:
    rows = np.arange(len(labels), dtype=np.float32)[:, None]
    return Dataset(
        name="made",
        x=rows,
        y=labels,
        x_test=rows[:1],
        y_test=labels[:1],
        classes=tuple(str(c) for c in range(classes)),
        group=group,
        group_names=tuple(f"group {g}" for g in range(groups)),
    )


@pytest.fixture(scope="session")
def made() -> Callable[..., Dataset]:
    return from_labels
