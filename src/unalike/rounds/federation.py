"""A federation in simulation: the task, all rows on the device, and which rows are whose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.models.task import Batch, Task
from unalike.partition.holdout import hold_out
from unalike.partition.partition import Partition
from unalike.randomness import stream

PREPARED_BYTES = 64 * 2**20
"""Data sets up to this size are turned into floating point once instead of batch by batch."""


@dataclass(frozen=True, eq=False)
class PartyRows:
    """One party's own rows: to train on, to select rounds on, and to report on."""

    train: Array
    validation: Array
    held_out: Array


class Rows:
    """Rows and labels on the device, handed out as batches in floating point (tokens: as whole numbers)."""

    def __init__(self, x: Any, y: Array, dataset: Dataset, dtype: torch.dtype, device: torch.device) -> None:
        self.y = torch.from_numpy(np.asarray(y, dtype=np.int64)).to(device)
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

    def stored(self) -> tuple[Tensor, Tensor | None, Tensor | None] | None:
        """All rows as they are kept, and the (x - shift) / scale that is still to do; None for sparse ones."""
        if self._sparse is not None:
            return None
        if self._prepared or self._plain:
            return self._x, None, None
        shift, scale = (v.broadcast_to(self._shape).contiguous() for v in (self._shift, self._scale))
        return self._x, shift, scale

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """The rows and labels at ``index``, which may have any number of axes."""
        flat = index.reshape(-1)
        if self._sparse is None:
            x = self._x.index_select(0, flat)
        else:  # only the batch is ever dense
            x = torch.from_numpy(self._sparse[flat.cpu().numpy()].toarray()).to(self.y.device)
        x = x if self._prepared else self._prepare(x)
        return x.reshape(*index.shape, *self._shape), self.y.index_select(0, flat).reshape(index.shape)


class Federation:
    """Everything that the parties of a simulated run own, and the task they share."""

    def __init__(
        self,
        dataset: Dataset,
        partition: Partition,
        task: Task,
        *,
        seed: int = 0,
        validation: float = 0.0,
        held_out: float = 0.0,
    ) -> None:
        self.dataset, self.partition, self.task = dataset, partition, task
        self._fractions = (validation, held_out)
        self._seed = seed
        self.train = Rows(dataset.x, dataset.y, dataset, task.dtype, task.device)

    @property
    def size(self) -> int:
        """How many parties there are."""
        return self.partition.parties

    @cached_property
    def test(self) -> Rows:
        """The global test set."""
        data = self.dataset
        return Rows(data.x_test, data.y_test, data, self.task.dtype, self.task.device)

    @cached_property
    def parties(self) -> list[PartyRows]:
        """Each party's rows, split the same way for the same seed."""
        made = []
        for number, rows in enumerate(self.partition.rows):
            rng = stream(self._seed, "holdout", number)
            made.append(PartyRows(*hold_out(rows, self.dataset.y[rows], *self._fractions, rng)))
            if not len(made[-1].train):
                raise UserError(f"Party {number} has no training rows. Use fewer parties or hold out less.")
        return made

    def share(self, numbers: Sequence[int]) -> float:
        """The fraction of all training rows that these parties hold."""
        sizes = self._sizes
        return float(sizes[list(numbers)].sum() / sizes.sum())

    @property
    def most_rows(self) -> int:
        """The training rows of the party that has most."""
        return int(self._sizes.max())

    @cached_property
    def _sizes(self) -> Array:
        return np.array([len(party.train) for party in self.parties])

    def train_rows(self, number: int, round: int) -> Array:
        """The rows that a party trains on in a round: all of its own, or those of the phase where the data drift.

        A party without rows of the phase (they may all be held out) keeps those of the phase before, or waits with
        the first that it has.
        """
        train = self.parties[number].train
        if self.partition.phases is None:
            return train
        phases = self.partition.phases[number][np.searchsorted(self.partition.rows[number], train)]
        there = np.unique(phases)
        now = (round - 1) // self.partition.rounds_per_phase
        earlier = there[there <= now]
        chosen: Array = train[phases == (earlier[-1] if len(earlier) else there[0])]
        return chosen

    def count(self, number: int, round: int) -> int:
        """How many rows a party trains on in a round."""
        return len(self.train_rows(number, round))

    @cached_property
    def activations_per_row(self) -> int:
        """Numbers that a forward pass makes for one row, input included."""
        total = math.prod(self.dataset.shape)

        def count(module: nn.Module, inputs: object, output: object) -> None:
            nonlocal total
            total += output.numel() if isinstance(output, Tensor) else 0

        net = self.task.net
        hooks = [m.register_forward_hook(count) for m in net.modules() if not list(m.children())]
        try:
            kind = torch.int64 if self.dataset.kind == "tokens" else torch.float32
            net(torch.zeros(1, *self.dataset.shape, dtype=kind, device=next(net.parameters()).device))
        finally:
            for hook in hooks:
                hook.remove()
        return total


def take_public(dataset: Dataset, fraction: float, seed: int) -> tuple[Dataset, Array, Array]:
    """The data set less a random ``fraction`` of its training rows, and those rows and labels."""
    order = stream(seed, "public").permutation(len(dataset.y))
    public, rest = np.split(order, [round(fraction * len(order))])
    rest.sort()
    group = None if dataset.group is None else dataset.group[rest]
    if not len(rest):
        raise UserError(f"--public {fraction} leaves the parties no rows of {dataset.name}. Lower it.")
    left = replace(dataset, x=dataset.x[rest], y=dataset.y[rest], group=group)
    return left, dataset.x[public], dataset.y[public]


def batch_of(rows: Rows, index: Tensor, buffers: Tensor | None = None) -> Batch:
    """The rows at ``index`` as a batch for evaluation."""
    x, y = rows.take(index)
    return Batch(x, y, buffers=buffers)
