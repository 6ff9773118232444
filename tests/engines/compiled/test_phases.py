"""Phases that train a part, and proximal terms with a strength for each weight, run whole in one call."""

import pytest
import torch

from tests.engines.compiled.helpers import NEEDS_COMPILER
from unalike.algorithms.contract import Phase
from unalike.algorithms.fedprox import FedProx
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

pytestmark = NEEDS_COMPILER


def play(engine, **fields):
    """The vector, the mean loss and the start after a round with two parties."""
    spec = RunSpec(
        dataset="digits",
        model="mlp(6,4)",
        parties=2,
        rounds=1,
        steps=5,
        algorithm="fedprox",
        engine=engine,
        **fields,
    )
    simulation = Simulation(spec, say=lambda line: None)
    assert simulation.engine.name == engine
    before = simulation.state.server["w"]
    after, row = simulation.play_round()
    return after.server["w"], row["train_loss"], before, simulation.task


@pytest.fixture
def whole(monkeypatch):
    """Plays a round on both engines; the compiled one may take no step in Python."""

    def compare(**fields):
        expected = play("sequential", **fields)
        with monkeypatch.context() as patch:
            patch.setattr("unalike.rounds.local.descend", None)
            made = play("compiled", **fields)
        assert torch.allclose(made[0], expected[0], rtol=1e-4, atol=1e-6)
        assert made[1] == pytest.approx(expected[1], rel=1e-5)
        return made

    return compare


def strengths(algorithm, party):
    return torch.linspace(0, 2, party.task.size), 0.5 * party.received["w"]


@pytest.mark.parametrize("part", ["head", "body", "body.1", "head.bias"])
def test_a_part(whole, monkeypatch, part):
    monkeypatch.setattr(FedProx, "phases", lambda self, task, round: (Phase(trains=part),))
    monkeypatch.setattr(FedProx, "proximal", strengths)
    w, _, before, task = whole(optimiser="sgd(momentum=0.9, weight_decay=0.1)")
    moved = (w != before).nonzero().flatten()
    span = task.slices[part]
    assert span.start <= moved.min() <= moved.max() < span.stop


def test_a_strength_for_each_weight(whole, monkeypatch):
    plain, *_ = whole()
    monkeypatch.setattr(FedProx, "proximal", strengths)
    each, *_ = whole()
    assert not torch.allclose(plain, each, atol=1e-4)
