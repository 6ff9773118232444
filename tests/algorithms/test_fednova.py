import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import ENGINES, fixed_point, one_round, optimum, quadratic_federation, slope_federation
from unalike.algorithms import FedAvg, FedNova
from unalike.errors import UserError
from unalike.rounds.optimisers import Sgd
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

CENTRES, CURVATURES = [[1.0, -2.0], [-3.0, 0.5], [0.0, 4.0], [2.0, 2.0]], [0.5, 1.0, 1.5, 2.0]
SIZES, STEPS = [8, 16, 24, 64], [1, 2, 3, 8]


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_is_fedavg_at_equal_steps(engine, rho):
    fields = {
        "epochs": None,
        "steps": 5,
        "optimiser": f"sgd(momentum={rho})",
        "engine": engine,
        "dtype": "float64",
    }
    nova, avg = (play(small_simulation(text, **fields), 4).state.server["w"] for text in ("fednova", "fedavg"))
    assert torch.allclose(nova, avg, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_is_not_fedavg_at_unequal_steps(rho):
    fields = {"optimiser": f"sgd(momentum={rho})", "dtype": "float64"}
    nova, avg = (play(small_simulation(text, **fields), 2).state.server["w"] for text in ("fednova", "fedavg"))
    assert (nova - avg).norm() > 1e-3


def distance_gone(rho, steps):
    """How far unit gradients move the weights, step by step."""
    velocity = moved = 0.0
    for _ in range(steps):
        velocity = rho * velocity + 1
        moved += velocity
    return moved


@ENGINES
@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_removes_the_bias_of_unequal_steps(engine, rho):
    """At a vanishing step size FedAvg ends where party k weighs n_k ||a_k||_1, FedNova where it weighs n_k."""
    federation = quadratic_federation(CENTRES, CURVATURES, SIZES)
    how = {"work": LocalWork(8, epochs=1), "lr": 1e-5, "engine": engine, "optimiser": Sgd(momentum=rho)}
    best = optimum(CENTRES, CURVATURES, SIZES)
    biased = optimum(CENTRES, CURVATURES, [n * distance_gone(rho, t) for n, t in zip(SIZES, STEPS, strict=True)])
    assert torch.allclose(fixed_point(FedNova(), federation, **how), best, atol=2e-3)
    assert torch.allclose(fixed_point(FedAvg(), federation, **how), biased, atol=2e-3)
    assert (best - biased).norm() > 0.1


@given(st.floats(0, 0.95), st.lists(st.integers(1, 12), min_size=3, max_size=3), st.booleans())
@settings(max_examples=25, deadline=None)
def test_the_mean_gradient_times_the_mean_step_count(rho, sizes, absent):
    """Equation 8 on constant gradients: x moves by -lr tau_eff sum p_i g_i, tau_eff = sum p_i ||a_i||_1."""
    slopes = np.array([[1.0, -2.0], [0.5, 3.0], [-4.0, 0.0]])
    federation, cohort = slope_federation(slopes, sizes), [0, 2] if absent else [0, 1, 2]
    start = torch.tensor([0.3, -0.7], dtype=torch.float64)
    how = {"work": LocalWork(2, epochs=3), "lr": 0.1, "optimiser": Sgd(momentum=rho), "cohort": cohort}
    after = one_round(FedNova(), federation, {"w": start}, {}, **how)["w"]
    p = np.array(sizes)[cohort] / np.array(sizes)[cohort].sum()
    effective = sum(share * distance_gone(rho, 3 * -(-sizes[k] // 2)) for share, k in zip(p, cohort, strict=True))
    expected = start - 0.1 * effective * torch.from_numpy(p @ slopes[cohort])
    assert torch.allclose(after, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
def test_steps_that_have_no_length_are_refused(optimiser):
    with pytest.raises(UserError, match="Use --optimiser sgd"):
        play(small_simulation("fednova", optimiser=optimiser), 1)
