"""The rows of one step, as a loss sees them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unalike.errors import UserError
from unalike.models import noise


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows and labels of one step.

    ``mask`` is 1 for a real row and 0 for padding, or None where all rows are real: average over rows with
    :meth:`mean`, never with ``.mean()``. ``buffers`` are the net's running statistics as a flat vector; a
    training forward updates them in place, which is the one side effect in the whole contract.

    ``index`` says which rows these are: positions among the party's own rows, or among the public ones. ``step``
    counts the steps of a phase, and ``key`` is what random numbers derive from; both are there in training.
    """

    x: Tensor
    y: Tensor
    mask: Tensor | None = None
    buffers: Tensor | None = None
    training: bool = False
    index: Tensor | None = None
    step: int = 0
    key: Tensor | None = None

    def mean(self, values: Tensor) -> Tensor:
        """The mean of ``values`` over the real rows (the leading axis)."""
        if self.mask is None:
            return values.mean(dim=0)
        mask = self.mask.reshape(self.mask.shape + (1,) * (values.dim() - 1))
        real = torch.where(mask > 0, values, 0)  # not a product: padding may be infinite
        return real.sum(dim=0) / self.mask.sum().clamp(min=1)

    def normal(self, count: int, which: int = 0) -> Tensor:
        """Standard normal numbers, new ones in every step; ``which`` tells several draws apart."""
        return noise.normal(self._key("normal"), count, which, self._dtype)

    def uniform(self, count: int, which: int = 0) -> Tensor:
        """Numbers from 0 to below 1, all equally likely; new ones in every step, as with :meth:`normal`."""
        return noise.uniform(self._key("uniform"), count, which, self._dtype)

    @property
    def _dtype(self) -> torch.dtype:
        return self.x.dtype if self.x.is_floating_point() else torch.float32

    def _key(self, method: str) -> Tensor:
        if self.key is None:
            raise UserError(f"batch.{method} is there in training only. Elsewhere use party.normal.")
        return noise.key_of_step(self.key, self.step)
