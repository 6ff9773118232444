"""What trees are to lower: losses and their derivatives, as integers on a grid.

A derivative is computed in float64 without library functions and rounded to a multiple of 2^-20, so sums over
rows are exact in any order. The second derivatives are xgboost's: twice p (1 - p) for several classes, and for
counts the rate times e^0.7, together with a bound of 0.7 on what a leaf may add before shrinkage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from unalike.errors import UserError
from unalike.models.trees import Trees
from unalike.trees import derivatives
from unalike.trees.arithmetic import GRID, Floats, exp, log, on_grid
from unalike.trees.split import POISSON_STEP

GREATEST: Final = 2.0**10
"""First and second derivatives must stay below, so that sums cannot overflow."""
GREATEST_LOSS: Final = 2.0**24
"""The loss of a row must stay below, for the same reason."""

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Objective(ABC):
    """A loss of margins, which are float64 [rows, outputs]; ``target`` is the shift and scale of numbers."""

    name: ClassVar[str]
    outputs: int = 1
    target: tuple[float, float] = (0.0, 1.0)

    @property
    def numbers(self) -> tuple[float, ...]:
        """What the compiled core must know beside margins and labels."""
        return ()

    @abstractmethod
    def derivatives(self, margins: Floats, y: NDArray[Any]) -> tuple[Floats, Floats]:
        """First and second derivatives of the loss of each row, float64 [outputs, rows]."""

    @abstractmethod
    def row_losses(self, margins: Floats, y: NDArray[Any]) -> Floats:
        """The loss of each row, float64."""

    @abstractmethod
    def predict(self, margins: Floats) -> NDArray[Any]:
        """What is predicted: the class, or the number."""

    @abstractmethod
    def sums(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """Of labels: exact sums that may be added over parties and that :meth:`base` needs."""

    @abstractmethod
    def base(self, sums: NDArray[np.int64]) -> Floats:
        """The margins before the first tree, float64 [outputs], on the grid."""

    def gradients(
        self, margins: Floats, y: NDArray[Any], weights: NDArray[Any] | None = None, threads: int | None = None
    ) -> tuple[Ints, Ints]:
        """First and second derivatives on the grid, int32 [outputs, rows]; ``threads`` change no bit."""
        found = derivatives.gradients(self.name, margins, y, weights, self.numbers, threads)
        if found is not None:
            return found
        first, second = self.derivatives(np.asarray(margins, np.float64), y)
        if weights is not None:
            first, second = first * weights, second * weights
        self._refuse(first, second)
        return on_grid(first).astype(np.int32), on_grid(second).astype(np.int32)

    def losses(self, margins: Floats, y: NDArray[Any], weights: NDArray[Any] | None = None) -> int:
        """The sum of the rows' losses, each on the grid: exact, so that parties' sums can be added."""
        losses = self.row_losses(np.asarray(margins, np.float64), y)
        losses = losses if weights is None else losses * weights
        if len(wrong := losses[~(np.abs(losses) < GREATEST_LOSS)]):
            raise UserError(
                f"trees: a validation row has a loss of {wrong[0]:.3g}, which is too much for {self.name} (it "
                f"must stay below {GREATEST_LOSS:.0f}). Is its target right?"
            )
        return int(on_grid(losses).sum())

    def probabilities(self, margins: Floats) -> Floats:
        """The probability of each class, float64 [rows, classes]; of numbers there are none."""
        raise UserError(f"trees: {self.name} predicts numbers and has no probabilities.")

    def _refuse(self, first: Floats, second: Floats) -> None:
        wrong = ~((np.abs(first) < GREATEST) & (second < GREATEST))
        if wrong.any():
            row = int(np.argwhere(wrong)[0][1])
            raise UserError(
                f"trees: row {row} pulls with {first[:, row].max():.3g}, which is too much for {self.name} "
                f"(it must stay below {GREATEST:.0f}). Is its target or its weight right?"
            )


@dataclass(frozen=True)
class Binary(Objective):
    """Two classes, by the log-odds of the second."""

    name: ClassVar[str] = "binary"

    def derivatives(self, margins: Floats, y: NDArray[Any]) -> tuple[Floats, Floats]:
        """Those of the logistic loss: p - y and p (1 - p)."""
        p = 1.0 / (1.0 + exp(-margins[:, 0]))
        return (p - y)[None], (p * (1.0 - p))[None]

    def row_losses(self, margins: Floats, y: NDArray[Any]) -> Floats:
        """The logistic loss of each row."""
        z = np.where(y > 0, -margins[:, 0], margins[:, 0])
        return np.maximum(z, 0.0) + log(1.0 + exp(-np.abs(z)))

    def probabilities(self, margins: Floats) -> Floats:
        """The probabilities of both classes."""
        p = 1.0 / (1.0 + exp(-margins[:, 0]))
        return np.stack([1.0 - p, p], axis=1)

    def predict(self, margins: Floats) -> NDArray[Any]:
        """The likelier class; the first where both are equal."""
        return np.asarray(margins[:, 0] > 0, np.int64)

    def sums(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """How many rows each class has."""
        return np.bincount(y.astype(np.int64), minlength=2).astype(np.int64)

    def base(self, sums: NDArray[np.int64]) -> Floats:
        """The log-odds; a class without rows counts half of one."""
        counts = np.maximum(sums.astype(np.float64), 0.5)
        return on_grid(log(counts[1:] / counts[:1])) / GRID


@dataclass(frozen=True)
class Softmax(Objective):
    """Several classes, one output and one tree a round for each."""

    name: ClassVar[str] = "softmax"

    def probabilities(self, margins: Floats) -> Floats:
        """The probability of each class, summed in the order of classes."""
        raised = exp(margins - margins.max(axis=1, keepdims=True))
        total = np.zeros(len(raised))
        for k in range(raised.shape[1]):
            total = total + raised[:, k]
        return raised / total[:, None]

    def derivatives(self, margins: Floats, y: NDArray[Any]) -> tuple[Floats, Floats]:
        """Those of the cross-entropy: p - 1 or p, and 2 p (1 - p)."""
        p = self.probabilities(margins).T
        hit = np.arange(self.outputs)[:, None] == y[None]
        return p - hit, 2.0 * p * (1.0 - p)

    def row_losses(self, margins: Floats, y: NDArray[Any]) -> Floats:
        """The cross-entropy of each row."""
        p = self.probabilities(margins)
        return -log(np.maximum(p[np.arange(len(p)), y.astype(np.int64)], 1e-300))

    def predict(self, margins: Floats) -> NDArray[Any]:
        """The likeliest class; the first of those that are."""
        return np.asarray(np.argmax(margins, axis=1), np.int64)

    def sums(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """How many rows each class has."""
        return np.bincount(y.astype(np.int64), minlength=self.outputs).astype(np.int64)

    def base(self, sums: NDArray[np.int64]) -> Floats:
        """The logarithms of the shares; a class without rows counts half of one."""
        counts = np.maximum(sums.astype(np.float64), 0.5)
        return on_grid(log(counts / counts.sum())) / GRID


@dataclass(frozen=True)
class StandardSquares(Objective):
    """Numbers, by half the squared error of the standardised target: (y - shift) / scale."""

    name: ClassVar[str] = "squared-error"

    @property
    def numbers(self) -> tuple[float, ...]:
        """Shift and scale of the target."""
        return self.target

    def scaled(self, y: NDArray[Any]) -> Floats:
        """The target as the trees see it."""
        return (np.asarray(y, np.float64) - self.target[0]) / self.target[1]

    def derivatives(self, margins: Floats, y: NDArray[Any]) -> tuple[Floats, Floats]:
        """The error itself, and 1 for each row."""
        error = margins[:, 0] - self.scaled(y)
        return error[None], np.ones_like(error)[None]

    def row_losses(self, margins: Floats, y: NDArray[Any]) -> Floats:
        """Half the squared error of each row, in standardised units."""
        error = margins[:, 0] - self.scaled(y)
        return 0.5 * error * error

    def predict(self, margins: Floats) -> NDArray[Any]:
        """The number, in its own unit."""
        return margins[:, 0] * self.target[1] + self.target[0]

    def sums(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """The sum of the standardised target on the grid, and the number of rows."""
        return np.array([on_grid(self.scaled(y)).sum(), len(y)], np.int64)

    def base(self, sums: NDArray[np.int64]) -> Floats:
        """The mean of the standardised target."""
        mean = float(sums[0]) / GRID / max(1.0, float(sums[1]))
        return on_grid(np.array([mean])) / GRID


@dataclass(frozen=True)
class Poisson(Objective):
    """Counts, by the logarithm of their rate; the target is taken as it is."""

    name: ClassVar[str] = "poisson"

    def _counts(self, y: NDArray[Any]) -> Floats:
        counts = np.asarray(y, np.float64)
        if not (counts >= 0).all():
            wrong = counts[~(counts >= 0)][0]
            raise UserError(f"trees: poisson needs counts of 0 or more, got {wrong:g}. Use squared-error.")
        return counts

    def derivatives(self, margins: Floats, y: NDArray[Any]) -> tuple[Floats, Floats]:
        """The rate minus the count, and the rate times e^0.7."""
        m = margins[:, 0]
        return (exp(m) - self._counts(y))[None], exp(m + POISSON_STEP)[None]

    def row_losses(self, margins: Floats, y: NDArray[Any]) -> Floats:
        """The negative log-likelihood of each row, without what depends on the count alone."""
        return exp(margins[:, 0]) - self._counts(y) * margins[:, 0]

    def predict(self, margins: Floats) -> NDArray[Any]:
        """The rate, which is the expected count."""
        return exp(margins[:, 0])

    def sums(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """The sum of counts on the grid, and the number of rows."""
        return np.array([on_grid(self._counts(y)).sum(), len(y)], np.int64)

    def base(self, sums: NDArray[np.int64]) -> Floats:
        """The logarithm of the mean count; without any it is taken for half a count."""
        mean = max(float(sums[0]) / GRID, 0.5) / max(1.0, float(sums[1]))
        return on_grid(log(np.array([mean]))) / GRID


def objective_of(settings: Trees, classes: int, target: tuple[float, float] = (0.0, 1.0)) -> Objective:
    """The objective of these settings; ``classes`` is 0 where numbers are predicted."""
    name = settings.objective
    if name == "auto":
        name = "squared-error" if classes == 0 else "binary" if classes == 2 else "softmax"
    if (classes == 0) != (name in ("squared-error", "poisson")):
        what = "numbers" if classes == 0 else f"{classes} classes"
        numbers = ", or read the labels as numbers: task=regression" if name == "poisson" else ""
        raise UserError(f"trees: objective {name} does not fit {what}. Use objective=auto{numbers}.")
    if name == "binary" and classes != 2:
        raise UserError(f"trees: objective binary needs 2 classes, the data have {classes}. Use softmax.")
    if name == "softmax":
        return Softmax(classes)
    if name == "binary":
        return Binary()
    return StandardSquares(target=target) if name == "squared-error" else Poisson()
