"""What algorithms share that mix rows with others: losses of mixed labels, and numbers from symmetric Betas."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


def check_mixable(name: str, task: Task) -> None:
    """Refuse rows that have no mixture: labels must be classes, and rows numbers."""
    if not task.classes:
        raise UserError(f"{name} is for classes: it mixes labels, and this task has numbers. Use fedavg.")


def check_numbers(name: str, x: Tensor) -> None:
    """Refuse rows of words: there is no mean of two words."""
    if not x.is_floating_point():
        raise UserError(f"{name} mixes rows, which must be numbers; these are words. Use fedavg, or form=bag.")


def mixed_loss(task: Task, logits: Tensor, shares: Tensor) -> Tensor:
    """Each row's loss where class c has the share ``shares[..., c]`` of its label.

    For the cross-entropy that is the loss of the mixed label; it is what a mixture means for any other loss too.
    """
    import torch

    classes = torch.arange(task.classes, device=logits.device)
    each = [task.objective.losses(logits, label.expand(len(logits))) for label in classes]
    return (torch.stack(each, dim=-1) * shares).sum(dim=-1)


def symmetric_beta(uniform: Tensor, alpha: float) -> Tensor:
    """A number from Beta(alpha, alpha), made of two independent uniform ones without a branch or a loop.

    With S = cos(2 pi v) and T = u^(-1/alpha) - 1 it is (1 + sign(S) / sqrt(1 + 1 / (T S^2))) / 2 (Devroye 1996,
    "Random variate generation in one line of code").
    """
    import torch

    angle = torch.cos(2 * math.pi * uniform[1])
    wide = torch.expm1(-torch.log1p(-uniform[0]) / alpha) * angle**2
    return (1 + torch.sign(angle) * torch.sqrt(wide / (1 + wide))) / 2
