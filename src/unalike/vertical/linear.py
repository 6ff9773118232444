"""A linear model of somebody who has all columns, from the parts that several parties have trained."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unalike.vertical.arithmetic import added_up, arithmetic_of, as_floats
from unalike.vertical.objectives import ScoreLoss, loss_of

Array = NDArray[Any]
_NAMES = {
    "weights": "float64",
    "bias": "float64",
    "columns": "int64",
    "sizes": "int64",
    "label_holder": "int64",
    "whole": "int64",
}


@dataclass(frozen=True, eq=False)
class JoinedLinear:
    """Weights of all parties' columns, and the label holder's intercept: scores as the parties would add them.

    A column that several parties have is there once for each of them: its weights add up.
    """

    arrays: Mapping[str, Array]
    objective: ScoreLoss

    @classmethod
    def of(
        cls, arrays: Mapping[str, Array], model: Any, classes: int, target: tuple[float, float] = (0.0, 1.0)
    ) -> JoinedLinear:
        """The model in such arrays, which may be a stranger's: ValueError where they are none."""
        loss = loss_of(classes, target)
        for name, dtype in _NAMES.items():
            if name not in arrays or arrays[name].dtype != dtype:
                raise ValueError(f"a joined linear model needs {name} of {dtype}")
        columns, sizes, holder = (arrays[name] for name in ("columns", "sizes", "label_holder"))
        fits = (
            sizes.ndim == columns.ndim == 1
            and (sizes >= 0).all()
            and arrays["weights"].shape == (len(columns), loss.outputs)
            and sizes.sum() == len(columns)
            and (columns >= 0).all()
            and arrays["bias"].shape == (loss.outputs,)
            and holder.shape == arrays["whole"].shape == (1,)
            and 0 <= holder[0] < len(sizes)
        )
        if not fits or not all(np.isfinite(arrays[name]).all() for name in ("weights", "bias")):
            raise ValueError("the arrays of a joined linear model do not fit each other")
        return cls({name: arrays[name] for name in _NAMES}, loss)

    @property
    def trees(self) -> int:
        """None: it is not a sum of trees."""
        return 0

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of all that decides what it predicts."""
        sha = hashlib.sha256()
        for name in sorted(_NAMES):
            sha.update(f"{name} {self.arrays[name].shape}".encode())
            sha.update(np.ascontiguousarray(self.arrays[name]).tobytes())
        return sha.hexdigest()

    def margins(self, x: Any, first: int = 0, last: int | None = None) -> Array:
        """The scores of rows [rows, features], float64 [rows, outputs]; it has no parts, so no range of them."""
        arrays, own = self.arrays, arithmetic_of(bool(self.arrays["whole"][0]))
        ends = np.cumsum(arrays["sizes"])
        if len(arrays["columns"]) and x.shape[1] <= arrays["columns"].max():
            raise ValueError(f"rows of {arrays['columns'].max() + 1} numbers or more are needed, got {x.shape}")
        x, parts = as_floats(x), []
        for party, end in enumerate(ends):
            places = slice(end - arrays["sizes"][party], end)
            block = own.columns(x[:, arrays["columns"][places]])
            scores = own.steady(block, arrays["weights"][places], len(ends))
            if party == arrays["label_holder"][0]:
                scores = scores + own.intercept(arrays["bias"])
            parts.append(scores)
        return own.plain(added_up(parts))

    def predict(self, x: Any) -> Array:
        """The place of each row's most probable class, or the number that is predicted, in its own units."""
        return self.objective.predict(self.margins(x))


def joined_linear(
    parts: Sequence[Mapping[str, Array]], columns: Sequence[NDArray[np.int64]], label_holder: int, whole: bool
) -> dict[str, Array]:
    """The arrays of the joined model, from each party's ``weights`` and the label holder's ``bias``."""
    return {
        "weights": np.concatenate([part["weights"] for part in parts]),
        "bias": parts[label_holder]["bias"],
        "columns": np.concatenate(columns).astype(np.int64),
        "sizes": np.array([len(own) for own in columns], np.int64),
        "label_holder": np.array([label_holder], np.int64),
        "whole": np.array([whole], np.int64),
    }
