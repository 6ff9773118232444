"""The table of scores: what each says, which way is better, and how it is made of a tally of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from unalike.errors import UserError, unknown

if TYPE_CHECKING:  # numpy takes a while, and the shell asks for names of scores while it waits
    from unalike.tallies import Kind, Tally

Figures = dict[str, Any]
"""What a round or a run is told by: numbers by name, ready for JSON."""


@dataclass(frozen=True)
class Score:
    """One way to say how good predictions are."""

    name: str
    task: Kind
    better: Literal["up", "down"]
    unit: Literal["fraction", "number"]
    """a fraction is shown in percent"""
    needs: tuple[str, ...]
    """the parts of a tally that it is made of, beside the number of rows"""
    compute: Callable[[Tally], float]
    """from the tally of one row or more; NaN where it is not defined"""
    summary: str
    title: str = ""
    """what tables and figures call it; by default its name"""

    @property
    def key(self) -> str:
        """Its name in records: ``balanced_accuracy``."""
        return key_of(self.name)


def key_of(name: str) -> str:
    """How records spell the name of a score, a JSON key: ``balanced_accuracy`` for balanced-accuracy."""
    return name.replace("-", "_")


# How scores are made of a tally.


def _accuracy(tally: Tally) -> float:
    return float(tally["right"] / tally["rows"])


def _balanced_accuracy(tally: Tally) -> float:
    own = tally["confusion"].sum(axis=1)
    return float((tally["confusion"].diagonal()[own > 0] / own[own > 0]).mean())


def _macro_f1(tally: Tally) -> float:
    confusion = tally["confusion"]
    both = confusion.sum(axis=0) + confusion.sum(axis=1)
    return float((2 * confusion.diagonal()[both > 0] / both[both > 0]).mean())


def _auroc(tally: Tally) -> float:
    others, own = tally["odds"]
    below = others.cumsum(axis=1) - others / 2
    pairs = own.sum(axis=1) * others.sum(axis=1)
    there = pairs > 0
    return float(((own * below).sum(axis=1)[there] / pairs[there]).mean()) if there.any() else math.nan


def _brier(tally: Tally) -> float:
    return float(tally["distances"] / tally["rows"])


def _calibration_error(tally: Tally) -> float:
    _, right, confidence = tally["calibration"]
    return float(abs(right - confidence).sum() / tally["rows"])


def _r2(tally: Tally) -> float:
    total, squares = tally["targets"]
    spread = squares - total**2 / tally["rows"]
    # Of rows with one target, rounding leaves a spread of about 1e-16 of the squares.
    return float(1 - tally["squares"] / spread) if spread > 1e-13 * squares else math.nan


_TABLE = (
    Score("accuracy", "classification", "up", "fraction", ("right",), _accuracy, "the share of right answers"),
    Score(
        *("balanced-accuracy", "classification", "up", "fraction", ("confusion",), _balanced_accuracy),
        "the mean over classes of the share of right answers, so that rare classes count as much as frequent ones",
    ),
    Score(
        *("macro-f1", "classification", "up", "number", ("confusion",), _macro_f1),
        "the mean over classes of F1, the harmonic mean of precision and recall",
        title="macro F1",
    ),
    Score(
        *("auroc", "classification", "up", "number", ("odds",), _auroc),
        "how probably a row of a class gets a higher probability of it than another row; the mean over classes",
        title="AUROC",
    ),
    Score(
        *("brier", "classification", "down", "number", ("distances",), _brier),
        "the mean squared distance of the probabilities from what happened",
        title="Brier score",
    ),
    Score(
        *("calibration-error", "classification", "down", "fraction", ("calibration",), _calibration_error),
        "how far the confidence is from the share of right answers, over 15 bins of confidence",
    ),
    Score(
        *("rmse", "regression", "down", "number", ("squares",), lambda t: math.sqrt(t["squares"] / t["rows"])),
        "the root of the mean squared error, in the units of the target",
        title="RMSE",
    ),
    Score(
        *("mae", "regression", "down", "number", ("absolutes",), lambda t: float(t["absolutes"] / t["rows"])),
        "the mean absolute error, in the units of the target",
        title="MAE",
    ),
    Score(
        *("r2", "regression", "up", "number", ("squares", "targets"), _r2),
        "the share of the target's variance that is explained; 0 is as good as its mean",
        title="R2",
    ),
)
SCORES: dict[str, Score] = {score.name: score for score in _TABLE}
"""All scores by name; the first of a task is what its runs go by where nobody chooses."""

_LARGE, _LARGEST = 1e3, 1e9
_MOST_DIGITS = 9

SUMMARIES = {
    "parties": "parties",
    "personal": "personal models",
    "newcomers": "newcomers",
    "parties_by_labels": "parties, test rows with their labels",
    "personal_by_labels": "personal models, test rows with their labels",
    "newcomers_by_labels": "newcomers, test rows with their labels",
    "personal_global": "personal models, all test rows",
    "newcomers_global": "newcomers, all test rows",
}
"""The summaries of parties that figures may have, and what people call them."""


def scores_of(task: Kind) -> list[Score]:
    """All scores of a task."""
    return [score for score in SCORES.values() if score.task == task]


def choose(name: str | None, task: Kind) -> Score:
    """The score that a run goes by: the named one, if it is one of the task's, else the task's first."""
    own = scores_of(task)
    if name is None:
        return own[0]
    score = named(name)
    if score.task != task:
        known = ", ".join(each.name for each in own)
        raise UserError(f"{name} is a score of {score.task}, but the task is {task}. Use one of {known}.")
    return score


def named(name: str) -> Score:
    """The score of that name; the nearest match is suggested where there is none."""
    if name not in SCORES:
        raise unknown("score", name, SCORES)
    return SCORES[name]


def figures_of(scores: Iterable[Score], tally: Tally) -> dict[str, float | None]:
    """The scores by their key in records; None where one is not defined, as R2 of rows with one target."""
    found = {}
    for score in scores:
        value = score.compute(tally) if tally and tally["rows"] else math.nan
        found[score.key] = None if math.isnan(value) else value
    return found


def auroc_error(tally: Tally) -> float:
    """How far AUROC by histograms can be from that by ranks: half of the share of pairs that share a bin."""
    others, own = tally["odds"]
    pairs = own.sum(axis=1) * others.sum(axis=1)
    there = pairs > 0
    return float(((own * others).sum(axis=1)[there] / pairs[there]).mean() / 2) if there.any() else 0.0


# How records are read.


def score_of(figures: Mapping[str, Any]) -> str:
    """The name of the score that a recorded run or round goes by; the first records had accuracy alone."""
    return str(figures.get("score", "accuracy"))


def value_of(figures: Mapping[str, Any]) -> float | None:
    """The value of that score on the global test set."""
    value = figures.get(key_of(score_of(figures)))
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def goodness(name: str, value: float | None) -> float:
    """A sort key: the larger the better, whichever way the score goes; what is missing comes last."""
    if value is None or math.isnan(value):
        return -math.inf
    return value if named(name).better == "up" else -value


def better(name: str, a: float | None, b: float | None) -> bool:
    """Whether ``a`` is a better value of the score than ``b``."""
    return goodness(name, a) > goodness(name, b)


def shown(name: str, value: float | None) -> str:
    """A value for people: 97.3% of a fraction, 0.412 or 95890 of a number."""
    if value is None or math.isnan(value):
        return "–"
    if named(name).unit == "fraction":
        return f"{100 * value:.1f}%"
    return f"{value:.{digits_of(value)}f}" if abs(value) < _LARGEST else f"{value:.4g}"


def digits_of(value: float) -> int:
    """Digits after the point that tell a number: three of it at least, and none from 1000 on."""
    if value == 0 or 0.1 <= abs(value) < _LARGE:
        return 3
    return 0 if abs(value) >= _LARGE else min(_MOST_DIGITS, 2 - math.floor(math.log10(abs(value))))
