"""Evaluation of models that only grow, such as boosted trees: what is known of a row is kept, and added to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.models.loss import CrossEntropy
from unalike.rounds.evaluation import Source, Use
from unalike.rounds.federation import SplitRows
from unalike.rounds.judging import Judged, joined, lines_of, needs_probabilities
from unalike.scores import Figures, Score


class Answers(Protocol):
    """What margins mean where numbers are predicted."""

    def predict(self, margins: Array) -> Array:
        """The number that is predicted for each row, in its own units."""
        ...

    def row_losses(self, margins: Array, y: Array) -> Array:
        """The loss of each row, whose number to predict is ``y`` in its own units."""
        ...


class Grown(Protocol):
    """A trained model that is a sum of trees, or of other small parts, each of which adds to a row's margins."""

    @property
    def trees(self) -> int:
        """How many parts it is the sum of."""
        ...

    @property
    def objective(self) -> Answers:
        """What its margins mean, where numbers are predicted."""
        ...

    @property
    def sha256(self) -> str:
        """The SHA-256 of all that decides what it predicts."""
        ...

    def margins(self, x: Any, first: int = 0, last: int | None = None) -> Array:
        """The sum of its parts from ``first`` up to ``last``, [rows, outputs]; with its start, if first is 0."""
        ...


@dataclass
class KnownRows:
    """Rows whose margins under one model are kept from round to round; only new parts are looked at."""

    x: Any
    found: Array = field(default_factory=lambda: np.zeros((0, 1)))
    known: int = 0

    def under(self, model: Grown) -> Array:
        """The margins under a model that the one before has grown into.

        One part after the other is added: so the bits are those of a run that was never stopped.
        """
        if model.trees < self.known or not self.known:
            self.known = min(1, model.trees)
            self.found = model.margins(self.x, 0, self.known)
        for number in range(self.known, model.trees):
            self.found = self.found + model.margins(self.x, number, number + 1)
        self.known = model.trees
        return self.found


@dataclass(eq=False)
class TriedRows:
    """The rows of a run that models are tried on, by where they are and whose model is tried."""

    dataset: Dataset
    rows: dict[tuple[str, int, bytes], KnownRows] = field(default_factory=dict)

    def forget(self) -> None:
        """Start anew: the next model did not grow out of the last one."""
        self.rows.clear()

    def margins(self, of: Source, places: Array, model: Grown, owner: int) -> Array:
        """The margins of the rows at these places under a model; ``owner`` is whose, -1 for the one of all."""
        key = of, owner, places.tobytes()
        if key not in self.rows:
            x = self.dataset.x if of == "train" else self.dataset.x_test
            self.rows[key] = KnownRows(as_table(x, places))
        return self.rows[key].under(model)


def as_table(x: Any, places: Array) -> Any:
    """The rows at these places as [rows, features], floats as they are, other numbers as float32."""
    rows = x[places]
    if hasattr(rows, "indptr"):
        return rows
    flat = np.asarray(rows).reshape(len(places), math.prod(x.shape[1:]))
    return flat if flat.dtype in (np.float32, np.float64) else flat.astype(np.float32)


@dataclass(frozen=True, eq=False)
class MarginLook:
    """How rows are judged under models that only grow: the one that all share, or each party's own."""

    rows: SplitRows
    shared: Grown | None
    personal: Mapping[int, Grown]
    kept: TriedRows

    @property
    def uses(self) -> Sequence[Use]:
        """Which models there are: what parties would deploy is the last."""
        there: dict[Use, bool] = {"shared": self.shared is not None, "personal": bool(self.personal)}
        return [use for use, found in there.items() if found]

    def fewest(self, number: int) -> int:
        """One row of a party is enough."""
        return 1

    def test(self, scores: Sequence[Score]) -> Figures:
        """The figures of the global test set under the model that all share."""
        assert self.shared is not None
        everything = np.arange(len(self.rows.dataset.y_test))
        return self._judged("test", everything, self.shared, -1, scores).figures(scores)

    def each(self, use: Use, of: Source, sets: Sequence[Sequence[Array]], scores: Sequence[Score]) -> list[Judged]:
        """Each of several sets of rows, by party that is tried, judged party after party."""
        ends = np.cumsum([0, *(sum(map(len, parts)) for parts in sets)])
        if use == "shared":
            assert self.shared is not None
            places = np.concatenate([rows for parts in sets for rows in parts])
            whole = self._judged(of, places, self.shared, -1, scores)
            return [whole.at(torch.arange(a, b)) for a, b in pairwise(ends.tolist())]
        found: list[list[Judged]] = [[] for _ in sets]
        for place, number in enumerate(self.rows.tried):
            own = [parts[place] for parts in sets]
            judged = self._judged(of, np.concatenate(own), self._of(number), number, scores)
            start = 0
            for kept, part in zip(found, own, strict=True):
                kept.append(judged.at(torch.arange(start, start + len(part))))
                start += len(part)
        return [joined(parts) for parts in found]

    def _of(self, number: int) -> Grown:
        """A party's own model; who has none uses the one that all share."""
        model = self.personal.get(number, self.shared)
        if model is None:
            raise UserError(f"Party {number} did not train and has no model. Leave --newcomers out.")
        return model

    def _judged(self, of: Source, places: Array, model: Grown, owner: int, scores: Sequence[Score]) -> Judged:
        data = self.rows.dataset
        y = (data.y if of == "train" else data.y_test)[places]
        margins = self.kept.margins(of, places, model, owner)
        if data.task == "regression":
            shift = float(data.target.shift)
            losses = model.objective.row_losses(margins, y)
            table = np.stack([losses, model.objective.predict(margins) - y], axis=1)
            return Judged("regression", torch.from_numpy(table), torch.from_numpy(np.asarray(y - shift)))
        logits = torch.from_numpy(two_sided(margins))
        labels = torch.from_numpy(np.asarray(y, np.int64))
        lines = lines_of(CrossEntropy(), logits, labels, whole=needs_probabilities(scores))
        return Judged("classification", lines, labels)


def two_sided(margins: Array) -> Array:
    """A logit for each class: of two classes, there may be one margin, that of the second."""
    return np.hstack([np.zeros_like(margins), margins]) if margins.shape[1] == 1 else margins
