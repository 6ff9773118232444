"""How one party trains its part of a net of blocks: forward, and back when the derivatives have come.

What is kept here between turns only saves time: with nothing kept, the same bits are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unalike.vertical.block_net import Blocks, as_targets, mean_loss
from unalike.vertical.net_part import NetPart, own_tensor
from unalike.vertical.objectives import loss_of

Array = NDArray[Any]
Place = tuple[int, int]
"""A round and the number of a batch in it."""


@dataclass(frozen=True)
class SgdStep:
    """How weights follow from gradients: the size of a step, and how much of the last one is repeated."""

    lr: float
    momentum: float = 0.0
    l2: float = 0.0


class TrainedPart:
    """A part of a net that one party trains, and what it last made of a batch, ready to go back through."""

    def __init__(self, part: NetPart, compute: Callable[[NetPart, Tensor], Tensor], rows: Array) -> None:
        self.part, self._compute, self._rows = part, compute, own_tensor(rows)
        self._used: Array | None = None
        self._made: tuple[Place, Tensor] | None = None

    def use(self, weights: Array) -> None:
        """Compute with these weights; what was made with others is forgotten."""
        if self._used is None or not np.array_equal(self._used, weights):
            self.part.use(weights)
            self._used, self._made = np.array(weights), None

    def whole(self) -> Tensor:
        """What the part makes of all its rows, with the weights in use."""
        return self._compute(self.part, self._rows)

    def made(self, weights: Array, place: Place, batch: Array | None) -> Tensor:
        """What the part makes of a batch of its rows (None: all), with the way back."""
        self.use(weights)
        if self._made is None or self._made[0] != place:
            rows = self._rows if batch is None else self._rows[torch.from_numpy(batch)]
            self._made = place, self._compute(self.part, rows)
        return self._made[1]

    def stepped(self, descent: SgdStep, velocity: Array | None) -> tuple[Array, Array | None]:
        """The weights after a step down the gradients that have come back, and the velocity."""
        weights, velocity = self.part.descend(
            descent.lr, momentum=descent.momentum, velocity=velocity, l2=descent.l2
        )
        self._used, self._made = weights, None
        return weights, velocity

    def back(
        self,
        weights: Array,
        place: Place,
        batch: Array | None,
        gradient: Array,
        descent: SgdStep,
        velocity: Array | None,
    ) -> tuple[Array, Array | None]:
        """The weights, and the velocity, after a step along the derivatives of what was made of a batch."""
        made = self.made(weights, place, batch)
        self._made = None
        made.backward(own_tensor(gradient))  # type: ignore[no-untyped-call]
        return self.stepped(descent, velocity)


class HeadTraining:
    """The label holder's side of a net of blocks: its own body, the head and the labels."""

    def __init__(self, blocks: Blocks, body: TrainedPart, head: NetPart, targets: Array, classes: int) -> None:
        self.body, self.head = body, TrainedPart(head, lambda part, rows: part.module(rows), np.zeros((0, 1)))
        self._blocks, self._targets, self._classes = blocks, torch.from_numpy(targets), classes

    def back(
        self, weights: Mapping[str, Array], me: int, place: Place, batch: Array, others: Mapping[int, Array]
    ) -> tuple[float, dict[int, Array]]:
        """The loss of a batch, and its derivatives by what each other party's body made of it.

        What the own body and the head need for their step is kept in them.
        """
        own = self.body.made(weights["body"], place, batch)
        self.head.use(weights["head"])
        told = {number: own_tensor(embedding).requires_grad_() for number, embedding in others.items()}
        embeddings = [made for _, made in sorted({**told, me: own}.items())]
        scores = self._blocks.scores(self.head.part, embeddings)
        loss = mean_loss(scores, self._targets[torch.from_numpy(batch)], self._classes)
        loss.backward()  # type: ignore[no-untyped-call]
        found = {number: tensor.grad for number, tensor in told.items()}
        return float(loss.detach()), {
            number: np.zeros(0) if grad is None else grad.contiguous().numpy() for number, grad in found.items()
        }


def trained_body(blocks: Blocks, rows: Array) -> TrainedPart:
    """The body of a party with such rows."""
    return TrainedPart(blocks.body(rows.shape[1]), blocks.embedding, rows)


def head_training(
    blocks: Blocks, body: TrainedPart, parties: int, y: Array, classes: int, target: tuple[float, float]
) -> HeadTraining:
    """The label holder's side, for its labels as the data set has them."""
    head = blocks.head(parties, loss_of(classes, target).outputs)
    return HeadTraining(blocks, body, head, as_targets(y, classes, target), classes)
