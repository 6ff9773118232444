"""FCUBE: a made-up cube whose parties differ in their features only."""

from __future__ import annotations

import numpy as np

from unalike.data.dataset import Array, Dataset, register_dataset
from unalike.errors import UserError

_TRAIN_ROWS = 4000
_TEST_ROWS = 1000
_STEPS = 2**24  # coordinates are multiples of 1/2^24: exact in float32, so none is rounded onto 0 or 1
_UPPER_OCTANTS = np.array([[1, 1, 1], [1, 1, -1], [1, -1, 1], [1, -1, -1]])


@register_dataset("fcube", paper="Li et al. 2022 (NIID-Bench), arXiv:2102.02079, section 4.2")
class FCube:
    """4,000 points in a cube, 2 classes split by x1 = 0; four natural parties of two opposite octants each.

    The points lie in (-1, 1)^3; those with x1 > 0 have label 0, the others label 1. Each natural party holds
    the two octants that mirror each other in the origin, 500 points in each, so that labels are balanced
    while features differ. The 1,000 test points are uniform over the cube.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UserError(f"fcube's seed must be >= 0, got {self.seed}. Use 0.")

    def load(self) -> Dataset:
        """Draw the points; the same seed gives the same points."""
        rng = np.random.default_rng(self.seed)
        group = np.repeat(np.arange(4), _TRAIN_ROWS // 4)
        mirror = np.tile([1, -1], _TRAIN_ROWS // 2)
        x = _magnitudes(rng, _TRAIN_ROWS) * _UPPER_OCTANTS[group] * mirror[:, None]
        x_test = _magnitudes(rng, _TEST_ROWS) * rng.choice([-1, 1], size=(_TEST_ROWS, 3))
        return Dataset(
            name="fcube",
            x=x.astype(np.float32),
            y=_labels(x),
            x_test=x_test.astype(np.float32),
            y_test=_labels(x_test),
            classes=("upper", "lower"),
            features=("x1", "x2", "x3"),
            group=group,
            group_names=("+++/---", "++-/--+", "+-+/-+-", "+--/-++"),
        )


def _magnitudes(rng: np.random.Generator, rows: int) -> Array:
    """Uniform in (0, 1), both ends left out: a point on a plane would belong to no octant."""
    magnitudes: Array = rng.integers(1, _STEPS, size=(rows, 3)) / _STEPS
    return magnitudes


def _labels(x: Array) -> Array:
    return np.where(x[:, 0] > 0, 0, 1)
