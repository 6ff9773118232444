"""A data set in memory: training rows, the global test rows, and what is known about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from unalike.errors import UserError
from unalike.registry import Registry

C = TypeVar("C", bound=type)

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows ``x`` with labels ``y`` for training, and a global test set that no party trains on.

    ``x`` keeps its storage type (images stay uint8) until a batch is made; the batch is
    ``(x - shift) / scale`` in floating point. ``group`` is the natural party of each training row (its
    hospital, writer, ...), an index into ``group_names``; it is None where the data have no natural parties.
    ``group_test`` is the same of the test rows (-1: of no party that has training rows).
    """

    name: str
    x: Array
    y: Array
    x_test: Array
    y_test: Array
    classes: tuple[str, ...]
    features: tuple[str, ...] = ()
    group: Array | None = None
    group_names: tuple[str, ...] = ()
    group_test: Array | None = None
    shift: Array = field(default_factory=lambda: np.zeros((), np.float32))
    scale: Array = field(default_factory=lambda: np.ones((), np.float32))

    def __post_init__(self) -> None:
        for rows, labels, part in ((self.x, self.y, "training"), (self.x_test, self.y_test, "test")):
            if len(rows) == 0:
                raise UserError(f"{self.name} has no {part} rows. Check the file it was read from.")
            if len(rows) != len(labels):
                raise UserError(
                    f"{self.name} has {len(rows)} {part} rows but {len(labels)} labels. Every row needs a label."
                )
            if labels.min() < 0 or labels.max() >= len(self.classes):
                raise UserError(
                    f"{self.name} has {part} labels from {labels.min()} to {labels.max()}, but "
                    f"{len(self.classes)} classes. Labels are numbered from 0."
                )
            if np.issubdtype(rows.dtype, np.floating) and not np.isfinite(rows).all():
                bad = int((~np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)).sum())
                raise UserError(
                    f"{self.name} has NaN or infinite values in {bad} {part} row(s). Remove or fill them first."
                )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return tuple(self.x.shape[1:])


class Loader(Protocol):
    """A registered data set: its fields say which variant, ``load`` reads it."""

    def load(self) -> Dataset:
        """Read the data set; a UserError with the remedy where that is not possible."""
        ...


DATASETS: Registry[Loader] = Registry("data set")


@dataclass_transform(frozen_default=True)
def register_dataset(name: str, *, paper: str = "") -> Callable[[C], C]:
    """Class decorator: make the class a frozen dataclass and register it as a data set."""
    return DATASETS.register(name, paper=paper)
