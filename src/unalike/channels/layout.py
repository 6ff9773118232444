"""What a party uploads, and how its keys are laid out in one vector."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unalike.channels.errors import ChannelError, NotFinite

if TYPE_CHECKING:
    from torch import Tensor

Vectors = dict[str, "Tensor"]
Array = NDArray[Any]


@dataclass(frozen=True)
class Layout:
    """The keys of an upload with their shapes, in the order in which they are joined.

    Both sides know it, so none of it is sent. ``plain`` keys are summed as they are, the others times the party's
    weight; ``loss``: a training loss comes along. ``complete`` keys are always sent with all their entries;
    ``layers``: names and sizes of the net's layers, in the order of its weights. Single numbers come after the
    vectors: a channel that compresses leaves them as they are (a count, a normaliser: one of them out of place
    ruins a round).
    """

    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    plain: frozenset[str] = frozenset()
    dtype: str = "float32"
    loss: bool = False
    complete: frozenset[str] = frozenset()
    layers: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(
        cls,
        vectors: Mapping[str, Tensor],
        plain: frozenset[str] = frozenset(),
        dtype: str = "float32",
        loss: bool = False,
        complete: frozenset[str] = frozenset(),
        layers: tuple[tuple[str, int], ...] = (),
    ) -> Layout:
        """The layout of these vectors (which may be on the meta device)."""
        shapes = {key: tuple(value.shape) for key, value in vectors.items()}
        order = sorted(shapes, key=lambda key: (math.prod(shapes[key]) == 1, key))
        joined = tuple((key, shapes[key]) for key in order)
        return cls(joined, plain & shapes.keys(), dtype, loss, complete & shapes.keys(), layers)

    @property
    def sizes(self) -> list[int]:
        """How many entries each key has."""
        return [math.prod(shape) for _, shape in self.shapes]

    @property
    def size(self) -> int:
        """How many numbers an upload has, over all of its keys."""
        return sum(self.sizes)

    @property
    def numbers(self) -> int:
        """The entries at the end that are single numbers."""
        return self.sizes.count(1)

    @property
    def free(self) -> Array:
        """For each entry, whether a channel may leave it out: not single numbers, nor what is always complete."""
        each = [
            size != 1 and key not in self.complete for (key, _), size in zip(self.shapes, self.sizes, strict=True)
        ]
        return np.repeat(np.array(each, bool), self.sizes)

    @property
    def item(self) -> np.dtype[Any]:
        """The type of an entry as it is sent."""
        return np.dtype(self.dtype).newbyteorder("<")

    def join(self, vectors: Mapping[str, Tensor], party: int | None = None) -> Array:
        """All keys as one vector; refuses what is not of this layout, or not finite."""
        if {key: tuple(value.shape) for key, value in vectors.items()} != dict(self.shapes):
            raise ChannelError(f"{_who(party)} uploads other keys or shapes than {dict(self.shapes)}.")
        parts = []
        for key, _ in self.shapes:
            part = vectors[key].detach().cpu().reshape(-1).numpy().astype(self.dtype)
            if not np.isfinite(part).all():
                raise NotFinite(f"{_who(party)}'s {key} is not finite. Lower --lr, or look at its rows.")
            parts.append(part)
        return np.concatenate([np.empty(0, self.dtype), *parts])

    def split(self, vector: Array) -> Vectors:
        """The keys of a joined vector, as tensors."""
        import torch

        if vector.shape != (self.size,):
            raise ChannelError(f"An upload must have {self.size} entries, got {vector.shape}.")
        vector = np.array(vector, self.dtype)
        parts = np.split(vector, np.cumsum(self.sizes))[: len(self.shapes)]
        return {
            key: torch.from_numpy(part).reshape(shape)
            for (key, shape), part in zip(self.shapes, parts, strict=True)
        }

    def weights(self, weight: float) -> Array:
        """What each entry is multiplied by: the party's weight, or 1 for plain keys."""
        each = [1.0 if key in self.plain else weight for key, _ in self.shapes]
        return np.repeat(np.array(each, np.float64), self.sizes)

    def key_at(self, position: int) -> str:
        """The key that an entry belongs to."""
        ends = np.cumsum(self.sizes)
        return self.shapes[int(np.searchsorted(ends, position, side="right"))][0]


@dataclass(frozen=True, eq=False)
class Upload:
    """A party's answer before it is multiplied by its weight; ``layout`` says which keys will be."""

    vectors: Vectors
    layout: Layout
    weight: float = 1.0
    loss: float | None = None

    def message(self) -> Summand:
        """The answer with its weight multiplied in, ready to be added."""
        plain = self.layout.plain
        vectors = {key: v if key in plain else v * self.weight for key, v in self.vectors.items()}
        return Summand(vectors, self.weight, None if self.loss is None else self.loss * self.weight)


@dataclass(frozen=True, eq=False)
class Summand:
    """One party's message or the sum of several: weighted keys and the loss are multiplied by the weight."""

    vectors: Vectors
    weight: float
    loss: float | None = None

    def __add__(self, other: Summand) -> Summand:
        vectors = {key: value + other.vectors[key] for key, value in self.vectors.items()}
        loss = None if self.loss is None or other.loss is None else self.loss + other.loss
        return Summand(vectors, self.weight + other.weight, loss)


def _who(party: int | None) -> str:
    return "A party" if party is None else f"Party {party}"
