"""Pictures of Pillow as arrays of bytes, channels first."""

from __future__ import annotations

from typing import Any

import numpy as np

from unalike.data.dataset import Array


def is_image(value: Any) -> bool:
    """Whether it is a picture of Pillow, which is not needed here to ask."""
    return hasattr(value, "getbands") and hasattr(value, "convert")


def pixels(image: Any) -> Array:
    """The picture as bytes [channels, height, width]; one that is neither grey nor colour becomes colour."""
    values = np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))
    return np.ascontiguousarray(values[None] if values.ndim == 2 else values.transpose(2, 0, 1))
