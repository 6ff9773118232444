"""How a party computes with its columns: in float64, or in whole numbers that add up without rounding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unalike.errors import UserError
from unalike.vertical import grid

Array = NDArray[Any]
Floats = NDArray[np.float64]
_GREATEST_INTERCEPT = 2.0**16


@dataclass(frozen=True, eq=False)
class OwnColumns:
    """A party's columns of some people: float64, dense or a scipy CSR matrix, and their greatest entry."""

    values: Any
    most: float

    @property
    def people(self) -> int:
        """How many people there are."""
        return int(self.values.shape[0])

    def of(self, places: NDArray[np.int64]) -> OwnColumns:
        """The same columns of the people at these places."""
        if hasattr(self.values, "indptr"):
            return OwnColumns(self.values[places], self.most)
        return OwnColumns(self.values.take(places, axis=0), self.most)


class Arithmetic(ABC):
    """Scores and gradients of linear models; what is sent between parties has the type ``sent``."""

    sent: ClassVar[str]

    @abstractmethod
    def columns(self, x: Any) -> OwnColumns:
        """Columns as they are computed with; missing numbers are refused."""

    @abstractmethod
    def scores(self, columns: OwnColumns, weights: Floats, parties: int) -> Array:
        """What columns say of people, [people, outputs], to be added to what other parties' say."""

    @abstractmethod
    def steady(self, columns: OwnColumns, weights: Floats, parties: int) -> Array:
        """The same, and a person's do not depend, to the bit, on who else is scored: for predictions."""

    @abstractmethod
    def intercept(self, bias: Floats) -> Array:
        """The label holder's intercept, to be added to its scores."""

    @abstractmethod
    def plain(self, scores: Array) -> Floats:
        """The sum of all parties' scores as plain numbers."""

    @abstractmethod
    def residual(self, residual: Floats) -> Array:
        """Residuals as they are sent and computed with."""

    @abstractmethod
    def gradient(self, columns: OwnColumns, residual: Array) -> Floats:
        """The sum over people of column times residual, [columns, outputs]."""

    @abstractmethod
    def pull(self, residual: Array) -> Floats:
        """The sum of residuals, for the intercept."""


class PlainNumbers(Arithmetic):
    """In float64, as a model of all columns would be trained."""

    sent: ClassVar[str] = "float64"

    def columns(self, x: Any) -> OwnColumns:
        """Columns in float64, not rounded."""
        return OwnColumns(as_floats(x), 0.0)

    def scores(self, columns: OwnColumns, weights: Floats, parties: int) -> Array:
        """The matrix product, as fast as it can be."""
        return np.asarray(columns.values @ weights)

    def steady(self, columns: OwnColumns, weights: Floats, parties: int) -> Array:
        """The products of one column after the other are added."""
        if hasattr(columns.values, "indptr"):
            return np.asarray(columns.values @ weights)
        found = np.zeros((columns.people, weights.shape[1]))
        for column, weight in zip(columns.values.T, weights, strict=True):
            found += column[:, None] * weight
        return found

    def intercept(self, bias: Floats) -> Array:
        """The intercept as it is."""
        return bias

    def plain(self, scores: Array) -> Floats:
        """Scores, which are plain numbers already."""
        return scores

    def residual(self, residual: Floats) -> Array:
        """Residuals as they are, within bounds."""
        return within_reason(residual)

    def gradient(self, columns: OwnColumns, residual: Array) -> Floats:
        """The matrix product of columns and residuals."""
        return np.asarray(columns.values.T @ residual)

    def pull(self, residual: Array) -> Floats:
        """The sum of residuals over people."""
        found: Floats = residual.sum(axis=0)
        return found


class WholeNumbers(Arithmetic):
    """On the grid of :mod:`unalike.vertical.grid`: exact, whoever holds which column."""

    sent: ClassVar[str] = "int64"

    def columns(self, x: Any) -> OwnColumns:
        """Columns rounded to the grid."""
        values = as_floats(x).copy()
        if hasattr(values, "indptr"):
            values.data = grid.whole(values.data, grid.COLUMNS, "Columns")
            entries = values.data
        else:
            values = entries = grid.whole(values, grid.COLUMNS, "Columns")
        return OwnColumns(values, float(np.abs(entries).max()) if entries.size else 0.0)

    def scores(self, columns: OwnColumns, weights: Floats, parties: int) -> Array:
        """The exact product with the weights on the grid; each party has an even part of the room."""
        rounded = grid.whole(weights, grid.STEPS, "Weights")
        return grid.exact_product(columns.values, rounded, columns.most, grid.GREATEST // (2 * parties), "Scores")

    def steady(self, columns: OwnColumns, weights: Floats, parties: int) -> Array:
        """The same: what is exact does not depend on anything else."""
        return self.scores(columns, weights, parties)

    def intercept(self, bias: Floats) -> Array:
        """The intercept on the grid of scores."""
        if not np.abs(bias).max() < _GREATEST_INTERCEPT:
            raise UserError(f"An intercept is {np.abs(bias).max():.3g}: training diverges. Lower --lr.")
        return grid.whole(bias, grid.STEPS, "Weights").astype(np.int64) << grid.COLUMNS

    def plain(self, scores: Array) -> Floats:
        """The multiples of 2^-44 as plain numbers."""
        return grid.decoded(scores)

    def residual(self, residual: Floats) -> Array:
        """Residuals rounded to the grid."""
        return grid.whole(within_reason(residual), grid.STEPS, "Residuals").astype(np.int64)

    def gradient(self, columns: OwnColumns, residual: Array) -> Floats:
        """The exact product, rounded to float64 once at the end."""
        return grid.decoded(self.whole_gradient(columns, residual))

    def whole_gradient(self, columns: OwnColumns, residual: Array) -> NDArray[np.int64]:
        """The exact product as multiples of 2^-44."""
        values, right = columns.values.T, residual.astype(np.float64)
        return grid.exact_product(values, right, columns.most, 2**62, "Gradients")

    def pull(self, residual: Array) -> Floats:
        """The exact sum of residuals."""
        found: Floats = np.ldexp(residual.sum(axis=0).astype(np.float64), -grid.STEPS)
        return found


def as_floats(x: Any) -> Any:
    """Rows as float64, dense or CSR; missing numbers are refused."""
    if hasattr(x, "indptr"):
        found = x.tocsr().astype(np.float64)
        entries = found.data
    else:
        found = entries = np.ascontiguousarray(x, np.float64)
    if not np.isfinite(entries).all():
        count = int((~np.isfinite(entries)).sum())
        raise UserError(
            f"{count:,} numbers are missing or infinite, which a linear model has no use for. Use "
            "missing=indicate, or let trees learn from them: --model trees --algorithm secureboost."
        )
    return found


def within_reason(residual: Floats) -> Floats:
    """The same residuals; those of a training that diverges are refused."""
    if np.vdot(residual, residual) < grid.GREATEST_RESIDUAL:  # the sum of squares bounds each: the usual case
        return residual
    most = float(np.abs(residual).max()) if residual.size else 0.0
    if not most < grid.GREATEST_RESIDUAL:
        raise UserError(f"A residual is {most:.3g}: training diverges. Lower --lr.")
    return residual


def added_up(parts: Sequence[Array]) -> Array:
    """Parties' scores added in the order of parties."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def arithmetic_of(whole: bool) -> Arithmetic:
    """The arithmetic of whole numbers, or of float64."""
    return WholeNumbers() if whole else PlainNumbers()
