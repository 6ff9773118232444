"""A part of a net that one party has: its weights come and go as one flat array, one thread computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unalike.models.task import own_torch_stream

Array = NDArray[Any]
BLOCK: Final = 128
"""Rows that are looked at together where nothing is trained: always so many, so that a row's bits depend on it
alone, and not on how many others are asked about."""


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Torch computes on one thread in here: how many there are can change the last bits of a sum."""
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class NetPart:
    """A module whose weights are those of the flat array that it was last told to use.

    ``uses`` counts how often the weights were replaced: what was computed before is of other weights.
    """

    def __init__(self, make: Callable[[], nn.Module], random: np.random.Generator, dtype: torch.dtype) -> None:
        with own_torch_stream(random):
            self.module = make().to(dtype)
        self._dtype, self._parameters = dtype, list(self.module.parameters())
        self._sizes = [parameter.numel() for parameter in self._parameters]
        self.size = sum(self._sizes)
        self.uses = 0
        flat = [parameter.detach().reshape(-1) for parameter in self._parameters]
        self._flat = torch.cat(flat) if flat else torch.zeros(0, dtype=dtype)

    @property
    def weights(self) -> Array:
        """The weights in use, as an array that nothing changes any more."""
        return self._flat.numpy().copy()

    def use(self, weights: Array) -> None:
        """Compute with a copy of these weights from now on."""
        self._point_to(torch.from_numpy(np.array(weights)))

    def _point_to(self, flat: Tensor) -> None:
        for parameter, part in zip(self._parameters, flat.split_with_sizes(self._sizes), strict=True):
            parameter.data = part.view(parameter.shape)
            parameter.grad = None
        self._flat = flat
        self.uses += 1

    def descend(
        self, lr: float, *, momentum: float = 0.0, velocity: Array | None = None, l2: float = 0.0
    ) -> tuple[Array, Array | None]:
        """The weights after a step down the gradients that were found, which are then in use; and the velocity.

        It is the step of ``torch.optim.SGD``, to the bit: ``l2`` is its ``weight_decay``, a velocity of zeros its
        first step.
        """
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self._parameters]
        speed = None if velocity is None else torch.from_numpy(np.array(velocity))
        none: list[Tensor | None] = [None] * len(self._sizes)
        speeds = none if speed is None else list(speed.split_with_sizes(self._sizes))
        self._point_to(self._flat.clone())
        with torch.no_grad():
            for parameter, found, kept in zip(self._parameters, gradients, speeds, strict=True):
                gradient = found.add(parameter, alpha=l2) if l2 else found
                if kept is not None:
                    gradient = kept.view(gradient.shape).mul_(momentum).add_(gradient)
                parameter.add_(gradient, alpha=-lr)
        return self.weights, None if speed is None else speed.numpy()

    def in_blocks(self, x: Array, compute: Callable[[Tensor], Tensor] | None = None) -> Array:
        """What the module makes of rows, some at a time; ``compute``: what is done with a block instead."""
        return in_blocks(compute or self.module, torch.from_numpy(np.array(x)).to(self._dtype))


def in_blocks(compute: Callable[[Tensor], Tensor], rows: Tensor) -> Array:
    """What is computed of rows, always so many at a time; the last block is filled up with rows of zeros."""
    found = []
    with torch.no_grad(), on_one_thread():
        for start in range(0, max(1, len(rows)), BLOCK):  # one block for no rows: it says how wide they would be
            block = rows.new_zeros(BLOCK, *rows.shape[1:])
            block[: len(rows) - start] = rows[start : start + BLOCK]
            found.append(compute(block))
    return torch.cat(found)[: len(rows)].numpy()
