"""Gradients of a task's loss as plain vectors: nothing is differentiated through them."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Protocol

import torch
from torch import Tensor
from torch.func import grad

from unalike.models.batch import Batch
from unalike.models.loss import CrossEntropy, Loss


class NetOperation(Protocol):
    """What computes in place of the net, where an engine has something faster."""

    def __call__(self, w: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and features of rows."""
        ...

    def descend(self, w: Tensor, batch: Batch, lr: float, steps: int, pull: float) -> Tensor:
        """What :meth:`Derivatives.descend` gives, for cross-entropy on a batch of real rows alone."""
        ...


class Derivatives(ABC):
    """What a task can say of its loss beside its value."""

    objective: Loss
    operation: NetOperation | None

    @abstractmethod
    def loss(self, w: Tensor, batch: Batch, track: bool = True) -> Tensor:
        """The mean of the task's loss over the batch's real rows."""

    def gradient(self, w: Tensor, batch: Batch) -> Tensor:
        """The gradient of ``loss`` at ``w`` as a plain vector: nothing is differentiated through it."""
        point = w.detach()
        if _in_a_stack(point):
            gradient: Tensor = grad(lambda v: self.loss(v, batch, track=False))(point)
            return gradient
        point.requires_grad_()
        with torch.enable_grad():  # for one party this is faster than torch.func
            return torch.autograd.grad(self.loss(point, batch, track=False), point)[0]

    def descend(self, w: Tensor, batch: Batch, lr: float, steps: int = 1, pull: float = 0.0) -> Tensor:
        """Where plain gradient descent on ``loss`` + pull/2 ||v - w||^2 leads from v = w, on this one batch."""
        centre = v = w.detach()
        known = batch.mask is None and type(self.objective) is CrossEntropy
        if self.operation is not None and known and not _in_a_stack(centre):
            return self.operation.descend(centre, batch, lr, steps, pull)
        for _ in range(steps):
            v = v - lr * (self.gradient(v, batch) + pull * (v - centre))
        return v

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
