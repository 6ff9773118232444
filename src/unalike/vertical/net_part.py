"""A part of a net that one party has: its weights come and go as one flat array, one thread computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from unalike.models.streams import own_torch_stream

Array = NDArray[Any]
BLOCK: Final = 128
"""Rows that are looked at together where nothing is trained: always so many, so that a row's bits depend on it
alone, and not on how many others are asked about."""
LINE: Final = 16
"""Numbers in a line of the processor's cache, at most."""


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


def own_tensor(array: Array) -> Tensor:
    """A copy in torch's own memory, which begins at a whole line of the processor's cache.

    On some processors the last bits of a product of matrices depend on where in a line its numbers begin.
    """
    return torch.from_numpy(np.array(array)).clone()


def whole_lines(rows: Tensor) -> Tensor:
    """The same rows [rows, width], each of which begins at a whole line, so that its place changes no bits."""
    width = rows.shape[-1]
    return functional.pad(rows, (0, -width % LINE))[..., :width]


def _where_predicted(layer: nn.Module, rows: tuple[Any, ...]) -> tuple[Tensor] | None:
    """What a layer reads where rows are predicted: in training it is as plain torch has it."""
    return (whole_lines(rows[0]),) if torch.is_inference_mode_enabled() else None


class NetPart:
    """A module whose weights are those of the flat array that it was last told to use.

    ``uses`` counts how often the weights were replaced: what was computed before is of other weights.
    """

    def __init__(self, make: Callable[[], nn.Module], random: np.random.Generator, dtype: torch.dtype) -> None:
        with own_torch_stream(random):
            self.module = make().to(dtype)
        for layer in self.module.modules():
            if isinstance(layer, nn.Linear):
                layer.register_forward_pre_hook(_where_predicted)
        self._dtype, self._parameters = dtype, list(self.module.parameters())
        self._sizes = [parameter.numel() for parameter in self._parameters]
        self.size = sum(self._sizes)
        self.uses = 0

    @property
    def weights(self) -> Array:
        """The weights in use, as an array that nothing changes any more."""
        none = torch.zeros(0, dtype=self._dtype)
        return torch.cat([none, *(parameter.detach().reshape(-1) for parameter in self._parameters)]).numpy()

    def use(self, weights: Array) -> None:
        """Compute with a copy of these weights from now on."""
        self._point_to(torch.from_numpy(np.array(weights)).split_with_sizes(self._sizes))

    def _point_to(self, parts: Iterable[Tensor]) -> None:
        for parameter, part in zip(self._parameters, parts, strict=True):
            parameter.data = part.reshape(parameter.shape).clone()
            parameter.grad = None
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
        self._point_to([parameter.detach() for parameter in self._parameters])
        with torch.no_grad():
            for parameter, found, kept in zip(self._parameters, gradients, speeds, strict=True):
                gradient = found.add(parameter, alpha=l2) if l2 else found
                if kept is not None:
                    gradient = kept.view(gradient.shape).mul_(momentum).add_(gradient)
                parameter.add_(gradient, alpha=-lr)
        return self.weights, None if speed is None else speed.numpy()

    def in_blocks(self, x: Array, compute: Callable[[Tensor], Tensor] | None = None) -> Array:
        """What the module makes of rows, some at a time; ``compute``: what is done with a block instead."""
        return in_blocks(compute or self.module, own_tensor(x).to(self._dtype))


def in_blocks(compute: Callable[[Tensor], Tensor], rows: Tensor) -> Array:
    """What is computed of rows, always so many at a time; the last block is filled up with rows of zeros."""
    found = []
    with torch.inference_mode(), on_one_thread():
        for start in range(0, max(1, len(rows)), BLOCK):  # one block for no rows: it says how wide they would be
            block = rows.new_zeros(BLOCK, *rows.shape[1:])
            block[: len(rows) - start] = rows[start : start + BLOCK]
            found.append(compute(block))
    return torch.cat(found)[: len(rows)].numpy()
