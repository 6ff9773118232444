"""Feature skew by instruments that differ: turned, brighter, in other units, with dead pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.partition.distorted import check_numbers, draw_seed, party_stream, prepared
from unalike.partition.partition import PARTITIONS, Distortion, Partition, register_partition

Kind = Literal["rotation", "brightness", "colour", "scale", "shift", "impulse"]
_OF_IMAGES: tuple[Kind, ...] = ("rotation", "brightness", "colour")
_LOOKED_AT = 4096  # rows from which ranges are taken: enough for an extreme, few enough for large images
_AT_ONCE = 1024  # rows that are turned at a time


@register_partition(
    "feature-shift",
    paper="Zhu et al. 2021, arXiv:2106.06843, section 3.1.3 (impulse); Ghosh et al. 2020, arXiv:2006.04088, "
    "section 6 (rotation)",
)
class FeatureShift:
    """Feature skew, a distortion: rotation, brightness, colour, scale, shift or impulse noise, party by party.

    Party 0 sees the data as they are. Except for rotation, party i of 0 ... N - 1 has the level
    ``l = strength * i / (N - 1)``, so that the last party has the whole strength:

    rotation: images are turned by ``i * strength`` degrees, counter-clockwise. Multiples of 90 degrees move pixels
    and change none; other angles are interpolated, and corners are filled with the darkest value.
    brightness: all pixels of images are moved by l of the data's range, and stay within it.
    colour: each channel of images is scaled by exp(l u) and moved by l v of its range, and stays within it.
    scale: each feature (images: channel) is multiplied by exp(l u).
    shift: each feature (images: channel) is moved by l v of its standard deviation.
    impulse: a fraction l of the values is replaced by the feature's least or greatest value (salt and pepper).

    u and v are drawn from [-1, 1] for each party and feature. All is done to the prepared features, as for
    feature-noise; ranges are those of at most 4,096 evenly spaced training rows. The test rows stay as they are.
    """

    kind: Kind
    strength: float

    def __post_init__(self) -> None:
        if not (self.strength >= 0 and math.isfinite(self.strength)):
            raise UserError(f"feature-shift's strength must be >= 0, got {self.strength}. Use 0.3.")
        if self.kind == "impulse" and self.strength > 1:
            raise UserError(f"feature-shift's impulse noise has a strength of at most 1, got {self.strength}.")

    def distort(self, dataset: Dataset, partition: Partition, rng: np.random.Generator) -> Distortion:
        """Fix the shifts of these parties, which need the range and the deviation of the features."""
        check_numbers(dataset, PARTITIONS.describe_part(self))
        if self.kind in _OF_IMAGES and len(dataset.shape) != 3:
            others = " or ".join(kind for kind in get_args(Kind) if kind not in _OF_IMAGES)
            raise UserError(
                f"feature-shift's {self.kind} is for images, but {dataset.name} has rows of shape "
                f"{dataset.shape}. Use {others}."
            )
        step = -(-dataset.size // _LOOKED_AT)
        looked_at = prepared(dataset.x[::step], dataset)
        axes = (0, *range(2, looked_at.ndim))  # all but the features of a table, the channels of images
        return Shift(
            self.kind,
            self.strength,
            partition.parties,
            draw_seed(rng),
            low=tuple(looked_at.min(axis=axes).tolist()),
            high=tuple(looked_at.max(axis=axes).tolist()),
            deviation=tuple(looked_at.std(axis=axes).tolist()),
        )


@dataclass(frozen=True)
class Shift:
    """One kind of shift; ``low``, ``high`` and ``deviation`` are those of each feature or channel."""

    kind: Kind
    strength: float
    parties: int
    seed: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    deviation: tuple[float, ...]
    changes_features: ClassVar[bool] = True

    def level(self, party: int) -> float:
        """From 0 for party 0 to the strength for the last one."""
        return self.strength * party / max(self.parties - 1, 1)

    def apply(self, party: int, x: Array, y: Array) -> tuple[Array, Array]:
        """The party's rows as it sees them, shifted in the same way each time."""
        if party == 0:
            return x, y
        if self.kind == "rotation":
            return rotate(x, self.strength * party, min(self.low)), y
        if self.kind == "impulse":
            return self._impulse(party, x), y
        return self._affine(party, x), y

    def _affine(self, party: int, x: Array) -> Array:
        """``x * factor + offset`` with a factor and an offset for each feature or channel."""
        level, rng = self.level(party), party_stream(self.seed, party)
        low, high, deviation = (_along(values, x) for values in (self.low, self.high, self.deviation))
        u, v = (_along(rng.uniform(-1, 1, len(self.low)), x) for _ in range(2))
        changed: Array
        if self.kind == "scale":
            changed = x * np.exp(level * u)
        elif self.kind == "shift":
            changed = x + level * v * deviation
        elif self.kind == "brightness":
            changed = np.clip(x + level * (high.max() - low.min()), low.min(), high.max())
        else:  # colour: the darkest value stays the point that contrast grows from
            changed = np.clip((x - low) * np.exp(level * u) + low + level * v * (high - low), low, high)
        return changed.astype(x.dtype, copy=False)

    def _impulse(self, party: int, x: Array) -> Array:
        """A pixel is hit in all its channels at once."""
        rng = party_stream(self.seed, party)
        shape = (len(x), 1, *x.shape[2:]) if x.ndim == 4 else x.shape
        drawn = rng.random(shape, dtype=np.float32)
        level = self.level(party)
        changed: Array = np.where(drawn < level / 2, _along(self.low, x), x)
        return np.where(drawn >= 1 - level / 2, _along(self.high, x), changed)


