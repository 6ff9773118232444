import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import ENGINES, optimum, quadratic_federation, rounds_by_hand, slope_federation
from unalike.algorithms import FedAvg, Scaffold
from unalike.engines.sequential import Sequential
from unalike.engines.vectorised import Vectorised
from unalike.models import Batch
from unalike.rounds.optimisers import Sgd
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

_RNG = np.random.default_rng(5)
CENTRES, CURVATURES = _RNG.normal(size=(10, 3)) * 3, np.linspace(0.5, 2, 10)
SIZES = [4, 7, 12, 30, 8, 5, 21, 16, 9, 3]
WEIGHTS = {"size": SIZES, "uniform": [1] * 10}
OPTIONS = pytest.mark.parametrize("option", ["i", "ii"])
BY = pytest.mark.parametrize("weights", ["size", "uniform"])


def three_of_ten(number):
    return sorted(np.random.default_rng(number).choice(10, 3, replace=False).tolist())


def reached(algorithm, *, rounds, work=None, lr=0.15, engine=None, rho=0.0, cohort_of=None):
    """The last server, after a look at the control variates in every round."""
    federation = quadratic_federation(CENTRES, CURVATURES, SIZES)
    share = torch.tensor(WEIGHTS[algorithm.weights], dtype=torch.float64)
    server = {}
    how = {"work": work or LocalWork(30, steps=3), "lr": lr, "engine": engine, "optimiser": Sgd(momentum=rho)}
    for server, states in rounds_by_hand(algorithm, federation, rounds=rounds, cohort_of=cohort_of, **how):
        nothing = {"c": torch.zeros(3, dtype=torch.float64)}  # what a party has that never took part
        own = torch.stack([states.get(k, nothing)["c"] for k in range(10)])
        assert torch.allclose(server["c"], share @ own / share.sum(), rtol=0, atol=1e-11)
    return server


@ENGINES
@OPTIONS
@BY
@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_reaches_the_optimum_of_its_objective_and_c_stays_the_mean(engine, option, weights, rho):
    server = reached(Scaffold(option=option, weights=weights), rounds=35, engine=engine, rho=rho)
    best = optimum(CENTRES, CURVATURES, WEIGHTS[weights])
    assert torch.allclose(server["w"], best, rtol=0, atol=1e-6)
    assert server["c"].abs().max() < 1e-5  # the gradient of the whole
    other = optimum(CENTRES, CURVATURES, WEIGHTS["uniform" if weights == "size" else "size"])
    assert (best - other).norm() > 0.1


@pytest.mark.parametrize("engine", [Vectorised()], ids=["vectorised"])
@pytest.mark.parametrize(
    ("option", "weights", "rho"),
    [("i", "size", 0.5), ("i", "uniform", 0.0), ("ii", "size", 0.0), ("ii", "uniform", 0.5)],
)
def test_reaches_it_with_three_of_ten(engine, option, weights, rho):
    part = Scaffold(option=option, weights=weights)
    server = reached(part, rounds=110, engine=engine, rho=rho, cohort_of=three_of_ten)
    assert torch.allclose(server["w"], optimum(CENTRES, CURVATURES, WEIGHTS[weights]), rtol=0, atol=1e-6)


def test_three_of_ten_on_the_other_engine():
    server = reached(Scaffold(), rounds=110, engine=Sequential(), cohort_of=three_of_ten)
    assert torch.allclose(server["w"], optimum(CENTRES, CURVATURES, SIZES), rtol=0, atol=1e-6)


@ENGINES
@pytest.mark.parametrize("server_lr", [0.5, 1.5])
def test_the_servers_rate_scales_its_step_and_moves_no_optimum(engine, server_lr):
    work = LocalWork(8, epochs=1)  # parties take from one step to four
    server = reached(Scaffold(server_lr=server_lr), rounds=60, engine=engine, work=work, lr=0.25)
    assert torch.allclose(server["w"], optimum(CENTRES, CURVATURES, SIZES), rtol=0, atol=1e-6)
    one, scaled = (reached(Scaffold(server_lr=rate), rounds=1, engine=engine)["w"] for rate in (1, server_lr))
    assert torch.allclose(scaled, server_lr * one, rtol=0, atol=1e-12)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@OPTIONS
def test_control_variates_start_at_zero_so_the_first_round_is_fedavgs(engine, option):
    fields = {"engine": engine, "dtype": "float64"}
    first, second = (
        play(small_simulation(text, **fields), 1) for text in (f"scaffold(option={option})", "fedavg")
    )
    assert torch.allclose(first.state.server["w"], second.state.server["w"], rtol=0, atol=1e-14)
    later = [play(simulation, 1).state.server["w"] for simulation in (first, second)]
    assert (later[0] - later[1]).norm() > 1e-3


