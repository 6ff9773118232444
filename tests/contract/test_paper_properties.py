"""The contract carries the papers: their proven properties hold for algorithms written against it."""

import numpy as np
import pytest
import torch

from tests.contract.paper_algorithms import FedNova, FedPer, Ifca, Scaffold
from tests.helpers import one_round, quadratic_federation
from unalike.algorithms import FedAvg
from unalike.engine.check import play, small_simulation
from unalike.engine.optimisers import Sgd
from unalike.engine.sequential import Sequential
from unalike.engine.vectorised import Vectorised
from unalike.engine.work import LocalWork

ENGINES = pytest.mark.parametrize("engine", [Sequential(), Vectorised()], ids=["sequential", "vectorised"])
CENTRES = [[1.0, -2.0], [-3.0, 0.5], [0.0, 4.0], [2.0, 2.0]]
CURVATURES = [0.5, 1.0, 1.5, 2.0]


def optimum(sizes):
    a = np.array(CURVATURES) * np.array(sizes)
    return torch.tensor(a @ np.array(CENTRES) / a.sum())


def play_quadratics(algorithm, sizes, *, rounds, work, engine, optimiser=None, cohort=None, lr=0.1):
    federation = quadratic_federation(CENTRES, CURVATURES, sizes)
    server = algorithm.init_server(federation.task, torch.zeros(2, dtype=torch.float64))
    states = {}
    for number in range(rounds):
        now = None if cohort is None else cohort(number)
        server = one_round(
            algorithm, federation, server, states, work=work, lr=lr, optimiser=optimiser, cohort=now, engine=engine
        )
        if "c" in server:  # the server's control variate stays the mean of the parties'
            own = [states[k]["c"] for k in states]
            absent = len(CENTRES) - len(own)  # still zero
            assert torch.allclose(server["c"], sum(own) / (len(own) + absent), atol=1e-12)
    return server["w"]


@ENGINES
@pytest.mark.parametrize("optimiser", [Sgd(), Sgd(momentum=0.5)], ids=["plain", "momentum"])
def test_scaffold_reaches_the_optimum_where_fedavg_does_not(engine, optimiser):
    common = {"rounds": 100, "work": LocalWork(8, steps=5), "engine": engine, "optimiser": optimiser}
    reached = play_quadratics(Scaffold(), [8] * 4, **common)
    assert torch.allclose(reached, optimum([8] * 4), atol=1e-6)
    missed = play_quadratics(FedAvg(), [8] * 4, **common)
    assert (missed - optimum([8] * 4)).norm() > 0.1


@ENGINES
def test_scaffold_with_two_of_four_parties(engine):
    def cohort(number):
        return [[0, 1], [2, 3], [0, 2], [1, 3]][number % 4]

    reached = play_quadratics(
        Scaffold(), [8] * 4, rounds=250, work=LocalWork(8, steps=5), engine=engine, cohort=cohort
    )
    assert torch.allclose(reached, optimum([8] * 4), atol=1e-6)


@ENGINES
@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_fednova_is_fedavg_at_equal_steps(engine, rho):
    common = {"rounds": 3, "work": LocalWork(8, steps=5), "engine": engine, "optimiser": Sgd(momentum=rho)}
    assert torch.allclose(
        play_quadratics(FedNova(), [8, 16, 24, 32], **common), play_quadratics(FedAvg(), [8, 16, 24, 32], **common)
    )


def fixed_point(algorithm, sizes, work, lr, engine):
    """Where rounds lead: on quadratics a round is an affine map, so three rounds tell its fixed point."""
    federation = quadratic_federation(CENTRES, CURVATURES, sizes)

    def after(w):
        server = {"w": torch.tensor(w, dtype=torch.float64)}
        return one_round(algorithm, federation, server, {}, work=work, lr=lr, engine=engine)["w"]

    b = after([0.0, 0.0])
    a = torch.stack([after([1.0, 0.0]) - b, after([0.0, 1.0]) - b], dim=1)
    return torch.linalg.solve(torch.eye(2, dtype=torch.float64) - a, b)


@ENGINES
def test_fednova_removes_the_bias_of_unequal_steps(engine):
    """At a vanishing step size FedAvg ends where party k weighs n_k tau_k, FedNova where it weighs n_k."""
    sizes = [8, 16, 24, 64]  # one, two, three and eight steps
    at = {"sizes": sizes, "work": LocalWork(8, epochs=1), "lr": 1e-5, "engine": engine}
    assert torch.allclose(fixed_point(FedNova(), **at), optimum(sizes), atol=1e-3)
    assert torch.allclose(fixed_point(FedAvg(), **at), optimum([n * n for n in sizes]), atol=1e-3)
    assert (optimum(sizes) - optimum([n * n for n in sizes])).norm() > 0.1


