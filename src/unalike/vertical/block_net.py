"""A net of blocks: each party's columns have a body of their own, and one head reads what all bodies make.

Torch is needed to import this. The joint net has no connection between the columns of two parties below the head.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from unalike.vertical.net_part import NetPart, in_blocks
from unalike.vertical.objectives import ScoreLoss, loss_of

if TYPE_CHECKING:
    from unalike.models.mlp import Mlp

Array = NDArray[Any]
Merge = Literal["concat", "sum"]
MERGES: Final[tuple[Merge, ...]] = ("concat", "sum")


@dataclass(frozen=True)
class Blocks:
    """What the parts of a net of blocks are like: how bodies' numbers are merged, and what the head is."""

    model: Mlp
    merge: Merge
    top: tuple[int, ...]
    """The widths of the head's own hidden layers."""
    clip: float
    """The greatest length of what a body makes of a row; 0: any."""

    @property
    def width(self) -> int:
        """How many numbers a body makes of a row."""
        return self.model.hidden[-1]

    def body(self, columns: int, random: np.random.Generator | None = None) -> NetPart:
        """A body for so many columns: the hidden layers of the model."""
        return NetPart(lambda: self.model.build((columns,), 1).body, _or_any(random), torch.float32)

    def head(self, parties: int, outputs: int, random: np.random.Generator | None = None) -> NetPart:
        """The head: its hidden layers with ReLU, then the scores."""
        widths = [self.width * (parties if self.merge == "concat" else 1), *self.top]

        def make() -> nn.Module:
            hidden = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
            return nn.Sequential(*hidden, nn.Linear(widths[-1], outputs))

        return NetPart(make, _or_any(random), torch.float32)

    def embedding(self, body: NetPart, x: Tensor) -> Tensor:
        """What a body makes of rows, no row longer than ``clip``."""
        made: Tensor = body.module(x)
        if not self.clip:
            return made
        length: Tensor = made.norm(dim=1, keepdim=True)
        shortened: Tensor = made * (self.clip / length.clamp(min=self.clip))
        return shortened

    def scores(self, head: NetPart, embeddings: Sequence[Tensor]) -> Tensor:
        """What the head makes of all parties' embeddings, given in party order."""
        if self.merge == "concat":
            merged = torch.cat(list(embeddings), dim=1)
        else:
            merged = embeddings[0]
            for embedding in embeddings[1:]:
                merged = merged + embedding
        found: Tensor = head.module(merged)
        return found

    def embedded(self, body: NetPart, x: Array) -> Array:
        """What a trained body makes of rows that are predicted, float32 [rows, width]."""
        return body.in_blocks(x, lambda rows: self.embedding(body, rows))

    def margins(self, head: NetPart, embeddings: Sequence[Array]) -> Array:
        """The scores of rows that are predicted, float64 [rows, outputs]."""
        stacked = torch.from_numpy(np.stack(embeddings, axis=1))
        return in_blocks(lambda rows: self.scores(head, rows.unbind(1)), stacked).astype(np.float64)


def _or_any(random: np.random.Generator | None) -> np.random.Generator:
    """Random numbers for weights that are replaced at once."""
    return np.random.default_rng(0) if random is None else random


def mean_loss(scores: Tensor, y: Tensor, classes: int) -> Tensor:
    """What is lowered: cross-entropy, of one score for two classes; squared error of a standardised number."""
    if classes == 0:
        return functional.mse_loss(scores[:, 0], y)
    if classes == 2:
        return functional.binary_cross_entropy_with_logits(scores[:, 0], y)
    return functional.cross_entropy(scores, y)


def as_targets(y: Array, classes: int, target: tuple[float, float]) -> Array:
    """Labels as :func:`mean_loss` takes them."""
    if classes == 0:
        return ((np.asarray(y, np.float64) - target[0]) / target[1]).astype(np.float32)
    return y.astype(np.float32 if classes == 2 else np.int64)


