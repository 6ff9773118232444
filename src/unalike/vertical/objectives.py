"""What models of split columns are to lower: the loss of a person's scores, and how it falls with each score."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScoreLoss(ABC):
    """A loss of scores [rows, outputs]; labels are as the data set has them, numbers in their own units."""

    outputs: int = 1
    target: tuple[float, float] = (0.0, 1.0)
    """Where numbers are predicted: the shift and scale that standardise them."""

    @abstractmethod
    def residual(self, scores: Floats, y: NDArray[Any]) -> Floats:
        """The derivative of each row's loss by its scores, [rows, outputs]."""

    @abstractmethod
    def row_losses(self, margins: Floats, y: NDArray[Any]) -> Floats:
        """The loss of each row."""

    @abstractmethod
    def predict(self, margins: Floats) -> NDArray[Any]:
        """The place of the class, or the number in its own units, that is predicted for each row."""


@dataclass(frozen=True)
class TwoClassLoss(ScoreLoss):
    """Logistic regression of two classes: one score, the log-odds of the second."""

    def residual(self, scores: Floats, y: NDArray[Any]) -> Floats:
        """The probability of the second class less the label."""
        found: Floats = logistic(scores) - y[:, None]
        return found

    def row_losses(self, margins: Floats, y: NDArray[Any]) -> Floats:
        """The logistic loss of each row."""
        z = np.where(y > 0, -margins[:, 0], margins[:, 0])
        losses: Floats = np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z)))
        return losses

    def predict(self, margins: Floats) -> NDArray[Any]:
        """The more probable of both classes."""
        return (margins[:, 0] > 0).astype(np.int64)


@dataclass(frozen=True)
class ManyClassLoss(ScoreLoss):
    """Softmax regression: a score for each class."""

    def residual(self, scores: Floats, y: NDArray[Any]) -> Floats:
        """The probabilities of the classes, less one at the label."""
        found: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
        found /= found.sum(axis=1, keepdims=True)
        found[np.arange(len(y)), y] -= 1.0
        return found

    def row_losses(self, margins: Floats, y: NDArray[Any]) -> Floats:
        """The cross-entropy of each row."""
        top = margins.max(axis=1)
        normal = top + np.log(np.exp(margins - top[:, None]).sum(axis=1))
        losses: Floats = normal - margins[np.arange(len(y)), y]
        return losses

    def predict(self, margins: Floats) -> NDArray[Any]:
        """The most probable class; of two that are as probable, the first."""
        found: NDArray[Any] = margins.argmax(axis=1)
        return found


@dataclass(frozen=True)
class NumberLoss(ScoreLoss):
    """Half the squared error of a standardised number: least squares, and ridge regression with a penalty."""

    def residual(self, scores: Floats, y: NDArray[Any]) -> Floats:
        """What is predicted less what is true, in standard deviations."""
        return scores - self._standard(y)[:, None]

    def row_losses(self, margins: Floats, y: NDArray[Any]) -> Floats:
        """Half the squared error of each row, in standard deviations."""
        losses: Floats = 0.5 * (margins[:, 0] - self._standard(y)) ** 2
        return losses

    def predict(self, margins: Floats) -> NDArray[Any]:
        """The number that is predicted, in its own units."""
        shift, scale = self.target
        return margins[:, 0] * scale + shift

    def _standard(self, y: NDArray[Any]) -> Floats:
        shift, scale = self.target
        standard: Floats = (np.asarray(y, np.float64) - shift) / scale
        return standard


def loss_of(classes: int, target: tuple[float, float] = (0.0, 1.0)) -> ScoreLoss:
    """The loss for so many classes; 0: numbers are predicted, which ``target`` standardises."""
    if classes == 0:
        return NumberLoss(1, target)
    return TwoClassLoss(1) if classes == 2 else ManyClassLoss(classes)


def logistic(z: Floats) -> Floats:
    """1 / (1 + e^-z), without overflow on either side."""
    small = np.exp(-np.abs(z))
    found: Floats = np.where(z >= 0, 1.0, small) / (1.0 + small)
    return found
