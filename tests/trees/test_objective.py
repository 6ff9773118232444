"""Losses and derivatives: right, on the grid, and refused where sums could overflow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.errors import UserError
from unalike.models.trees import Trees
from unalike.trees.arithmetic import GRID, exp, log
from unalike.trees.objective import objective_of

NAMES = [("binary", 2), ("softmax", 4), ("squared-error", 0), ("poisson", 0)]


def labelled(name, classes, rows=50):
    random = np.random.default_rng(1)
    objective = objective_of(Trees(objective=name), classes, (2.0, 3.0))
    y = random.integers(0, classes, rows) if classes else random.poisson(3.0, rows).astype(float)
    return objective, random.normal(size=(rows, objective.outputs)), y


@given(st.floats(-690, 690))
def test_exp(x):
    assert exp(np.array([x]))[0] == pytest.approx(np.exp(x), rel=1e-14)


@given(st.floats(1e-300, 1e300))
def test_log(x):
    assert log(np.array([x]))[0] == pytest.approx(np.log(x), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize(("name", "classes"), NAMES)
def test_gradients_are_the_slopes_of_the_losses(name, classes):
    objective, margins, y = labelled(name, classes)
    g, h = objective.gradients(margins, y)
    assert g.dtype == h.dtype == np.int32
    assert g.shape == (objective.outputs, len(y))
    for k in range(objective.outputs):
        step = np.zeros_like(margins)
        step[:, k] = 1e-5
        slope = (objective.row_losses(margins + step, y) - objective.row_losses(margins - step, y)) / 2e-5
        assert np.abs(g[k] / GRID - slope).max() < 1e-5
        assert (h[k] >= 0).all()


@pytest.mark.parametrize(("name", "classes"), NAMES)
def test_losses_add_exactly(name, classes):
    objective, margins, y = labelled(name, classes)
    parts = objective.losses(margins[:20], y[:20]) + objective.losses(margins[20:], y[20:])
    assert objective.losses(margins, y) == parts
    assert parts / GRID == pytest.approx(objective.row_losses(margins, y).sum(), abs=1e-4)


@pytest.mark.parametrize(("name", "classes"), NAMES)
def test_the_base_is_the_best_constant(name, classes):
    objective, _, y = labelled(name, classes)
    base = objective.base(objective.sums(y))
    assert np.array_equal(np.rint(base * GRID), base * GRID)
    best = objective.losses(np.tile(base, (len(y), 1)), y)
    for k in range(objective.outputs):
        for step in (-0.01, 0.01):
            other = base.copy()
            other[k] += step
            assert objective.losses(np.tile(other, (len(y), 1)), y) > best


@pytest.mark.parametrize(("name", "classes"), NAMES)
def test_weights_count_rows(name, classes):
    objective, margins, y = labelled(name, classes)
    g, _ = objective.gradients(margins, y)
    doubled, _ = objective.gradients(margins, y, np.full(len(y), 2.0))
    assert np.abs(doubled - 2 * g).max() <= 1


def test_a_class_without_rows_has_a_finite_base():
    assert np.isfinite(objective_of(Trees(), 2).base(np.array([5, 0]))).all()
    assert np.isfinite(objective_of(Trees(), 3).base(np.array([5, 0, 2]))).all()


def test_predictions():
    binary, softmax = objective_of(Trees(), 2), objective_of(Trees(), 3)
    assert binary.predict(np.array([[-1.0], [1.0]])).tolist() == [0, 1]
    assert softmax.predict(np.array([[0.0, 2.0, 1.0]])).tolist() == [1]
    assert softmax.probabilities(np.array([[0.0, 2.0, 1.0]])).sum() == pytest.approx(1)
    number = objective_of(Trees(), 0, (10.0, 2.0))
    assert number.predict(np.array([[1.5]])).tolist() == [13.0]


@pytest.mark.parametrize(
    ("name", "classes", "problem"),
    [
        ("binary", 3, "needs 2 classes"),
        ("softmax", 0, "does not fit numbers"),
        ("poisson", 2, "does not fit 2 .* task=regression"),
    ],
)
def test_objectives_that_do_not_fit(name, classes, problem):
    with pytest.raises(UserError, match=problem):
        objective_of(Trees(objective=name), classes)


def test_too_great_targets():
    objective = objective_of(Trees(), 0)
    with pytest.raises(UserError, match="row 1 pulls with"):
        objective.gradients(np.zeros((2, 1)), np.array([0.0, 5000.0]))
    with pytest.raises(UserError, match="row 0 pulls"):
        objective.gradients(np.zeros((1, 1)), np.array([np.nan]))
    with pytest.raises(UserError, match="counts of 0 or more, got -1"):
        objective_of(Trees(objective="poisson"), 0).gradients(np.zeros((1, 1)), np.array([-1.0]))
    with pytest.raises(UserError, match="no probabilities"):
        objective.probabilities(np.zeros((1, 1)))


@pytest.mark.parametrize(("name", "target"), [("squared-error", 1e7), ("poisson", 1e14)])
def test_a_loss_that_could_overflow_a_sum_is_refused(name, target):
    """Else it would be the least of all losses, and end the training with no tree."""
    objective = objective_of(Trees(objective=name), 0)
    margins, y = np.full((2, 1), 3.0), np.array([1.0, target])
    with pytest.raises(UserError, match="a validation row has a loss of"):
        objective.losses(margins, y)
    assert objective.losses(margins[:1], y[:1]) != 0
