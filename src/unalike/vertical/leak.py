"""Attacks: what a role can find out from what it saw while a model of split columns was trained.

Each is a function of what was seen, and of the truth, against which it only scores itself. They are simple ones,
known from the literature: a score near chance says that this attack fails, not that every attack must. All
assume an honest role that follows the protocol and keeps its mail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]


def by_sign(residuals: Array, y: Array) -> float:
    """How many labels a holder reads off residuals in the clear: a share of the people, 1.0 being all.

    A residual is a probability less the label, so it is below 0 for just the true class. ``residuals`` [people,
    outputs] are those that were seen, ``y`` the true classes.
    """
    found = (residuals[:, 0] < 0).astype(np.int64) if residuals.shape[1] == 1 else residuals.argmin(axis=1)
    return float((found == y).mean())


def by_equations(
    columns: Array,
    batches: Sequence[Array],
    gradients: Sequence[Array],
    y: Array,
    expected: Array | None = None,
    ridge: float = 1e-6,
) -> float:
    """How well a holder ranks people by label, from its own part of the gradient: the area under the curve.

    It knows its ``columns`` [people, columns], who was in each of ``batches`` (places), and each batch's
    ``gradients`` X_B^T r [columns]. Every batch is as many linear equations about the residuals r as there are
    columns. Between steps residuals change little while labels never do, so one unknown a person is solved for
    over all batches, by least squares with a small ``ridge``; a low one means label 1. One batch, or the batches
    of several rounds, can be given. Only people who were in some batch count.

    Columns say something of labels that no protocol can hide: a model of them ranks people too. Where its scores
    are given as ``expected``, only pairs of people count to whom it gives about the same: that is the leak.
    """
    people = np.unique(np.concatenate(list(batches)))
    place = np.zeros(len(columns), np.int64)
    place[people] = np.arange(len(people))
    system = np.zeros((sum(len(gradient) for gradient in gradients), len(people)))
    at = 0
    for batch, gradient in zip(batches, gradients, strict=True):
        system[at : at + len(gradient), place[batch]] = columns[batch].T
        at += len(gradient)
    told = np.concatenate([np.asarray(gradient, np.float64) for gradient in gradients])
    if len(system) <= len(people):
        gram = system @ system.T
        gram[np.diag_indices(len(gram))] += ridge * max(1.0, float(np.trace(gram)) / len(gram))
        solved = system.T @ np.linalg.solve(gram, told)
    else:
        gram = system.T @ system
        gram[np.diag_indices(len(gram))] += ridge * max(1.0, float(np.trace(gram)) / len(gram))
        solved = np.linalg.solve(gram, system.T @ told)
    if expected is None:
        return area(-solved, y[people] == 1)
    return area_among_equals(-solved, y[people] == 1, expected[people])


def by_norm(derivatives: Array, y: Array) -> float:
    """How well a holder ranks people by label, by the lengths of the derivatives it got: the area under the curve.

    ``derivatives`` [people, width] of its embeddings. Where one label is rarer, its people are predicted worse and
    pull harder. Which side is which label it would guess from what is known of the people: so the better side
    counts, and 0.5 is the least.
    """
    return either_side(area(np.linalg.norm(derivatives, axis=1), y == 1))


def by_direction(derivatives: Array, y: Array) -> float:
    """The same from the directions: derivatives of one label point along a line, those of the other against it.

    The line is the first principal axis of the unit vectors, which needs no label to be known; the better side
    counts, as in :func:`by_norm`.
    """
    lengths = np.linalg.norm(derivatives, axis=1, keepdims=True)
    unit = derivatives / np.where(lengths > 0, lengths, 1.0)
    axis = np.linalg.svd(unit.T @ unit)[0][:, 0]
    return either_side(area(unit @ axis, y == 1))


def by_groups(groups: Sequence[Array], y: Array, known: Array, expected: Array | None = None) -> float:
    """How well a host of trees ranks people by label from who shares a node: the area under the curve.

    ``groups`` has, for each tree, the number of the node that each person ended in, as the host saw it; the labels
    of the people ``known`` (places) were told to it. A person's score is the mean label of the known people that
    shared its node, over all trees; only the others count. ``expected`` is as in :func:`by_equations`.
    """
    truth = (y == 1).astype(np.float64)
    score = np.zeros(len(y))
    for nodes in groups:
        _, node = np.unique(nodes, return_inverse=True)
        count = np.bincount(node[known], minlength=node.max() + 1)
        ones = np.bincount(node[known], weights=truth[known], minlength=node.max() + 1)
        score += ((ones + truth[known].mean()) / (count + 1.0))[node]
    others = np.setdiff1d(np.arange(len(y)), known)
    if expected is None:
        return area(score[others], y[others] == 1)
    return area_among_equals(score[others], y[others] == 1, expected[others])


def columns_by_scores(scores: Array, columns: Array, known: Array) -> float:
    """How well a label holder rebuilds a holder's columns from its scores: the mean share of variance explained.

    ``scores`` [people, times] are what it saw of each person over many batches. It is given the columns of the
    people ``known`` (places), fits a linear map from scores to columns on them, and is judged on the others; 0 is
    what the mean of a column does, 1 is a copy. Columns that never change are left out.
    """
    others = np.setdiff1d(np.arange(len(columns)), known)
    inputs = np.column_stack([scores, np.ones(len(scores))])
    fitted = np.linalg.lstsq(inputs[known], columns[known], rcond=1e-9)[0]
    wrong = ((inputs[others] @ fitted - columns[others]) ** 2).mean(axis=0)
    spread = columns[others].var(axis=0)
    there = spread > 0
    return float(np.clip(1.0 - wrong[there] / spread[there], 0.0, 1.0).mean()) if there.any() else 0.0


def area(scores: Array, positive: Array) -> float:
    """The area under the ROC curve: how often a positive one has the higher score, ties counting half."""
    ones = int(positive.sum())
    if ones in (0, len(positive)):
        return 0.5
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (ends - (counts - 1) / 2.0)[place]
    return float((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * (len(positive) - ones)))


def area_among_equals(scores: Array, positive: Array, expected: Array, each: int = 20) -> float:
    """The area over such pairs alone as are in one group: of about ``each`` people who expect about the same."""
    groups = max(1, min(10, len(expected) // each))
    place = np.argsort(np.argsort(expected, kind="stable"), kind="stable") * groups // len(expected)
    total = pairs = 0.0
    for group in range(groups):
        own = place == group
        count = float(positive[own].sum()) * float((~positive[own]).sum())
        total, pairs = total + count * area(scores[own], positive[own]), pairs + count
    return total / pairs if pairs else 0.5


def either_side(area: float) -> float:
    """The area of whoever may turn a ranking round: 0.5 or more."""
    return max(area, 1.0 - area)
