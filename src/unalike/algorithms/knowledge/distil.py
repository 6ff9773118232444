"""Distillation on the server: a student learns what other models say, on rows that need no labels.

``distil`` is a function of what it is given and of nothing else: the same start, rows, target and stream give the
same student. The student's layers are in evaluation mode, as it will be used: batch norm uses the running
statistics that are given and leaves them as they are, dropout drops nothing, frozen layers stay (they are no part
of the weights). It computes in the type of the weights that it starts from.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task

TABLE_ROWS = 1024
"""Rows in one forward pass where nothing is learnt."""


@dataclass(frozen=True)
class Course:
    """How a student learns: ``batches`` steps, each on ``size`` rows.

    ``distance`` is what is made small, and says what a target is: "scores" the cross-entropy of the student's
    softmax(logits / heat), times heat^2, from probabilities [rows, classes] (the divergence, less a constant) or
    from labels [rows]; "squared" and "absolute" the mean difference from logits. ``decay``: the learning rate
    falls to 0 along a cosine. With validation rows their loss is looked at every ``look`` steps, and the best
    student kept, the one at the start included; after ``patience`` steps without a better one (0: never) it ends.
    """

    batches: int = 100
    size: int = 128
    lr: float = 1e-3
    optimiser: Literal["adam", "sgd"] = "adam"
    momentum: float = 0.0
    weight_decay: float = 0.0
    decay: bool = True
    heat: float = 1.0
    distance: Literal["scores", "squared", "absolute"] = "scores"
    look: int = 10
    patience: int = 0

    def __post_init__(self) -> None:
        wrong = [
            f"{name} must be {rule}, got {getattr(self, name)}"
            for names, rule, holds in (
                (("batches", "patience"), "a whole number from 0", lambda v: v >= 0),
                (("size", "look"), "at least 1", lambda v: v >= 1),
                (("lr", "heat"), "above 0", lambda v: 0 < v < math.inf),
                (("weight_decay",), "at least 0", lambda v: 0 <= v < math.inf),
                (("momentum",), "at least 0 and below 1", lambda v: 0 <= v < 1),
                (("optimiser",), "adam or sgd", lambda v: v in ("adam", "sgd")),
                (("distance",), "scores, squared or absolute", lambda v: v in ("scores", "squared", "absolute")),
            )
            for name in names
            if not holds(getattr(self, name))
        ]
        if wrong:
            raise UserError(f"Distillation's {wrong[0]}. Leave it out for the default.")

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        return self.lr * (1 + math.cos(math.pi * step / self.batches)) / 2 if self.decay else self.lr


@dataclass(frozen=True, eq=False)
class Member:
    """A model of an ensemble: a net, its weights, and its running statistics (None: those of a fresh net)."""

    task: Task
    w: Tensor
    buffers: Tensor | None = None

    def logits(self, batch: Batch) -> Tensor:
        """What it says of rows; by the net itself where rows are made, as compiled nets differentiate no rows."""
        task = self.task
        if batch.x.requires_grad and task.operation is not None:
            task = copy.copy(task)
            task.operation = None
        return task.logits(self.w, replace(batch, buffers=self.buffers, training=False))


@dataclass(frozen=True, eq=False)
class Teachers:
    """Several models as one: the mean of their logits, or with ``mean="scores"`` of their probabilities.

    ``weights`` [members] need not sum to 1; without them all count the same. Gradients flow through to the rows,
    for those who make rows (DENSE).
    """

    members: Sequence[Member]
    mean: Literal["logits", "scores"] = "logits"
    heat: float = 1.0
    weights: Tensor | None = None

    def logits(self, batch: Batch) -> Tensor:
        """The mean of the members' logits."""
        return self._mean([member.logits(batch) for member in self.members])

    def __call__(self, batch: Batch) -> Tensor:
        """The probability of each class, at the ensemble's heat: a target for ``Course(distance="scores")``."""
        if self.mean == "logits":
            return (self.logits(batch) / self.heat).softmax(dim=-1)
        return self._mean([(member.logits(batch) / self.heat).softmax(dim=-1) for member in self.members])

    def _mean(self, each: Sequence[Tensor]) -> Tensor:
        import torch

        together = torch.stack(list(each))
        if self.weights is None:
            return together.mean(dim=0)
        return torch.einsum("m,m...->...", (self.weights / self.weights.sum()).to(together), together)


def table(told: Callable[[Batch], Tensor], rows: Batch) -> Tensor:
    """What somebody says of all rows, a piece at a time; nothing is differentiated."""
    import torch

    pieces = torch.split(torch.arange(len(rows.y), device=rows.y.device), TABLE_ROWS)
    with torch.no_grad():
        return torch.cat([told(taken(rows, index)) for index in pieces])


