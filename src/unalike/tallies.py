"""Sums and histograms of rows, which scores are made of.

A *tally* holds them by name. Tallies of different rows are added, so that parties who keep their rows to
themselves have scores together; no tally holds a row. Each part is made of predictions and what they should have
been: of probabilities [rows, classes] and labels [rows], or of errors [rows] and targets [rows].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Tally = dict[str, Array]
"""Sums and histograms in float64: ``rows``, ``loss`` (the sum of the rows' losses), and any of :data:`PARTS`."""
Kind = Literal["classification", "regression"]
"""What is predicted: one of several classes, or a number."""

CALIBRATION_BINS = 15
"""Of the confidence from 0 to 1, as Guo et al. 2017 (arXiv:1706.04599) have them."""
ODDS_BINS = 256
"""Of the logarithm of the odds p / (1 - p), an eighth wide, from -16 to 16 with both ends open."""


def _right(probabilities: Array, labels: Array) -> Array:
    """The number of right answers."""
    return np.asarray(float((probabilities.argmax(axis=1) == labels).sum()))


def _confusion(probabilities: Array, labels: Array) -> Array:
    """Rows by their class and the class that was predicted."""
    classes = probabilities.shape[1]
    pairs = labels * classes + probabilities.argmax(axis=1)
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes).astype(np.float64)


def _distances(probabilities: Array, labels: Array) -> Array:
    """The sum of squared distances of the probabilities from what happened (1 for the class, 0 for the others).

    Of two classes it is half, as is usual: what is wrong with one is wrong with the other.
    """
    chosen = probabilities[np.arange(len(labels)), labels]
    total = ((probabilities**2).sum(axis=1) - 2 * chosen + 1).sum()
    return np.asarray(total / 2 if probabilities.shape[1] == 2 else total)


def _calibration(probabilities: Array, labels: Array) -> Array:
    """By bins of the predicted class's probability: rows, right answers, and the sum of these probabilities."""
    confidence = probabilities.max(axis=1)
    edges = np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1]
    place = np.searchsorted(edges, confidence)
    right = probabilities.argmax(axis=1) == labels
    return np.stack([np.bincount(place, each, CALIBRATION_BINS) for each in (None, right, confidence)])


