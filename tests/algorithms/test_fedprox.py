import pytest
import torch

from tests.algorithms import test_fedavg
from tests.helpers import ENGINES, fixed_point, one_round, optimum, quadratic_federation, rounds_by_hand
from unalike.algorithms import FedProx
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

CENTRES, CURVATURES, SIZES = [[1.0, -2.0], [-3.0, 0.5]], [0.5, 2.0], [4, 12]


def closed_form(start, mu, lr, steps):
    """Steps on a/2 ||v - c||^2 + mu/2 ||v - w||^2 contract by 1 - lr (a + mu) to (a c + mu w) / (a + mu)."""
    total = torch.zeros(2, dtype=torch.float64)
    for c, a, n, tau in zip(CENTRES, CURVATURES, SIZES, steps, strict=True):
        goal = (a * torch.tensor(c, dtype=torch.float64) + mu * start) / (a + mu)
        total += n / sum(SIZES) * (goal + (1 - lr * (a + mu)) ** tau * (start - goal))
    return total


@ENGINES
@pytest.mark.parametrize("mu", [0.0, 0.1, 3.0])
@pytest.mark.parametrize(
    ("work", "steps"),
    [(LocalWork(4, epochs=2), [2, 6]), (LocalWork(4, steps=5), [5, 5]), (LocalWork(5, epochs=1), [1, 3])],
)
def test_a_round_has_the_closed_form(engine, mu, work, steps):
    federation = quadratic_federation(CENTRES, CURVATURES, SIZES)
    start = torch.tensor([0.7, -0.2], dtype=torch.float64)
    after = one_round(FedProx(mu=mu), federation, {"w": start}, {}, work=work, lr=0.1, engine=engine)
    assert torch.allclose(after["w"], closed_form(start, mu, 0.1, steps), rtol=0, atol=1e-12)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize("optimiser", ["sgd(momentum=0.9)", "adam"])
def test_mu_zero_is_fedavg_bit_for_bit(engine, optimiser):
    prox, avg = (
        play(small_simulation(text, engine=engine, optimiser=optimiser), 4).state.server["w"]
        for text in ("fedprox(mu=0)", "fedavg")
    )
    assert torch.equal(prox, avg)


def test_a_large_mu_keeps_parties_near():
    drift = {}
    for mu in (0.0, 1.0, 10.0):
        simulation = small_simulation(f"fedprox(mu={mu})", optimiser="sgd", epochs=10)
        after, _ = simulation.play_round()
        drift[mu] = (after.server["w"] - simulation.initial).norm().item()
    assert drift[0.0] > 1.1 * drift[1.0] > 1.1 * drift[10.0]


@ENGINES
@pytest.mark.parametrize("mu", [0.1, 2.0])
def test_ends_in_its_own_biased_fixed_point_and_not_in_the_optimum(engine, mu):
    federation = quadratic_federation(test_fedavg.CENTRES, test_fedavg.CURVATURES, test_fedavg.SIZES)
    best = optimum(test_fedavg.CENTRES, test_fedavg.CURVATURES, test_fedavg.SIZES)
    how = {"work": LocalWork(8, steps=10), "lr": 0.1, "engine": engine}
    expected = test_fedavg.biased(0.1, [10] * 4, mu)
    assert torch.allclose(fixed_point(FedProx(mu=mu), federation, **how), expected, rtol=0, atol=1e-10)
    *_, (server, _) = rounds_by_hand(FedProx(mu=mu), federation, rounds=60, **how)
    assert torch.allclose(server["w"], expected, rtol=0, atol=1e-6)
    assert (expected - best).norm() > 0.02
    without = test_fedavg.biased(0.1, [10] * 4)
    assert (expected - best).norm() < (without - best).norm()  # less drift, less bias
