"""Gradients of a task's loss as plain vectors: nothing is differentiated through them."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.func import grad

from unalike.models.batch import Batch
from unalike.models.loss import CrossEntropy, Loss


class Stored(NamedTuple):
    """Rows and labels as they are kept, and the (x - shift) / scale that is still to do where there is one.

    Of sparse rows ``x`` has the numbers that are not zero; row n begins at ``starts[n]`` there and in ``columns``.
    """

    x: Tensor
    y: Tensor
    shift: Tensor | None = None
    scale: Tensor | None = None
    starts: Tensor | None = None
    columns: Tensor | None = None


class NetOperation(Protocol):
    """What computes in place of the net, where an engine has something faster."""

    def __call__(self, w: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and features of rows."""
        ...

    def descend(self, w: Tensor, batch: Batch, lr: float, steps: int, pull: float) -> Tensor:
        """What :meth:`Derivatives.descend` gives, for cross-entropy on a batch of real rows alone."""
        ...

    def gradient(self, w: Tensor, batch: Batch) -> Tensor:
        """What :meth:`Derivatives.gradient` gives, in the same case."""
        ...


class RowJudge(Protocol):
    """What tells how well models do on rows as they are kept, where an engine has something for it."""

    def __call__(self, models: Sequence[Tensor], ends: Tensor, stored: Stored, rows: Tensor) -> Tensor | None:
        """[rows, 2]: the cross-entropy of each row, and 1 for a right answer or 0; None where it cannot read them.

        The rows up to ``ends[m]`` are tried under model m, from where those of the model before end.
        """
        ...


class Derivatives(ABC):
    """What a task can say of its loss beside its value."""

    objective: Loss
    operation: NetOperation | None
    judge: RowJudge | None

    @abstractmethod
    def loss(self, w: Tensor, batch: Batch, track: bool = True) -> Tensor:
        """The mean of the task's loss over the batch's real rows."""

    def gradient(self, w: Tensor, batch: Batch) -> Tensor:
        """The gradient of ``loss`` at ``w`` as a plain vector: nothing is differentiated through it."""
        point = w.detach()
        stacked = _in_a_stack(point)
        if self.operation is not None and self._plain(batch) and not stacked:
            return self.operation.gradient(point, batch)
        if stacked:
            gradient: Tensor = grad(lambda v: self.loss(v, batch, track=False))(point)
            return gradient
        point.requires_grad_()
        with torch.enable_grad():  # for one party this is faster than torch.func
            return torch.autograd.grad(self.loss(point, batch, track=False), point)[0]

    def descend(self, w: Tensor, batch: Batch, lr: float, steps: int = 1, pull: float = 0.0) -> Tensor:
        """Where plain gradient descent on ``loss`` + pull/2 ||v - w||^2 leads from v = w, on this one batch."""
        centre = v = w.detach()
        if self.operation is not None and self._plain(batch) and not _in_a_stack(centre):
            return self.operation.descend(centre, batch, lr, steps, pull)
        for _ in range(steps):
            v = v - lr * (self.gradient(v, batch) + pull * (v - centre))
        return v

    def _plain(self, batch: Batch) -> bool:
        """Whether it is cross-entropy of real rows alone."""
        return batch.mask is None and type(self.objective) is CrossEntropy

    def curvature(self, w: Tensor, direction: Tensor, batch: Batch) -> Tensor:
        """The Hessian of ``loss`` at ``w`` times a vector; by the net itself, as compiled nets have no Hessian."""
        plain = copy.copy(self)
        plain.operation = None

        def slope(v: Tensor) -> Tensor:
            along: Tensor = grad(lambda point: plain.loss(point, batch, track=False))(v).dot(direction)
            return along

        curved: Tensor = grad(slope)(w.detach())
        return curved


def _in_a_stack(w: Tensor) -> bool:
    """Whether ``w`` stands for those of many parties at once: vmap refuses leaves of a gradient."""
    try:
        w.detach().requires_grad_()
    except RuntimeError:
        return True
    return False
