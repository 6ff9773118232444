"""How rows that are bytes in memory became numbers, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.data.dataset import Dataset


@dataclass(frozen=True, eq=False)
class ByteScale:
    """A row is (bytes - ``shift``) / ``scale``."""

    shift: Tensor
    scale: Tensor

    @classmethod
    def of(cls, data: Dataset) -> ByteScale | None:
        """That of a data set; None where its rows are no bytes."""
        if getattr(data.x, "dtype", None) != np.uint8:
            return None
        return cls(*(torch.from_numpy(np.array(v, dtype=np.float64)) for v in (data.shift, data.scale)))

    def whole(self, x: Tensor) -> Tensor:
        """The bytes of rows, as whole numbers from 0 to 255."""
        return (x.double() * self.scale.to(x.device) + self.shift.to(x.device)).round().clamp(0, 255).long()

    def numbers(self, whole: Tensor, dtype: torch.dtype) -> Tensor:
        """The rows that such bytes are."""
        shift, scale = (v.to(whole.device, dtype) for v in (self.shift, self.scale))
        return (whole.to(dtype) - shift) / scale
