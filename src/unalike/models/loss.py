"""What a net is trained for: a loss on classes or on numbers. A data set's task decides which losses fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar, dataclass_transform

import torch
from torch import Tensor
from torch.nn import functional

from unalike.errors import UserError
from unalike.own_code import explained, is_own, place
from unalike.registry import Registry
from unalike.tallies import Kind

C = TypeVar("C", bound=type)


class Loss:
    """Base of all losses. Inherit :class:`Classification` or :class:`Regression`, and write ``losses``."""

    task: ClassVar[Kind]

    def outputs(self, classes: int) -> int:
        """How many outputs the net has."""
        raise NotImplementedError

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of each row, from what the net puts out for it [rows, outputs] and its ``y`` [rows]."""
        raise NotImplementedError

    def mean(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The mean of ``losses`` over all rows."""
        return self.losses(outputs, y).mean(dim=0)

    def predict(self, outputs: Tensor) -> Tensor:
        """What the net's outputs say of each row, to be scored."""
        raise NotImplementedError


class Classification(Loss):
    """Base of the losses on classes, ``y``: the net has an output for each class, the highest is its answer."""

    task: ClassVar[Kind] = "classification"

    def outputs(self, classes: int) -> int:
        """How many numbers the net gives for a row: one for each class."""
        return classes

    def predict(self, outputs: Tensor) -> Tensor:
        """The probability of each class, [rows, classes]; the highest must be that of the highest output."""
        return functional.softmax(outputs, dim=1)


class Regression(Loss):
    """Base of the losses on numbers: ``y`` are standardised numbers, which the net's one output is to be near."""

    task: ClassVar[Kind] = "regression"

    def outputs(self, classes: int) -> int:
        """One; a loss that needs more (a mean and a spread, say) overrides this and ``predict``."""
        return 1

    def predict(self, outputs: Tensor) -> Tensor:
        """The number that is predicted for each row, [rows]."""
        return outputs[:, 0]


LOSSES: Registry[Loss] = Registry("loss")


@dataclass_transform(frozen_default=True)
def register_loss(name: str, *, paper: str = "") -> Callable[[C], C]:
    """Class decorator: make the class a frozen dataclass and register it as a loss."""
    return LOSSES.register(name, paper=paper)


@register_loss("cross-entropy")
class CrossEntropy(Classification):
    """Classification: minus the logarithm of the probability of the right class."""

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy of the softmax of the outputs."""
        return functional.cross_entropy(outputs, y, reduction="none")

    def mean(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The same in one operation, which is faster."""
        return functional.cross_entropy(outputs, y)


@register_loss("squared-error")
class SquaredError(Regression):
    """Regression: the squared difference from the standardised target."""

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The squared difference of each row, without the half that some define it with."""
        return (outputs[:, 0] - y) ** 2


def choose_loss(text: str | None, task: Kind) -> Loss:
    """The loss that is named, if it is one of the task's, else the task's own."""
    if text is None:
        return CrossEntropy() if task == "classification" else SquaredError()
    loss = LOSSES.build(text)
    if not isinstance(loss, Loss):
        raise UserError(f"{type(loss).__name__} must inherit Classification or Regression, of unalike.models.")
    if loss.task != task:
        own = ", ".join(entry.name for entry in LOSSES if entry.cls.task == task)
        raise UserError(f"{text} is a loss of {loss.task}, but the task is {task}. Use {own}.")
    return loss


def check_loss(loss: Loss, classes: int) -> None:
    """Refuse a loss of the user's own that does not give what is asked of it, on two rows of zeros."""
    if not is_own(loss):
        return
    with explained(loss):
        outputs = torch.zeros(2, loss.outputs(classes))
        y = torch.zeros(2, dtype=torch.int64 if loss.task == "classification" else torch.float32)
        given = {"losses": loss.losses(outputs, y), "predict": loss.predict(outputs)}
    wanted = {"losses": (2,), "predict": (2, classes) if loss.task == "classification" else (2,)}
    for method, value in given.items():
        shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        if shape != wanted[method]:
            remedy = " Use reduction='none'." if shape == () else ""
            raise UserError(f"{place(loss, method)} must give {wanted[method]} for 2 rows, not {shape}.{remedy}")
