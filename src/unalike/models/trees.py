"""Boosted trees as a model of a run: what they may look like. How they are grown is in ``unalike.trees``."""

from __future__ import annotations

from typing import ClassVar, Literal

from unalike.errors import UserError
from unalike.models.model import register_model

MOST_DEPTH = 16
MOST_BINS = 1024
_ELSEWHERE = {
    "max_depth": "depth",
    "max_bin": "bins",
    "max_leaves": "leaves",
    "num_leaves": "leaves",
    "learning_rate": "eta",
    "lambda": "l2",
    "reg_lambda": "l2",
    "gamma": "gain",
    "min_child_weight": "least_weight",
    "min_data_in_leaf": "least_rows",
    "subsample": "rows",
    "colsample_bytree": "columns",
    "early_stopping_rounds": "patience",
}
"""How settings are called in other libraries, and here."""


@register_model("trees", paper="Friedman 2001; Chen & Guestrin 2016, arXiv:1603.02754")
class Trees:
    """Gradient-boosted decision trees on binned columns: one tree a round, or one for each class.

    ``depth`` and ``leaves`` bound a tree (0 leaves: as many as the depth allows); ``grow`` says which node is
    split next: all of a level, or the leaf with the greatest gain. ``bins`` are those of a column, ``eta`` is
    the shrinkage of each tree, ``l2`` the penalty on leaf values and ``gain`` the least gain of a split. A
    child has at least ``least_rows`` rows of all parties together and a sum of second derivatives of
    ``least_weight``. ``rows`` and ``columns`` are the shares that each tree is grown on. ``rising`` and
    ``falling`` name columns, counted from 0, that may only raise or lower what is predicted. ``patience`` ends
    training when so many trees have not lowered the loss on validation rows (0: never).
    """

    predictor: ClassVar[str] = "unalike.trees.ensemble:Ensemble"
    """What reads the arrays that training leaves, and predicts with them."""

    refused: ClassVar[dict[str, str]] = {
        **{other: f"{other} is called {own} here. Write trees({own}=...)." for other, own in _ELSEWHERE.items()},
        "n_estimators": "Trees are as many as rounds: use --rounds in place of trees(n_estimators=...).",
    }
    depth: int = 6
    bins: int = 64
    eta: float = 0.3
    l2: float = 1.0
    gain: float = 0.0
    least_rows: int = 20
    least_weight: float = 1.0
    grow: Literal["levels", "leaves"] = "levels"
    leaves: int = 0
    rows: float = 1.0
    columns: float = 1.0
    rising: tuple[int, ...] = ()
    falling: tuple[int, ...] = ()
    patience: int = 0
    objective: Literal["auto", "binary", "softmax", "squared-error", "poisson"] = "auto"

    def __post_init__(self) -> None:
        for name, least, most in (
            ("depth", 1, MOST_DEPTH),
            ("bins", 2, MOST_BINS),
            ("least_rows", 1, 10**9),
            ("leaves", 0, 2**MOST_DEPTH),
            ("patience", 0, 10**7),
        ):
            if not least <= getattr(self, name) <= most:
                raise UserError(f"trees: {name} must be from {least} to {most:,}, got {getattr(self, name)}.")
        for name in ("eta", "rows", "columns"):
            if not 0 < getattr(self, name) <= 1:
                raise UserError(f"trees: {name} must be above 0 and at most 1, got {getattr(self, name)}.")
        for name in ("l2", "gain", "least_weight"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UserError(f"trees: {name} must be 0 or more, got {getattr(self, name)}.")
        if both := sorted(set(self.rising) & set(self.falling)):
            raise UserError(f"trees: column {both[0]} is both rising and falling. Keep one of them.")
