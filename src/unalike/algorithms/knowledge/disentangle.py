"""What a row's features say of its class alone, told apart from what they say of the domain that it is from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.extra import Extra
    from unalike.models.task import Task


@dataclass(frozen=True, eq=False)
class Disentangler:
    """Four nets of a party's own beside the body, as one flat vector; they never leave it.

    ``specific`` makes a code s of a row, beside the body's features f. ``rebuild`` makes the row again of both.
    ``identify`` tries to tell the class from s, which ``specific`` hinders: the class is to be in f alone.
    ``relate`` is the critic of MINE (Belghazi et al. 2018, arXiv:1801.04062): a bound of the mutual information of
    f and s, which body and ``specific`` make small.
    """

    nets: Mapping[str, Extra]

    @classmethod
    def of(cls, task: Task, width: int) -> Disentangler:
        """The nets for a task's rows and features, with codes of ``width`` numbers."""
        from torch import nn

        row, features = math.prod(task.shape), task.feature_size
        makers = {
            "specific": lambda: nn.Sequential(nn.Linear(row, width), nn.Tanh()),
            "rebuild": lambda: nn.Linear(features + width, row),
            "identify": lambda: nn.Linear(width, task.classes),
            "relate": lambda: nn.Sequential(nn.Linear(features + width, width), nn.Tanh(), nn.Linear(width, 1)),
        }
        return cls({name: task.extra(f"fada {name}", make) for name, make in makers.items()})

    def initial(self) -> Tensor:
        """The weights of all four at the start."""
        import torch

        return torch.cat([net.initial() for net in self.nets.values()])

    def loss(self, own: Tensor, f: Tensor, batch: Batch, *, labels: bool) -> Tensor:
        """What all four and the body make small, each its own part, while the others stand still.

        Without ``labels`` (of the target) nothing is said of classes.
        """
        import torch
        from torch.nn import functional

        parts = torch.split(own, [net.size for net in self.nets.values()])
        w = dict(zip(self.nets, parts, strict=True))
        x = batch.x.flatten(1)
        code = self.nets["specific"](w["specific"], x)
        rebuilt = self.nets["rebuild"](w["rebuild"], torch.cat([f, code], dim=1))
        loss = batch.mean(((rebuilt - x) ** 2).mean(dim=1))
        critic = w["relate"]
        related = self.information(critic.detach(), f, code, batch)
        loss = loss + related - self.information(critic, f.detach(), code.detach(), batch)
        if not labels:
            return loss
        guess = self.nets["identify"]
        told = functional.cross_entropy(guess(w["identify"], code.detach()), batch.y, reduction="none")
        hidden = -guess(w["identify"].detach(), code).log_softmax(dim=1).mean(dim=1)
        return loss + batch.mean(told + hidden)

    def information(self, critic: Tensor, f: Tensor, code: Tensor, batch: Batch) -> Tensor:
        """MINE's bound: the critic's mean over pairs that belong together, less log mean exp over all pairs."""
        import torch

        rows = len(f)
        pairs = torch.cat([f.repeat_interleave(rows, dim=0), code.repeat(rows, 1)], dim=1)
        score: Tensor = self.nets["relate"](critic, pairs).reshape(rows, rows)
        together = batch.mean(score.diagonal())
        if batch.mask is None:
            return together - score.logsumexp(dim=(0, 1)) + 2 * math.log(rows)
        real = (batch.mask[:, None] * batch.mask[None, :]) > 0
        every = torch.where(real, score, -math.inf).logsumexp(dim=(0, 1))
        return together - every + 2 * batch.mask.sum().log()