def _along(values: Array | tuple[float, ...], x: Array) -> Array:
    """One value for each feature or channel of ``x``, of its type and ready to be combined with it."""
    return np.asarray(values, x.dtype).reshape(-1, *[1] * (x.ndim - 2))


def rotate(x: Array, degrees: float, background: float) -> Array:
    """Images [rows, channels, height, width] turned counter-clockwise about their middle, in the same frame."""
    turns, rest = divmod(degrees, 90)
    square = x.shape[-1] == x.shape[-2]
    if rest == 0 and (square or turns % 2 == 0):
        return np.rot90(x, int(turns % 4), axes=(-2, -1))
    return _interpolate(x, math.radians(degrees), background)


def _interpolate(x: Array, angle: float, background: float) -> Array:
    """Each pixel of the result is the weighted mean of the four pixels around the place that it comes from."""
    height, width = x.shape[-2:]
    down, right = np.mgrid[:height, :width].astype(np.float64)
    down -= (height - 1) / 2
    right -= (width - 1) / 2
    # Rows are counted downwards, so this looks up where a counter-clockwise turn took the pixel from.
    source_down = math.cos(angle) * down + math.sin(angle) * right + (height - 1) / 2
    source_right = -math.sin(angle) * down + math.cos(angle) * right + (width - 1) / 2
    top, left = np.floor(source_down).astype(int), np.floor(source_right).astype(int)
    flat = x.reshape(*x.shape[:-2], height * width)
    turned = np.full(flat.shape, background, x.dtype)
    for first in range(0, len(flat), _AT_ONCE):  # a block at a time: each corner needs a copy of it
        block = slice(first, first + _AT_ONCE)
        for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
            weight = (1 - np.abs(source_down - top - i)) * (1 - np.abs(source_right - left - j))
            inside = (top + i >= 0) & (top + i < height) & (left + j >= 0) & (left + j < width)
            place = np.where(inside, (top + i) * width + left + j, 0).ravel()
            weight = np.where(inside, weight, 0).astype(x.dtype).ravel()
            turned[block] += (np.take(flat[block], place, axis=-1) - x.dtype.type(background)) * weight
    return turned.reshape(x.shape)