SLOPES = [[1.0, -2.0], [0.5, 3.0], [-4.0, 0.0]]


@given(st.floats(0, 0.95), st.integers(1, 12), st.floats(1e-3, 10))
@settings(max_examples=25, deadline=None)
def test_option_ii_is_a_mean_of_the_gradients_whatever_the_momentum(rho, steps, lr):
    """Constant gradients: every mean of them is the gradient, in the first round and in later ones."""
    federation = slope_federation(SLOPES, [2, 3, 9])
    how = {"work": LocalWork(4, steps=steps), "lr": lr, "optimiser": Sgd(momentum=rho)}
    for _, states in rounds_by_hand(Scaffold(), federation, rounds=3, **how):
        for k, slope in enumerate(SLOPES):
            assert torch.allclose(states[k]["c"], torch.tensor(slope, dtype=torch.float64), rtol=0, atol=1e-8)


@ENGINES
def test_option_ii_with_unequal_steps_and_momentum(engine):
    federation = slope_federation(SLOPES, [2, 5, 30])
    how = {"work": LocalWork(2, epochs=2), "lr": 0.1, "optimiser": Sgd(momentum=0.9), "engine": engine}
    for server, states in rounds_by_hand(Scaffold(), federation, rounds=3, **how):
        found = torch.stack([states[k]["c"] for k in range(3)])
        assert torch.allclose(found, torch.tensor(SLOPES, dtype=torch.float64), rtol=0, atol=1e-10)
        mean = np.average(SLOPES, axis=0, weights=[2, 5, 30])
        assert torch.allclose(server["c"], torch.tensor(mean), rtol=0, atol=1e-10)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_option_i_is_the_gradient_of_all_rows_at_the_received_model(engine):
    simulation = small_simulation("scaffold(option=i)", engine=engine, dtype="float64", sample=1.0, lr=0.3)
    received = play(simulation, 1).state.server["w"]
    play(simulation, 1)
    task, rng = simulation.task, torch.Generator().manual_seed(0)
    for number, party in enumerate(simulation.federation.parties):
        batch = Batch(*simulation.federation.train.take(torch.from_numpy(party.train)))
        for _ in range(3):
            way = torch.randn(task.size, dtype=torch.float64, generator=rng)
            ends = [task.loss(received + h * way, batch) for h in (1e-6, -1e-6)]
            slope = float(ends[0] - ends[1]) / 2e-6
            assert float(simulation.state.parties[number]["c"].dot(way)) == pytest.approx(slope, abs=1e-6)


def test_one_step_over_all_rows_makes_the_options_equal():
    fields = {"epochs": 1, "batch_size": 64, "optimiser": "sgd", "dtype": "float64"}
    one, two = (play(small_simulation(f"scaffold(option={o})", **fields), 4).state for o in ("i", "ii"))
    assert torch.allclose(one.server["w"], two.server["w"], rtol=0, atol=1e-12)
    for number, state in one.parties.items():
        assert torch.allclose(state["c"], two.parties[number]["c"], rtol=0, atol=1e-10)


def test_absent_parties_keep_their_control_variate():
    federation = quadratic_federation(CENTRES, CURVATURES, SIZES)
    how = {"work": LocalWork(30, steps=3), "lr": 0.15, "cohort_of": three_of_ten}
    before = {}
    for number, (_, states) in enumerate(rounds_by_hand(Scaffold(), federation, rounds=8, **how), 1):
        for k, state in before.items():
            assert torch.equal(state["c"], states[k]["c"]) == (k not in three_of_ten(number))
        before = dict(states)


def test_twice_fedavgs_bytes():
    _, row = small_simulation("scaffold").play_round()
    _, plain = small_simulation("fedavg").play_round()
    for way in ("up", "down"):
        assert row[f"bytes_{way}"] == 2 * plain[f"bytes_{way}"]
        assert set(row["traffic"][way].values()) == {plain[f"bytes_{way}"]}


def test_fedavg_misses_the_optimum():
    federation = quadratic_federation(CENTRES, CURVATURES, SIZES)
    how = {"work": LocalWork(30, steps=3), "lr": 0.15}
    *_, (server, _) = rounds_by_hand(FedAvg(), federation, rounds=35, **how)
    assert (server["w"] - optimum(CENTRES, CURVATURES, SIZES)).norm() > 0.05
