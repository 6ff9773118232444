import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from unalike.algorithms import Algorithm, algorithm
from unalike.data import Dataset
from unalike.errors import UserError
from unalike.rounds.state import State
from unalike.runs.rules import Diverged
from unalike.runs.simulation import Simulation
from unalike.runs.small import play, small_simulation
from unalike.runs.spec import RunSpec


def test_cohorts_are_fair_sorted_and_the_same_for_every_algorithm():
    one, other = small_simulation("fedavg", sample=0.5), small_simulation("fedprox", sample=0.5)
    cohorts = [one.cohort(r) for r in range(1, 2001)]
    assert cohorts == [other.cohort(r) for r in range(1, 2001)]
    assert all(c == sorted(set(c)) and len(c) == 3 for c in cohorts)
    counts = np.bincount(np.concatenate(cohorts), minlength=6)
    assert abs(counts - 1000).max() < 5 * np.sqrt(2000 * 0.25)  # five standard deviations
    assert [small_simulation("fedavg", sample=0.5, seed=9).cohort(r) for r in range(1, 9)] != cohorts[:8]


@pytest.mark.parametrize(("sample", "size"), [(1.0, 6), (0.5, 3), (0.01, 1), (0.99, 6)])
def test_cohort_size(sample, size):
    assert small_simulation("fedavg", sample=sample).cohort_size == size


def test_bytes_are_vectors_times_cohort():
    simulation = small_simulation("fedavg", sample=0.5)
    _, row = simulation.play_round()
    assert row["bytes_up"] == row["bytes_down"] == 3 * simulation.task.size * 4
    double = small_simulation("fedavg", sample=0.5, dtype="float64")
    assert double.play_round()[1]["bytes_up"] == 2 * row["bytes_up"]


def test_evaluation_happens_when_asked_and_at_the_end():
    simulation = small_simulation("fedavg", evaluate_every=3)
    rows = []
    for _ in range(4):
        simulation.state, row = simulation.play_round()
        rows.append(row)
    assert ["accuracy" in row for row in rows] == [False, False, True, True]


def test_train_loss_is_the_loss_that_was_minimised():
    simulation = small_simulation("fedavg", sample=1.0, optimiser="sgd", lr=1e-12, epochs=1, batch_size=64)
    task, rows = simulation.task, simulation.federation.train
    losses, sizes = [], []
    for party in simulation.federation.parties:
        from unalike.models import Batch

        losses.append(task.loss(simulation.initial, Batch(*rows.take(torch.from_numpy(party.train)))).item())
        sizes.append(len(party.train))
    assert simulation.play_round()[1]["train_loss"] == pytest.approx(np.average(losses, weights=sizes), rel=1e-5)


def test_divergence_is_said_in_one_line():
    simulation = small_simulation("fedavg", lr=1e20)
    with pytest.raises(Diverged, match="Lower --lr"):
        play(simulation, 4)


def test_state_round_trip():
    state = State(3, {"w": torch.ones(2), "deep/name": torch.zeros(1)}, torch.zeros(0), {7: {"c": torch.ones(1)}})
    again = State.of(3, state.tensors())
    assert again.server.keys() == state.server.keys()
    assert again.parties[7]["c"] == 1
    assert again.digest() == state.digest()
    other = State(
        3, {"w": torch.tensor([1.0, 1.0000001]), "deep/name": torch.zeros(1)}, torch.zeros(0), state.parties
    )
    assert other.digest() != state.digest()


@algorithm("test-keeps-nothing")
class KeepsNothing(Algorithm):
    """Without party state."""


@algorithm("test-keeps-weights")
class KeepsWeights(Algorithm):
    """Each party keeps a vector of the model's size."""

    def init_party(self, task, w):
        return {"last": w}

    def upload(self, party, w):
        return {"delta": w - party.received["w"]}, {"last": w}


ROOT = Path(__file__).parents[2]


def crowd(parties, rows=4, features=400):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (parties * rows, features)).astype(np.uint8)
    y = rng.integers(0, 2, parties * rows)
    group = np.repeat(np.arange(parties), rows)
    names = tuple(map(str, range(parties)))
    return Dataset(
        "crowd", x, y, x[:10], y[:10], ("0", "1"), group=group, group_names=names, scale=np.float32(255)
    )


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_memory_grows_with_the_cohort_not_with_parties(engine):
    """1,000 parties, 1% in a round: tensors that live after a round are those of the server and of states."""
    live = {}
    for name in ("test-keeps-nothing", "test-keeps-weights"):
        for parties in (100, 1000):
            fields = {"partition": "natural", "model": "mlp(100)", "epochs": 1, "validation": 0, "held_out": 0}
            spec = RunSpec(**fields, algorithm=name, sample=10 / parties, engine=engine)
            simulation = play(Simulation(spec, data=crowd(parties)), 3)
            tensors = simulation.state.tensors()
            live[name, parties] = sum(t.untyped_storage().nbytes() for t in tensors.values())
            weights = simulation.task.size * 4
            taken = {k for r in (1, 2, 3) for k in simulation.cohort(r)}
            expected = weights * (1 + (len(taken) if name == "test-keeps-weights" else 0))
            assert live[name, parties] == expected
    assert live["test-keeps-nothing", 100] == live["test-keeps-nothing", 1000]


PEAK = """
import resource, sys
from tests.runs.test_simulation import crowd
from unalike.runs.small import play
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec
from unalike.errors import UserError
parties = int(sys.argv[1])
fields = {"partition": "natural", "model": "mlp(1000)", "epochs": 1, "held_out": 0.25}
spec = RunSpec(**fields, sample=10 / parties, engine=sys.argv[2])
play(Simulation(spec, data=crowd(parties)), 5)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no getrusage")
@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_peak_memory_of_a_thousand_parties(engine):
    """One weight vector a party would be 1.6 GB more: the whole process must stay within 100 MB."""
    peaks = []
    for parties in ("20", "1000"):
        command = [sys.executable, "-c", PEAK, parties, engine]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout))
    assert peaks[1] - peaks[0] < 100e6


@pytest.mark.parametrize("algorithm", ["scaffold", "scaffold(option=i)", "fednova"])
@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
def test_what_needs_sgd_is_refused_before_any_work(algorithm, optimiser):
    with pytest.raises(UserError, match="Use --optimiser sgd"):
        small_simulation(algorithm, optimiser=optimiser)


@pytest.mark.parametrize("algorithm", ["moon", "rfedavg", "rfedavg+"])
def test_what_needs_features_is_refused_where_they_have_no_weights(algorithm):
    with pytest.raises(UserError, match="would be FedAvg"):
        small_simulation(algorithm, model="logistic")


def test_the_last_round_is_evaluated_once(monkeypatch):
    from unalike.runs import run as runs
    from unalike.runs import simulation as simulations

    calls = []
    real = simulations.evaluate
    monkeypatch.setattr(simulations, "evaluate", lambda *given, **more: calls.append(1) or real(*given, **more))
    result = runs.run(dataset="digits", model="mlp(4)", rounds=3, epochs=1)
    assert len(calls) == 3
    assert len(result.figures["parties"]["each"]) == 10
