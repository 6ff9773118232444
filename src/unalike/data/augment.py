"""placeholder"""

from typing import Any


def crop_flip(x: Any, top: Any, left: Any, flip: Any, padding: int = 4) -> Any:
    return x


def draw(rng: Any, shape: Any, padding: int = 4) -> Any:
    return rng, rng, rng
