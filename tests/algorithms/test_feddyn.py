"""FedDyn on quadratics with different curvatures, whose common optimum FedAvg misses."""

import numpy as np
import pytest
import torch

from tests.helpers import ENGINES, EVERY_ENGINE, one_round, optimum, quadratic_federation, rounds_by_hand
from unalike.algorithms import ALGORITHMS, FedAvg, FedDyn
from unalike.errors import UserError
from unalike.rounds.optimisers import Sgd
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

_RNG = np.random.default_rng(5)
CENTRES, CURVATURES = _RNG.normal(size=(5, 3)) * 3, np.linspace(0.5, 2, 5)
SIZES = [4, 30, 8, 5, 21]
WEIGHTS = {"size": SIZES, "uniform": [1] * 5}
BY = pytest.mark.parametrize("weights", ["size", "uniform"])


def two_of_five(number):
    return sorted(np.random.default_rng(number).choice(5, 2, replace=False).tolist())


def reached(algorithm, *, rounds, engine=None, rho=0.0, cohort_of=None, work=None, lr=0.15):
    """The last server; in every round h is the mean of all parties' gradients, absent ones included."""
    federation = quadratic_federation(CENTRES, CURVATURES, SIZES)
    share = torch.tensor(WEIGHTS[getattr(algorithm, "weights", "size")], dtype=torch.float64)
    how = {"work": work or LocalWork(30, steps=5), "lr": lr, "engine": engine, "optimiser": Sgd(momentum=rho)}
    server, nothing = {}, {"gradient": torch.zeros(3, dtype=torch.float64)}
    for server, states in rounds_by_hand(algorithm, federation, rounds=rounds, cohort_of=cohort_of, **how):
        if "h" in server:
            own = torch.stack([states.get(k, nothing)["gradient"] for k in range(5)])
            assert torch.allclose(server["h"], share @ own / share.sum(), rtol=0, atol=1e-9)
    return server


@ENGINES
@pytest.mark.parametrize(("weights", "rho"), [("uniform", 0.0), ("size", 0.5)])
def test_reaches_the_optimum_of_its_objective(engine, weights, rho):
    server = reached(FedDyn(alpha=1.0, weights=weights), rounds=60, engine=engine, rho=rho)
    best = optimum(CENTRES, CURVATURES, WEIGHTS[weights])
    assert torch.allclose(server["w"], best, rtol=0, atol=1e-6)
    assert server["h"].abs().max() < 1e-5
    other = optimum(CENTRES, CURVATURES, WEIGHTS["uniform" if weights == "size" else "size"])
    assert (best - other).norm() > 0.1


def test_fedavg_misses_it():
    assert (reached(FedAvg(), rounds=60)["w"] - optimum(CENTRES, CURVATURES, SIZES)).norm() > 0.1


@BY
def test_reaches_it_with_two_of_five(weights):
    algorithm = FedDyn(alpha=1.0, weights=weights)
    server = reached(algorithm, rounds=120, cohort_of=two_of_five, work=LocalWork(30, steps=8))
    assert torch.allclose(server["w"], optimum(CENTRES, CURVATURES, WEIGHTS[weights]), rtol=0, atol=1e-5)


@BY
def test_reaches_it_where_parties_take_more_steps_than_others(weights):
    """Two epochs in batches of four: from 2 to 16 steps, which change nothing in how much a party counts."""
    server = reached(FedDyn(alpha=1.0, weights=weights), rounds=120, work=LocalWork(4, epochs=2))
    assert torch.allclose(server["w"], optimum(CENTRES, CURVATURES, WEIGHTS[weights]), rtol=0, atol=1e-5)


@ENGINES
def test_a_partys_memory_becomes_its_gradient(engine):
    """Where local training is long enough, g_k is the gradient at where the party ended."""
    federation = quadratic_federation(CENTRES, CURVATURES, SIZES)
    w, states = torch.zeros(3, dtype=torch.float64), {}
    server = {"w": w, "h": torch.full_like(w, 0.0)}
    how = {"work": LocalWork(30, steps=120), "lr": 0.2, "engine": engine}
    for number in (1, 2):
        received = server["w"]
        before = {k: state["gradient"] for k, state in states.items()}
        server = one_round(FedDyn(alpha=0.7), federation, server, states, number=number, **how)
        for k, (centre, a) in enumerate(zip(torch.tensor(CENTRES), CURVATURES, strict=True)):
            kept = before.get(k, torch.zeros_like(w))
            end = (a * centre + kept + 0.7 * received) / (a + 0.7)
            assert torch.allclose(states[k]["gradient"], a * (end - centre), atol=1e-8)


@EVERY_ENGINE
@pytest.mark.parametrize("alpha", [0.5, 1e-6])
def test_round_one_goes_twice_as_far_as_fedprox(engine, alpha):
    """With everybody there, h / alpha is minus the mean update; as alpha goes to 0, FedProx is FedAvg."""
    fields = {"engine": engine, "sample": 1.0}
    dynamic = play(small_simulation(f"feddyn(alpha={alpha}, weights=size)", **fields), 1)
    near = play(small_simulation(f"fedprox(mu={alpha})", **fields), 1)
    update = near.state.server["w"] - near.initial
    assert torch.allclose(dynamic.state.server["w"] - dynamic.initial, 2 * update, atol=1e-5)
    if alpha < 1e-3:
        average = play(small_simulation("fedavg", **fields), 1).state.server["w"]
        assert torch.allclose(near.state.server["w"], average, atol=1e-5)


def test_a_large_alpha_holds_the_parties_at_the_received_model():
    how = {"rounds": 1, "lr": 1e-4, "work": LocalWork(30, steps=50)}
    far, near = (reached(FedDyn(alpha=alpha), **how)["w"].norm() for alpha in (1.0, 1e4))
    assert near < 0.1 * far


def test_absent_parties_keep_their_gradient():
    simulation = small_simulation("feddyn", sample=0.5)
    for _ in range(3):
        before = dict(simulation.state.parties)
        play(simulation, 1)
        for number in set(before) - set(simulation.cohort(simulation.state.round)):
            assert torch.equal(before[number]["gradient"], simulation.state.parties[number]["gradient"])


def test_it_trains_whole_in_the_kernels():
    assert not FedDyn.overrides("loss", "correct")


@pytest.mark.parametrize("text", ["alpha=0", "alpha=-1", "alpha=nan", "alpha=inf", "weights=steps"])
def test_what_means_nothing_is_refused(text):
    with pytest.raises(UserError, match=text.split("=")[0]) as caught:
        ALGORITHMS.build(f"feddyn({text})")
    assert len(str(caught.value).splitlines()) == 1