def _odds(probabilities: Array, labels: Array) -> Array:
    """Histograms of the odds of each class: over the rows of other classes, and over its own."""
    classes = judged_classes(probabilities.shape[1])
    found = np.zeros((2, len(classes), ODDS_BINS))
    with np.errstate(divide="ignore"):
        odds = np.log(probabilities) - np.log1p(-probabilities)
    odds = np.nan_to_num(odds, posinf=16, neginf=-16)  # NaN: of a net that has diverged
    place = np.clip(np.floor(odds * 8) + ODDS_BINS // 2, 0, ODDS_BINS - 1).astype(np.int64)
    for row, k in enumerate(classes):
        for own in (0, 1):
            found[own, row] = np.bincount(place[(labels == k) == own, k], minlength=ODDS_BINS)
    return found


def judged_classes(classes: int) -> range:
    """The classes whose probability AUROC looks at: of two the second alone, as the first's mirrors it."""
    return range(1, 2) if classes == 2 else range(classes)


@dataclass(frozen=True)
class Part:
    """One entry of a tally."""

    task: Kind
    shape: Callable[[int], tuple[int, ...]]
    """from the number of classes"""
    count: Callable[[Array, Array], Array]


PARTS: dict[str, Part] = {
    "right": Part("classification", lambda classes: (), _right),
    "confusion": Part("classification", lambda classes: (classes, classes), _confusion),
    "distances": Part("classification", lambda classes: (), _distances),
    "calibration": Part("classification", lambda classes: (3, CALIBRATION_BINS), _calibration),
    "odds": Part("classification", lambda classes: (2, len(judged_classes(classes)), ODDS_BINS), _odds),
    "squares": Part("regression", lambda classes: (), lambda errors, targets: np.asarray((errors**2).sum())),
    "absolutes": Part("regression", lambda classes: (), lambda errors, targets: np.asarray(np.abs(errors).sum())),
    "targets": Part("regression", lambda classes: (2,), lambda e, y: np.array([y.sum(), (y**2).sum()])),
}
"""What a tally may hold, beside ``rows`` and ``loss``, the sum of the rows' losses."""


def tally_of(names: Iterable[str], predicted: Array, true: Array) -> Tally:
    """The tally of rows: of their probabilities and labels, or of their errors and targets."""
    predicted = predicted.astype(np.float64)
    counted = {name: PARTS[name].count(predicted, true) for name in names}
    return {"rows": np.array(float(len(true))), **counted}


def pooled(tallies: Iterable[Tally]) -> Tally:
    """The tally of all their rows together, of the parts that all of them have."""
    each = list(tallies)
    names = [name for name in each[0] if all(name in one for one in each)] if each else []
    return {name: np.sum([one[name] for one in each], axis=0) for name in names}


def exact_auroc(probabilities: Array, labels: Array) -> float | None:
    """AUROC by ranks, ties counting half: one class against the rest, the mean over classes that have both.

    For those who have all rows; a tally has histograms instead, and is off by at most ``scores.auroc_error``.
    """
    found = []
    for k in judged_classes(probabilities.shape[1]):
        own = labels == k
        positive, negative = int(own.sum()), int((~own).sum())
        if positive and negative:
            _, place, counts = np.unique(probabilities[:, k], return_inverse=True, return_counts=True)
            ranks = np.cumsum(counts) - (counts - 1) / 2
            above = ranks[place.reshape(-1)][own].sum() - positive * (positive + 1) / 2
            found.append(above / (positive * negative))
    return float(np.mean(found)) if found else None


def check_tally(tally: Tally, classes: int) -> None:
    """Raise ValueError for what no rows can have as their tally: parts of another shape, or that disagree."""
    if "rows" not in tally:
        raise ValueError("it has no number of rows")
    for name, value in tally.items():
        shape = PARTS[name].shape(classes) if name in PARTS else ()
        if value.shape != shape:
            raise ValueError(f"its {name} has the shape {value.shape}, not {shape}")
        if not np.isfinite(value).all() or (name not in ("targets", "loss") and (value < 0).any()):
            raise ValueError(f"its {name} has numbers that no rows have")
    rows = float(tally["rows"])
    for name, counts in _counts(tally).items():
        if counts.size and not np.allclose(counts, rows, rtol=0, atol=1e-6 * max(1.0, rows)):
            raise ValueError(f"its {name} is not of {rows:g} rows")
    for name, (least, most) in _bounds(tally).items():
        if not np.all(least <= most * (1 + 1e-9) + 1e-9):
            raise ValueError(f"its {name} is more than {rows:g} rows can have")


def _counts(tally: Tally) -> dict[str, Array]:
    """What must be the number of rows, by part."""
    sums: dict[str, Callable[[Array], Array]] = {
        "confusion": lambda value: np.asarray(value.sum()),
        "calibration": lambda value: np.asarray(value[0].sum()),
        "odds": lambda value: np.asarray(value.sum(axis=(0, 2))),
    }
    return {name: count(tally[name]) for name, count in sums.items() if name in tally}


def _bounds(tally: Tally) -> dict[str, tuple[Array, Array]]:
    """What must be no more than what, by part: the second is what the first can be at most."""
    rows, found = tally["rows"], {}
    if "right" in tally:
        found["right"] = (tally["right"], rows)
    if "distances" in tally:
        found["distances"] = (tally["distances"], 2 * rows)
    if "calibration" in tally:
        found["calibration"] = (tally["calibration"][1:], tally["calibration"][0])
    if "absolutes" in tally and "squares" in tally:
        found["absolutes"] = (tally["absolutes"] ** 2, rows * tally["squares"])  # by Cauchy and Schwarz
    if "targets" in tally:
        found["targets"] = (tally["targets"][0] ** 2, rows * tally["targets"][1])
    return found
