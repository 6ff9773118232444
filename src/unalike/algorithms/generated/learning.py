"""What the server learns by itself: Adam's steps on a flat vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from unalike.models.task import Task

BETA1, BETA2, EPSILON = 0.5, 0.999, 1e-8
"""Adam's constants as is usual for generators (arXiv:1511.06434); the first is 0.9 elsewhere."""


def lessons(task: Task, count: int) -> int:
    """How often something is learnt: so many times, but once in a rehearsal, of which nothing is kept."""
    return 1 if task.rehearsing else count


def learnt(task: Task, start: Tensor, loss_of: Callable[[Tensor, int], Tensor], steps: int, lr: float) -> Tensor:
    """The weights after so many steps of Adam down ``loss_of(weights, step)``."""
    import torch

    w = start.detach().clone().requires_grad_()
    first, second = torch.zeros_like(start), torch.zeros_like(start)
    for step in range(lessons(task, steps)):
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(loss_of(w, step), w)
        first = BETA1 * first + (1 - BETA1) * gradient
        second = BETA2 * second + (1 - BETA2) * gradient**2
        way = first / (1 - BETA1 ** (step + 1)) / ((second / (1 - BETA2 ** (step + 1))).sqrt() + EPSILON)
        with torch.no_grad():
            w -= lr * way
    return w.detach()


def noise(task: Task, stream: Generator, *shape: int) -> Tensor:
    """Standard normal numbers of the server's, where the task is; drawn by the processor, so the same anywhere."""
    import torch

    return torch.randn(shape, generator=stream, dtype=task.dtype).to(task.device)


def whole(task: Task, stream: Generator, below: int, count: int) -> Tensor:
    """Whole numbers from 0, each as likely."""
    import torch

    return torch.randint(below, (count,), generator=stream).to(task.device)
