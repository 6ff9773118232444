"""A generator and its judge as functions of flat vectors, and what made rows are good for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from unalike.algorithms.generated.nets import judges, makes
from unalike.errors import UserError
from unalike.models import noise as numbers

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.extra import Extra
    from unalike.models.task import Task

_LABELS = 2**16
"""Which draw of a step says what becomes of a row: none that ``batch.normal`` has."""


@dataclass(frozen=True, eq=False)
class Gan:
    """The two nets for a kind of rows. Without classes neither is told a label."""

    generator: Extra
    judge: Extra
    noise: int
    classes: int

    @classmethod
    def of(cls, task: Task, noise: int, classes: int | None = None) -> Gan:
        """The nets for a task's rows, the same whenever it is asked; with ``classes=0`` they know no label."""
        shape, classes = task.shape, task.classes if classes is None else classes
        generator = task.extra(f"generator {noise} {classes}", lambda: makes(shape, classes, noise))
        return cls(generator, task.extra(f"judge {classes}", lambda: judges(shape, classes)), noise, classes)

    def labels(self, y: Tensor, like: Tensor) -> Tensor:
        """The labels as ones and zeros, [rows, classes]."""
        return (y[:, None] == torch.arange(self.classes, device=y.device)).to(like.dtype)

    def made(self, g: Tensor, z: Tensor, y: Tensor) -> Tensor:
        """The rows that the generator with weights ``g`` makes for noise and labels."""
        rows: Tensor = self.generator(g, z, self.labels(y, z))
        return rows

    def noise_of(self, batch: Batch, which: int = 0) -> Tensor:
        """Noise for each row of a batch."""
        return batch.normal(len(batch.y) * self.noise, which).reshape(len(batch.y), self.noise)

    def score(self, d: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """How real rows look to the judge with weights ``d``."""
        if not x.is_floating_point():
            raise UserError("Generators make rows of numbers or pictures, not of words. Choose another algorithm.")
        scores: Tensor = self.judge(d, x, self.labels(y, x))
        return scores

    def telling(self, d: Tensor, x: Tensor, made: Tensor, y: Tensor) -> Tensor:
        """The judge's loss on each row and on a made one: it is to tell them apart."""
        return functional.softplus(-self.score(d, x, y)) + functional.softplus(self.score(d, made, y))

    def passing(self, d: Tensor, made: Tensor, y: Tensor) -> Tensor:
        """The generator's loss on each made row: it is to pass for a real one (the non-saturating loss)."""
        return functional.softplus(-self.score(d, made, y))


def both(gan: Gan, g: Tensor, d: Tensor, x: Tensor, y: Tensor, z: Tensor, ratio: float) -> Tensor:
    """Each row's loss of the judge, and ``ratio`` times the generator's: its gradient moves both at once."""
    made = gan.made(g, z, y)
    return gan.telling(d, x, made.detach(), y) + ratio * gan.passing(d.detach(), made, y)


def filled(batch: Batch, fill: Tensor, make: Callable[[Tensor], Tensor]) -> Batch:
    """The batch with made rows in the place of some: one of label y with probability ``fill[y]``.

    A batch so drawn is one of the enlarged set of rows in which made ones of label y have that share. ``make``
    gives a row for each label that it is given.
    """
    assert batch.key is not None
    key = numbers.key_of_step(batch.key, batch.step)
    chance = numbers.uniform(key, len(batch.y), _LABELS, fill.dtype)
    drawn = (chance[:, None] >= fill.cumsum(dim=0)).sum(dim=1)
    stays = drawn >= len(fill)
    y = torch.where(stays, batch.y, drawn)
    x = torch.where(stays.reshape(-1, *(1,) * (batch.x.dim() - 1)), batch.x, make(y).to(batch.x.dtype))
    return replace(batch, x=x, y=y)