@dataclass(frozen=True, eq=False)
class BlockNet:
    """A trained net of blocks of somebody who has all columns, ready for rows."""

    blocks: Blocks
    bodies: tuple[NetPart, ...]
    columns: tuple[Array, ...]
    """By party: its places in the whole table."""
    head: NetPart
    objective: ScoreLoss
    sha256: str
    trees: int = 0
    """It is no sum of trees."""

    @classmethod
    def of(
        cls, arrays: Mapping[str, Array], model: Mlp, classes: int, target: tuple[float, float] = (0.0, 1.0)
    ) -> BlockNet:
        """The net in such arrays, which may be a stranger's: ValueError where they are none."""
        merge, counts, top = (int_array(arrays, name) for name in ("merge", "counts", "top"))
        columns, clip = int_array(arrays, "columns"), float_array(arrays, "clip", np.float64)
        if merge.tolist() not in ([0], [1]) or not len(counts) or counts.min() < 1 or len(clip) != 1:
            raise ValueError("these arrays are no net of blocks")
        if len(columns) != counts.sum() or columns.min() < 0 or (len(top) and top.min() < 1) or clip[0] < 0:
            raise ValueError("the columns of this net of blocks do not fit its parties")
        blocks = Blocks(model, MERGES[int(merge[0])], tuple(top.tolist()), float(clip[0]))
        bodies = tuple(blocks.body(count) for count in counts.tolist())
        objective = loss_of(classes, target)
        head = blocks.head(len(bodies), objective.outputs)
        weights = float_array(arrays, "bodies", np.float32)
        fill([*bodies], weights)
        fill([head], float_array(arrays, "head", np.float32))
        places = tuple(np.split(columns, np.cumsum(counts)[:-1]))
        return cls(blocks, bodies, places, head, objective, digest(arrays))

    def margins(self, x: Any, first: int = 0, last: int | None = None) -> Array:
        """The scores of rows [rows, all columns], float64 [rows, outputs]; all of them, whatever the range."""
        embeddings = [
            self.blocks.embedded(body, chosen(x, places))
            for body, places in zip(self.bodies, self.columns, strict=True)
        ]
        return self.blocks.margins(self.head, embeddings)


# What readers of trained arrays share.


def chosen(x: Any, places: Array) -> Array:
    """Some columns of a table, which may be a scipy CSR matrix, as float32 or float64 rows."""
    if x.ndim != 2 or x.shape[1] <= places.max():
        raise ValueError(f"rows of at least {places.max() + 1} numbers are needed, got {x.shape}")
    part = x[:, places]
    return np.asarray(part.toarray() if hasattr(part, "indptr") else part)


def fill(parts: Sequence[NetPart], weights: Array) -> None:
    """Let some parts use what they need each of one flat array, one after the other."""
    ends = np.cumsum([part.size for part in parts])
    if len(weights) != ends[-1] or not np.isfinite(weights).all():
        raise ValueError(f"{ends[-1]} finite weights are needed, got {len(weights)}")
    for part, own in zip(parts, np.split(weights, ends[:-1]), strict=True):
        part.use(own)


def int_array(arrays: Mapping[str, Array], name: str) -> NDArray[np.int64]:
    """A row of whole numbers, or a ValueError where there is none of that name."""
    return float_array(arrays, name, np.int64)


def float_array(arrays: Mapping[str, Array], name: str, dtype: Any) -> Array:
    """A row of numbers of that type, or a ValueError where there is none of that name."""
    found = arrays.get(name)
    if found is None or found.ndim != 1 or found.dtype != dtype:
        raise ValueError(f"{name} of this model is missing, or not as it was saved")
    return found


def digest(arrays: Mapping[str, Array]) -> str:
    """SHA-256 of named arrays: names, types, shapes and values."""
    sha = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        sha.update(f"{name} {array.dtype} {array.shape}".encode())
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()