def taken(rows: Batch, index: Tensor) -> Batch:
    """Some of the rows as a batch; ``batch.index`` says which."""
    return replace(rows, x=rows.x[index], y=rows.y[index], index=index, mask=None)


def split(rows: Batch, share: float, generator: Generator) -> tuple[Batch, Batch | None]:
    """Rows to learn from, and a share of them drawn apart to stop by; None where the share is 0."""
    import torch

    count = round(share * len(rows.y))
    if not share:
        return rows, None
    if not 0 < count < len(rows.y):
        raise UserError(
            f"{share} of {len(rows.y)} public rows leaves none to learn from or to stop by. Give more rows."
        )
    order = torch.randperm(len(rows.y), generator=generator).to(rows.y.device)
    return taken(rows, order[count:].sort().values), taken(rows, order[:count].sort().values)


def distil(
    task: Task,
    w: Tensor,
    rows: Batch | Callable[[int, Tensor], Batch],
    target: Tensor | Callable[[Batch], Tensor],
    course: Course,
    generator: Generator,
    *,
    buffers: Tensor | None = None,
    validation: Batch | None = None,
) -> Tensor:
    """The student's weights after the course, from ``w``.

    ``rows``: a batch of all rows, from which each step takes the next ones of a random order, which ``generator``
    (``task.generator(round)``) draws anew for each pass; or a function that makes the batch of a step (labels in
    it are not looked at). ``target``: what the student is to say, a table with a row for each of ``rows``, or a
    function of the batch, such as an :class:`Teachers`. ``buffers`` are the student's running statistics.
    ``validation`` are rows with labels of the server's own, never those that anything is reported on.
    """
    import torch

    if course.distance == "scores" and task.objective.task != "classification":
        raise UserError("Scores of classes need classes, but the task is regression. Use distance squared.")
    student = w.detach().clone().requires_grad_()
    drawn = None if callable(rows) else _drawn(rows, course.size, generator)
    slots = [torch.zeros_like(student.detach()) for _ in range(2)]
    best = _Best(task, buffers, validation, course.patience)
    for step in range(course.batches):
        if step % course.look == 0 and best.enough(student, step):
            return best.w
        batch = rows(step, student.detach()) if callable(rows) else next(drawn)  # type: ignore[arg-type]
        told = task.logits(student, replace(batch, buffers=buffers, training=False))
        given = target(batch).detach() if callable(target) else target[batch.index]
        (gradient,) = torch.autograd.grad(gap(told, given, course), student)
        with torch.no_grad():
            gradient = gradient + course.weight_decay * student
            student -= course.rate(step) * _direction(course, gradient, slots, step)
    best.enough(student, course.batches)
    return best.w


class _Best:
    """The student that is kept: the latest, or where there are validation rows the best on these."""

    def __init__(self, task: Task, buffers: Tensor | None, rows: Batch | None, patience: int) -> None:
        self._task, self._patience = task, patience
        self._rows = None if rows is None else replace(rows, buffers=buffers, training=False)
        self._loss, self._step = math.inf, 0
        self.w: Tensor

    def enough(self, student: Tensor, step: int) -> bool:
        """Look at the student after so many steps; whether too many of them have brought nothing."""
        import torch

        w = student.detach().clone()
        if self._rows is None:
            self.w = w
            return False
        with torch.no_grad():
            loss = float(self._task.loss(w, self._rows))
        if loss < self._loss or step == 0:
            self.w, self._loss, self._step = w, loss, step
        return 0 < self._patience <= step - self._step


def gap(told: Tensor, target: Tensor, course: Course) -> Tensor:
    """How far the student's logits are from the target, in the course's distance."""
    from torch.nn import functional

    if course.distance == "squared":
        return ((told - target) ** 2).mean()
    if course.distance == "absolute":
        return (told - target).abs().mean()
    return course.heat**2 * functional.cross_entropy(told / course.heat, target)


def _drawn(rows: Batch, size: int, generator: Generator) -> Iterator[Batch]:
    """Batch after batch without an end: each pass has all rows once, in an order of its own."""
    import torch

    while True:
        for index in torch.split(torch.randperm(len(rows.y), generator=generator), size):
            yield taken(rows, index.to(rows.y.device))


def _direction(course: Course, gradient: Tensor, slots: list[Tensor], step: int) -> Tensor:
    """What is subtracted in a step, in units of the learning rate: SGD's with momentum, or Adam's."""
    first, second = slots
    if course.optimiser == "sgd":
        return first.mul_(course.momentum).add_(gradient)
    first.mul_(0.9).add_(gradient, alpha=0.1)
    second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    unbiased = second / (1 - 0.999 ** (step + 1))
    return first / (1 - 0.9 ** (step + 1)) / (unbiased.sqrt() + 1e-8)
