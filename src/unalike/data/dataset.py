"""A data set in memory: training rows, the global test rows, and what is known about them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, TypeVar, dataclass_transform

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
    ``group_test`` is the same of the test rows (-1: of no party that has training rows). ``x`` may be a scipy CSR
    matrix, which stays sparse until the batch. Rows of ``tokens`` are whole numbers that mean words or characters
    and stay so.
    """

    name: str
    x: Any
    y: Array
    x_test: Any
    y_test: Array
    classes: tuple[str, ...]
    features: tuple[str, ...] = ()
    group: Array | None = None
    group_names: tuple[str, ...] = ()
    group_test: Array | None = None
    shift: Array = field(default_factory=lambda: np.zeros((), np.float32))
    scale: Array = field(default_factory=lambda: np.ones((), np.float32))
    kind: Literal["numbers", "tokens"] = "numbers"

    def __post_init__(self) -> None:
        for rows, labels, part in ((self.x, self.y, "training"), (self.x_test, self.y_test, "test")):
            count = rows.shape[0]  # a sparse matrix has no len()
            if count == 0:
                raise UserError(f"{self.name} has no {part} rows. Check the file it was read from.")
            if count != len(labels):
                raise UserError(
                    f"{self.name} has {count} {part} rows but {len(labels)} labels. Every row needs a label."
                )
            if not np.issubdtype(np.asarray(labels).dtype, np.integer):
                raise UserError(
                    f"{self.name} has {part} labels of type {np.asarray(labels).dtype}, not whole numbers."
                )
            if not np.issubdtype(rows.dtype, np.number):
                raise UserError(
                    f"{self.name} has {part} rows of type {rows.dtype}, not numbers. Encode them first."
                )
            if labels.min() < 0 or labels.max() >= len(self.classes):
                raise UserError(
                    f"{self.name} has {part} labels from {labels.min()} to {labels.max()}, but "
                    f"{len(self.classes)} classes. Labels are numbered from 0."
                )
            bad = _not_finite(rows)
            if bad:
                raise UserError(
                    f"{self.name} has NaN or infinite values in {bad} {part} row(s). Remove or fill them first."
                )

    @property
    def size(self) -> int:
        """The number of training rows."""
        return len(self.y)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all rows and labels."""
        sha = hashlib.sha256()
        parts = [self.x, self.x_test, self.y, self.y_test]
        if self.is_sparse:
            parts[:2] = [
                getattr(part.tocsr(), name) for part in parts[:2] for name in ("data", "indices", "indptr")
            ]
        for part in parts:
            sha.update(f"{part.dtype} {part.shape}".encode())
            sha.update(np.ascontiguousarray(part).data)
        return sha.hexdigest()

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are kept as a sparse matrix."""
        return hasattr(self.x, "indptr")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return tuple(self.x.shape[1:])


def _not_finite(rows: Any) -> int:
    """How many rows hold NaN or an infinity."""
    if not np.issubdtype(rows.dtype, np.floating):
        return 0
    if hasattr(rows, "indptr"):  # a sparse matrix: what it does not store is zero
        rows = rows.tocsr()
        wrong = np.flatnonzero(~np.isfinite(rows.data))
        return len(np.unique(np.searchsorted(rows.indptr, wrong, side="right")))
    return int((~np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)).sum())


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
