import numpy as np
import pytest
import torch

from tests.helpers import ENGINES, Quadratics, federation_of, one_round, quadratic_federation, rounds_by_hand
from unalike.algorithms import ALGORITHMS, QFedAvg
from unalike.errors import UserError
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

CENTRES, CURVATURES, SIZES = [[1.0, -2.0], [-3.0, 0.5], [0.0, 4.0]], [0.5, 1.0, 1.5], [4, 8, 2]


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_q_zero_is_fedavg(engine):
    fields = {"engine": engine, "dtype": "float64"}
    fair, plain = (
        play(small_simulation(text, **fields), 4).state.server["w"] for text in ("qfedavg(q=0)", "fedavg")
    )
    assert torch.allclose(fair, plain, rtol=0, atol=1e-10)


def by_hand(parties, w, q, lr, steps, lipschitz=None):
    """Algorithm 2 in numpy: every party's rows are (c, a), each step sees all of them."""
    changes, hs, lipschitz = 0.0, 0.0, lipschitz or 1 / lr
    for rows in parties:
        rows, v = np.array(rows), w.copy()
        c, a = rows[:, :-1], rows[:, -1:]
        loss = np.mean(a[:, 0] / 2 * ((w - c) ** 2).sum(axis=1))
        for _ in range(steps):
            v = v - lr * (a * (v - c)).mean(axis=0)
        change = lipschitz * (w - v)
        changes = changes + len(rows) * loss**q * change
        hs += len(rows) * (q * loss ** (q - 1) * (change**2).sum() + lipschitz * loss**q)
    return w - changes / hs


@ENGINES
@pytest.mark.parametrize("q", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("most", [2, 1024])
def test_a_round_is_the_papers(engine, q, most):
    """With rows that differ inside a party: F_k is the loss over all of them, looked at in parts of ``most``."""
    rng = np.random.default_rng(0)
    parties = [np.column_stack([rng.normal(size=(n, 2)) * 2, rng.uniform(0.5, 2, n)]).tolist() for n in (5, 3, 7)]
    federation, w = federation_of(Quadratics(2), parties), np.array([0.7, -0.4])
    how = {"work": LocalWork(7, steps=3), "lr": 0.1, "engine": engine}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unalike.rounds.local.MEASURE_ROWS", most)
        after = one_round(QFedAvg(q=q), federation, {"w": torch.from_numpy(w)}, {}, **how)["w"]
        assert torch.allclose(after, torch.from_numpy(by_hand(parties, w, q, 0.1, 3)), rtol=0, atol=1e-8)
        two = one_round(QFedAvg(q=q), federation, {"w": torch.from_numpy(w)}, {}, cohort=[0, 2], **how)["w"]
    assert torch.allclose(two, torch.from_numpy(by_hand(parties[::2], w, q, 0.1, 3)), rtol=0, atol=1e-8)


@ENGINES
@pytest.mark.parametrize("lipschitz", [1.0, 4.0])
def test_a_constant_of_ones_own_takes_the_place_of_one_over_the_rate(engine, lipschitz):
    rng = np.random.default_rng(1)
    parties = [np.column_stack([rng.normal(size=(n, 2)), rng.uniform(0.5, 2, n)]).tolist() for n in (5, 3)]
    federation, w = federation_of(Quadratics(2), parties), np.array([0.7, -0.4])
    how = {"work": LocalWork(7, steps=3), "lr": 0.1, "engine": engine}
    fair = QFedAvg(q=1.0, lipschitz=lipschitz)
    after = one_round(fair, federation, {"w": torch.from_numpy(w)}, {}, **how)["w"].numpy()
    assert np.allclose(after, by_hand(parties, w, 1.0, 0.1, 3, lipschitz), rtol=0, atol=1e-8)
    assert not np.allclose(after, by_hand(parties, w, 1.0, 0.1, 3), rtol=0, atol=1e-3)


@pytest.mark.parametrize("text", ["qfedavg(lipschitz=-1)", "qfedavg(lipschitz=inf)", "qfedavg(1, round, 2)"])
def test_constants_that_mean_nothing_are_refused(text):
    with pytest.raises(UserError, match="lipschitz"):
        ALGORITHMS.build(text)


def losses_at_the_end(q, steps=1):
    federation = quadratic_federation(CENTRES, CURVATURES, SIZES)
    how = {"work": LocalWork(8, steps=steps), "lr": 0.5}
    *_, (server, _) = rounds_by_hand(QFedAvg(q=q), federation, rounds=60, **how)
    w = server["w"].numpy()
    gaps = w - np.array(CENTRES)
    return np.array(CURVATURES) / 2 * (gaps**2).sum(axis=1), np.array(CURVATURES)[:, None] * gaps


def test_ends_where_the_fair_objective_is_stationary():
    """Without drift (one step) sum_k p_k F_k^q grad F_k, the gradient of the objective, vanishes."""
    for q in (0.0, 1.0, 3.0):
        losses, gradients = losses_at_the_end(q)
        terms = (np.array(SIZES) * losses**q)[:, None] * gradients
        assert np.abs(terms.sum(axis=0)).max() < 1e-4 * np.abs(terms).max()


def test_a_larger_q_makes_losses_more_even():
    for steps in (1, 3):
        spread = [losses_at_the_end(q, steps)[0].var() for q in (0.0, 1.0, 4.0)]
        assert spread[0] > 1.2 * spread[1] > 1.2 * spread[2]


def test_a_party_without_loss_is_no_trouble():
    """F_k = 0 and q < 1: F_k^(q-1) has no value there."""
    federation = quadratic_federation([[0.0, 0.0], [1.0, 1.0]], [1.0, 1.0], [4, 4])
    how = {"work": LocalWork(4, steps=2), "lr": 0.1}
    for server, _ in rounds_by_hand(QFedAvg(q=0.5), federation, rounds=3, **how):
        assert torch.isfinite(server["w"]).all()


def test_by_the_round_a_long_round_is_a_long_step():
    """On linear losses K steps of rate eta are one of rate K eta: with length=round the server moves the same."""

    def moved(text, **fields):
        simulation = play(small_simulation(text, sample=1.0, dtype="float64", **fields), 1)
        return (simulation.state.server["w"] - simulation.initial).norm()

    # Tiny rates: the loss is as good as linear along the way.
    many = moved("qfedavg(1, round)", epochs=None, steps=10, batch_size=64, lr=1e-7, optimiser="sgd")
    once = moved("qfedavg(1, round)", epochs=None, steps=1, batch_size=64, lr=1e-6, optimiser="sgd")
    assert float(many) == pytest.approx(float(once), rel=1e-3)
    paper = moved("qfedavg(1)", epochs=None, steps=1, batch_size=64, lr=1e-6, optimiser="sgd")
    assert float(paper) == pytest.approx(float(once), rel=1e-9)  # one step: no difference
    assert QFedAvg().length == "step"
    long = {"epochs": None, "steps": 20, "batch_size": 64, "lr": 0.1, "optimiser": "sgd"}
    assert moved("qfedavg(1, round)", **long) > 1.5 * moved("qfedavg(1)", **long)  # the square stops it
