"""Quasi-Newton steps of split columns: the optimum, whoever has the columns, in a few exchanges."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.algorithms.vertical.checking import check_columns
from tests.algorithms.vertical.talking import people, roles_of, terms_of
from tests.algorithms.vertical.test_linear import trained, vertical
from unalike.algorithms import ALGORITHMS
from unalike.algorithms.protocol import Turn, WrongMail
from unalike.errors import UserError
from unalike.vertical.curvature import best_step, combination
from unalike.vertical.objectives import loss_of


def quasi_newton(**fields):
    return replace(ALGORITHMS.build("quasi-newton"), **fields)


@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("l2", [0.01, 0.3])
def test_it_finds_the_optimum_that_scipy_finds(classes, l2):
    blocks, y = people(300, (4, 3, 5), classes)
    roles, states, spoken = trained(quasi_newton(l2=l2), blocks, y, classes=classes, rounds=5, steps=8)
    terms, x = roles[0].terms, np.concatenate(blocks, axis=1)
    loss, outputs = loss_of(classes, terms.target), 1 if classes in (0, 2) else classes

    def function(flat):
        w = flat.reshape(13, outputs)
        z = x @ w[:-1] + w[-1]
        r = loss.residual(z, y) / len(y)
        value = loss.row_losses(z, y).mean() + l2 / 2 * (w[:-1] ** 2).sum()
        return value, np.concatenate([x.T @ r + l2 * w[:-1], r.sum(0)[None]]).ravel()

    best = minimize(function, np.zeros(13 * outputs), jac=True, method="BFGS", options={"gtol": 1e-10})
    parts = [states[k]["weights"] for k in (0, 1, 2)]
    own = np.concatenate([parts[0][:-1], parts[1], parts[2], parts[0][-1:]])
    assert function(own.ravel())[0] <= best.fun + 1e-10
    assert np.abs(function(own.ravel())[1]).max() < 1e-5
    losses = [one.figures["train_loss"] for one in spoken[1:]]
    assert losses[-1] == pytest.approx(loss.row_losses(x @ own[:-1] + own[-1], y).mean(), rel=1e-12)


def test_a_quadratic_takes_as_many_steps_as_it_has_weights():
    """With exact steps they are conjugate, whatever the scales of columns: gradient descent would crawl."""
    blocks, y = people(200, (2, 2), 0)
    blocks = [block * [1.0, 8.0] for block in blocks]
    roles, states, _ = trained(quasi_newton(), blocks, y, classes=0, rounds=1, steps=6)
    x, (shift, scale) = np.concatenate(blocks, axis=1), roles[0].terms.target
    best, *_ = np.linalg.lstsq(np.column_stack([x, np.ones(200)]), (y - shift) / scale, rcond=None)
    own = np.concatenate([states[0]["weights"][:-1], states[1]["weights"], states[0]["weights"][-1:]])
    assert np.abs(own[:, 0] - best).max() < 1e-8


def test_it_does_not_matter_who_has_the_columns():
    whole, y = people(200, (9,))
    _, kept, _ = trained(quasi_newton(l2=0.1), whole, y, rounds=2, steps=4)
    _, states, spoken = trained(quasi_newton(l2=0.1), np.split(whole[0], [2, 5], axis=1), y, rounds=2, steps=4)
    parts = [states[k]["weights"] for k in (0, 1, 2)]
    assert np.abs(np.concatenate([parts[0][:-1], *parts[1:], parts[0][-1:]]) - kept[0]["weights"]).max() < 1e-9
    assert spoken[1].turns == 4 * 4 + 2


def test_it_needs_far_fewer_exchanges_than_gradient_descent():
    blocks, y = people(3000, (6, 6, 6), seed=4)
    blocks = [block * np.linspace(0.2, 2, 6) for block in blocks]
    _, _, spoken = trained(quasi_newton(), blocks, y, rounds=20, steps=1)
    quick = [one.figures["train_loss"] for one in spoken[1:]]
    _, _, spoken = trained(vertical(protect="clear"), blocks, y, rounds=20, steps=20, batch_size=300, lr=0.5)
    slow = [one.figures["train_loss"] for one in spoken[1:]]
    goal = min(slow)
    exchanges = 2 * next(number for number, loss in enumerate(quick, 1) if loss <= goal)
    assert exchanges <= 20 * (1 + slow.index(goal)) / 10


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_it_holds_the_contract_of_columns(classes):
    blocks, y = people(60, (3, 4, 2), classes)
    check_columns(quasi_newton(memory=3, l2=0.1), blocks, y, classes=classes, rounds=3, steps=2, label_holder=1)


def test_a_direction_is_that_of_bfgs():
    """Against the inverse Hessian written out: H+ = (I - rho s v^T) H (I - rho v s^T) + rho s s^T."""
    random = np.random.default_rng(0)
    a = random.normal(size=(6, 6))
    a = a @ a.T + np.eye(6)
    moves = random.normal(size=(4, 6))
    changes, g = moves @ a, random.normal(size=6)
    vectors = np.concatenate([moves, changes, g[None]])
    for known in range(5):
        h = np.eye(6)
        if known:
            h *= (moves[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
        for j in range(4 - known, 4):
            rho = 1 / (moves[j] @ changes[j])
            left = np.eye(6) - rho * np.outer(moves[j], changes[j])
            h = left @ h @ left.T + rho * np.outer(moves[j], moves[j])
        found = combination(vectors @ vectors.T, 4, known) @ vectors
        assert np.abs(found + h @ g).max() < 1e-9 * np.abs(h @ g).max()


@pytest.mark.parametrize("where", [1e-3, 0.7, 1.0, 5.0, 900.0])
def test_the_best_step_is_where_the_slope_is_zero(where):
    assert best_step(lambda t: t - where) == pytest.approx(where, rel=1e-8)
    assert best_step(lambda t: np.tanh(t - where)) == pytest.approx(where, rel=1e-8)
    assert best_step(lambda t: np.arctan(t**3 - where**3)) == pytest.approx(where, rel=1e-6)
    assert best_step(lambda t: t + where) == 0.0


@pytest.mark.parametrize(
    ("turn", "mail"),
    [
        (1, {"step": np.array([np.nan]), "residual": np.zeros((40, 1))}),
        (3, {"combination": np.full(21, np.inf)}),
        (5, {"step": np.array([1e200])}),
    ],
)
def test_numbers_that_are_none_are_the_label_holders_fault(turn, mail):
    blocks, y = people(40, (2, 2))
    roles = roles_of(terms_of(blocks, y), blocks, y)
    with pytest.raises(WrongMail, match="Party 0"):
        quasi_newton().step(roles[2], quasi_newton().start(roles[2]), Turn(1, turn), {0: mail})


@pytest.mark.parametrize(("fields", "what"), [({"memory": 0}, "memory must be"), ({"l2": -0.1}, "l2 must be")])
def test_what_means_nothing_is_refused(fields, what):
    with pytest.raises(UserError, match=what):
        quasi_newton(**fields)