def test_rfedavg_plus_measures_all_rows_of_the_new_model():
    simulation = play(small_simulation("test-rfedavg+", sample=1.0), 2)
    task, state = simulation.task, simulation.state
    phi = []
    for party in simulation.federation.parties:
        x, _ = simulation.federation.train.take(torch.from_numpy(party.train))
        body = task.slices["body"]
        layers = task.parameters.unflatten(state.server["w"])
        for i in (0, 2):  # the body by hand: linear, ReLU, linear, ReLU
            x = torch.relu(x @ layers[f"body.{i}.weight"].T + layers[f"body.{i}.bias"])
        assert body == slice(0, sum(v.numel() for k, v in layers.items() if k.startswith("body")))
        phi.append(x.mean(dim=0))
    assert torch.allclose(state.server["sum"], sum(phi), atol=1e-5)
    assert state.server["count"] == len(phi)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_rfedavg_plus_keeps_the_last_feature_of_absent_parties(engine):
    simulation = play(small_simulation("test-rfedavg+", sample=0.5, engine=engine), 4)
    states = simulation.state.parties.values()
    assert torch.allclose(simulation.state.server["sum"], sum(state["phi"] for state in states), atol=1e-6)
    assert simulation.state.server["count"] == len(states)


def test_noise_is_the_same_on_both_engines_and_new_in_each_round():
    sums = {}
    for engine in ("sequential", "vectorised"):
        simulation = small_simulation(
            "test-rfedavg+(noise=1.0)", sample=1.0, engine=engine, dtype="float64", lr=1e-9
        )
        sums[engine] = []
        for _ in range(2):
            play(simulation, 1)
            sums[engine].append(simulation.state.server["sum"])
    for one, other in zip(*sums.values(), strict=True):
        assert torch.allclose(one, other, atol=1e-9)
    assert (sums["sequential"][0] - sums["sequential"][1]).norm() > 0.1


def test_fedrep_trains_one_part_at_a_time():
    """Phase by phase: with the body's phase left out the body stays, and weight decay moves nothing frozen."""
    fields = {"sample": 1.0, "optimiser": "sgd(weight_decay=0.5)"}
    simulation = small_simulation("test-fedrep", **fields)
    first, _ = simulation.play_round()
    assert not torch.equal(first.server["w"], simulation.initial)
    frozen = small_simulation("test-fedrep", **fields)
    object.__setattr__(frozen.algorithm, "correct", lambda party, w, grad: grad * 0)
    after, row = frozen.play_round()
    assert torch.equal(after.server["w"], frozen.initial)
    body = simulation.task.slices["body"]
    assert row["bytes_up"] == 2 * 6 * (body.stop - body.start) * 4  # both exchanges count


def test_ditto_without_pull_is_training_alone_and_its_shared_model_is_fedavgs():
    ditto = play(small_simulation("test-ditto(lam=0)", sample=1.0, optimiser="sgd", dtype="float64"), 2)
    shared = play(small_simulation("fedavg", sample=1.0, optimiser="sgd", dtype="float64"), 2)
    assert torch.allclose(ditto.state.server["w"], shared.state.server["w"], atol=1e-10)
    near = play(small_simulation("test-ditto(lam=5)", sample=1.0, optimiser="sgd", dtype="float64"), 2)
    gap = {
        name: sum(float((s["personal"] - run.state.server["w"]).norm()) for s in run.state.parties.values())
        for name, run in (("free", ditto), ("pulled", near))
    }
    assert gap["pulled"] < gap["free"]


def test_fedper_keeps_heads_at_home():
    simulation = play(small_simulation("test-fedper", sample=1.0), 2)
    _, row = simulation.play_round()
    body, head = (simulation.task.slices[k] for k in ("body", "head"))
    assert row["bytes_up"] == simulation.federation.size * (body.stop - body.start) * 4
    assert torch.equal(simulation.state.server["w"][head], simulation.initial[head])
    heads = torch.stack([s["head"] for s in simulation.state.parties.values()])
    assert (heads[0] != heads[1]).any()
    assert row["accuracy"] is None
    assert row["personal"]["count"] > 0
    assert FedPer().overrides("personal")


def test_ifca_separates_opposed_parties():
    """Two groups of parties with different optima end in different clusters, each at its group's optimum."""
    centres, curvatures = [[1.0, 1.0]] * 3 + [[-1.0, -1.0]] * 3, [1.0] * 6
    federation = quadratic_federation(centres, curvatures, [4] * 6)
    server = {"w": torch.tensor([[0.3, 0.1], [-0.2, -0.1]], dtype=torch.float64)}
    states = {}
    for _ in range(60):
        server = one_round(Ifca(), federation, server, states, work=LocalWork(4, steps=3), lr=0.1)
    assert torch.allclose(server["w"], torch.tensor([[1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64), atol=1e-6)
    assert [states[k]["member"].tolist() for k in range(6)] == [[1, 0]] * 3 + [[0, 1]] * 3


def test_feddf_trains_on_the_server():
    with_server = play(small_simulation("test-feddf(distil_steps=3)"), 1)
    without = play(small_simulation("test-feddf(distil_steps=0)"), 1)
    plain = play(small_simulation("fedavg"), 1)
    assert torch.allclose(without.state.server["w"], plain.state.server["w"], atol=1e-6)
    assert not torch.allclose(with_server.state.server["w"], plain.state.server["w"], atol=1e-6)
