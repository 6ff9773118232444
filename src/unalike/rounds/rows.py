"""Rows and labels in memory, handed out as batches."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unalike.data.dataset import Array, Dataset
from unalike.models.batch import Batch
from unalike.models.derivatives import Stored

PREPARED_BYTES = 64 * 2**20
"""Data sets up to this size are turned into floating point once instead of batch by batch."""


class Rows:
    """Rows and labels on the device, handed out as batches in floating point (tokens: as whole numbers)."""

    def __init__(self, x: Any, y: Array, dataset: Dataset, dtype: torch.dtype, device: torch.device) -> None:
        self._given = (x, y, dataset)
        self._joined: tuple[Rows, Rows] | None = None
        self.y = _answers(y, dataset, dtype).to(device)
        self.unit = float(dataset.target.scale)
        """what 1 in ``y`` is in the table's own units, where these are standardised numbers"""
        self._dtype_of_net = dtype
        self._dtype = torch.int64 if dataset.kind == "tokens" else dtype
        self._shape = dataset.shape
        self._plain = dataset.kind == "tokens" or (not dataset.shift.any() and (dataset.scale == 1).all())
        self._shift = torch.as_tensor(dataset.shift, dtype=dtype, device=device)
        self._scale = torch.as_tensor(dataset.scale, dtype=dtype, device=device)
        self._sparse = x.tocsr() if dataset.is_sparse else None
        self._x = torch.zeros(0) if dataset.is_sparse else self._on_device(x, device)
        self._prepared = False
        if self._sparse is None and self._x.numel() * dtype.itemsize <= PREPARED_BYTES:
            self._x, self._prepared = self._prepare(self._x), True

    def __len__(self) -> int:
        return len(self.y)

    def _on_device(self, x: Array, device: torch.device) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(x))
        # Small numbers stay small until the batch. Before it moves: not every device has float64.
        return (tensor if tensor.dtype in (torch.uint8, torch.int16) else tensor.to(self._dtype)).to(device)

    def _prepare(self, x: Tensor) -> Tensor:
        x = x.to(self._dtype)
        return x if self._plain else (x - self._shift) / self._scale

    def joined(self, more: Rows) -> Rows:
        """These rows and then ``more``, made once: both are asked for several times in an exchange."""
        if self._joined is None or self._joined[0] is not more:
            (x, y, dataset), (other, answers, _) = self._given, more._given
            both = _under(x, other) if dataset.is_sparse else np.concatenate([x, other])
            found = Rows(both, np.concatenate([y, answers]), dataset, self._dtype_of_net, self.y.device)
            self._joined = more, found
        return self._joined[1]

    @cached_property
    def stored(self) -> Stored | None:
        """All rows as they are kept, and the (x - shift) / scale that is still to do.

        None for sparse rows with a shift or a scale: only their batches have it.
        """
        if self._sparse is not None:
            parts = (self._sparse.data, self._sparse.indptr, self._sparse.indices)
            kinds = (self._dtype_of_net, torch.int64, torch.int32)
            x, starts, columns = (torch.from_numpy(v).to(kind) for v, kind in zip(parts, kinds, strict=True))
            return Stored(x, self.y, starts=starts, columns=columns) if self._plain else None
        if self._prepared or self._plain:
            return Stored(self._x, self.y)
        shift, scale = (v.broadcast_to(self._shape).contiguous() for v in (self._shift, self._scale))
        return Stored(self._x, self.y, shift, scale)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """The rows and labels at ``index``, which may have any number of axes."""
        flat = index.reshape(-1)
        if self._sparse is None:
            x = self._x.index_select(0, flat)
        else:  # only the batch is ever dense
            x = torch.from_numpy(self._sparse[flat.cpu().numpy()].toarray()).to(self.y.device)
        x = x if self._prepared else self._prepare(x)
        return x.reshape(*index.shape, *self._shape), self.y.index_select(0, flat).reshape(index.shape)


def _answers(y: Array, dataset: Dataset, dtype: torch.dtype) -> Tensor:
    """The labels, or the standardised targets."""
    if dataset.task == "classification":
        return torch.from_numpy(np.asarray(y, dtype=np.int64))
    return torch.from_numpy(np.asarray((y - dataset.target.shift) / dataset.target.scale)).to(dtype)


def _under(x: Any, other: Any) -> Any:
    """A sparse table with another one below it."""
    from scipy import sparse  # slow to import, so only when it is needed

    return sparse.vstack([x, other]).tocsr()


def batch_of(rows: Rows, index: Tensor, buffers: Tensor | None = None, places: Tensor | None = None) -> Batch:
    """The rows at ``index`` as a batch for evaluation; ``places`` says which of a party's rows they are."""
    x, y = rows.take(index)
    return Batch(x, y, buffers=buffers, index=places)
