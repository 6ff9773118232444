"""Every registered model takes part in a run, on both engines where a stack can compute it."""

import numpy as np
import pytest

from unalike.data import Dataset
from unalike.models import MODELS
from unalike.runs.meaning import is_grown
from unalike.runs.simulation import Simulation
from unalike.runs.small import distance, play
from unalike.runs.spec import RunSpec

WORDS = ("<pad>", "<unknown>", "a", "b", "c")
SMALL = {
    "lstm": "lstm(hidden=6, width=4, features=5)",
    "token-mlp": "token-mlp(words=5, width=4, hidden=6)",
    "resnet18": "resnet18(norm=group)",
    "resnet50": "resnet50(norm=group, groups=4)",
}
RUNS = sorted(
    entry.name
    for entry in MODELS
    if entry.cls.__module__.startswith("unalike.") and entry.cls.__module__ != "unalike.models.own"
    if not is_grown(entry.cls)
)


@pytest.fixture(autouse=True)
def _narrow_residual_nets(monkeypatch):
    monkeypatch.setattr("unalike.models.resnet._WIDTHS", (4, 8, 12, 16))  # 64 to 512 channels would take seconds


def data_for(text):
    """Parties of five rows and of one: in a stack, a batch that is mostly padding."""
    rng, model = np.random.default_rng(1), MODELS.build(text)
    side = 16 if text in ("simple-cnn", "fedrep-cnn") else 9
    y, group = rng.integers(0, 2, 6), np.repeat([0, 1], [5, 1])
    if getattr(model, "reads", "numbers") == "tokens":
        x, kind = rng.integers(0, len(WORDS), (6, 6)).astype(np.int32), "tokens"
    else:
        x, kind = rng.normal(size=(6, 1, side, side)).astype(np.float32), "numbers"
    return Dataset("small", x, y, x[:3], y[:3], ("no", "yes"), WORDS, group, ("one", "two"), kind=kind)


def tensors_after(text, engine, data):
    spec = RunSpec(
        partition="natural", model=text, rounds=1, steps=1, batch_size=8, lr=0.01, dtype="float64", engine=engine,
        validation=0, held_out=0,
    )  # fmt: skip
    said = []
    simulation = Simulation(spec, data=data, say=said.append)
    before = simulation.state.tensors()
    after = play(simulation, 1).state.tensors()
    assert distance(before, after)[0] > 0
    return after, said


@pytest.mark.parametrize("name", RUNS)
def test_a_round_on_both_engines(name):
    text = SMALL.get(name, name)
    data = data_for(text)
    sequential, _ = tensors_after(text, "sequential", data)
    vectorised, said = tensors_after(text, "vectorised", data)
    assert len(said) == (name == "lstm"), said
    assert distance(sequential, vectorised)[0] < 1e-10


def test_batch_norm_runs_one_by_one():
    """The batch of one row included."""
    for name in ("resnet18", "resnet50"):
        after, said = tensors_after(name, "vectorised", data_for(name))
        assert "BatchNorm2d" in said[0]
        assert after["buffers"].numel() > 0
