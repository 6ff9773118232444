"""A small run that is over in no time, with all that makes runs differ: for checks of algorithms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from unalike.algorithms.contract import Vectors
from unalike.data import Dataset
from unalike.engines.vectorised import cannot_vectorise
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

ROUNDS = 4
SIZES = (3, 8, 11, 16, 37, 50)
"""Unequal parties: less than a batch, exactly one, one and a bit, several."""

COMPILING = ("Compiling", "Cannot be compiled")
"""How the lines begin that depend on the machine, not on the algorithm."""
UNSTACKED = "this net runs on the sequential engine instead."
"""How the line ends that depends on the net alone."""


def small_dataset(features: int = 5, classes: int = 3, seed: int = 0) -> Dataset:
    """Parties of unequal sizes whose features and labels differ."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, features))
    group = np.repeat(np.arange(len(SIZES)), SIZES)
    y = (rng.integers(0, classes, len(group)) + (rng.random(len(group)) < 0.6) * group) % classes
    x = centres[y] + rng.normal(size=(len(group), features)) + 0.3 * rng.normal(size=(len(SIZES), features))[group]
    y_test = rng.integers(0, classes, 40)
    x_test = centres[y_test] + rng.normal(size=(40, features))
    return Dataset(
        "small",
        x.astype(np.float32),
        y.astype(np.int64),
        x_test.astype(np.float32),
        y_test,
        tuple(f"class {c}" for c in range(classes)),
        group=group,
        group_names=tuple(f"party {k}" for k in range(len(SIZES))),
    )


def small_bytes() -> Dataset:
    """The same rows as bytes, standardised as pixels are."""
    data = small_dataset()
    x, x_test = (np.clip(rows * 20 + 128, 0, 255).astype(np.uint8) for rows in (data.x, data.x_test))
    return replace(data, x=x, x_test=x_test, shift=np.full(5, 128.0), scale=np.full(5, 20.0))


def small_simulation(text: str, data: Dataset | None = None, **fields: Any) -> Simulation:
    """Six unequal parties of which four take part in each round."""
    settings = {
        "partition": "natural",
        "model": "mlp(6,4)",
        "rounds": ROUNDS,
        "epochs": 2,
        "batch_size": 8,
        "lr": 0.05,
        "optimiser": "sgd(momentum=0.9)",
        "sample": 0.67,
        "held_out": 0.2,
        "public": 0.1,
        "seed": 3,
    }
    spec = RunSpec.from_mapping(settings | {"algorithm": text} | fields)
    messages: list[str] = []
    simulation = Simulation(spec, data=data or small_dataset(), say=messages.append)
    said = [line for line in messages if not line.startswith(COMPILING) and not line.endswith(UNSTACKED)]
    assert not said, f"{text}: {said[0]}"
    if spec.engine == "auto" and can_be_stacked(simulation):  # the rule would not stack so little
        simulation.use("vectorised", messages.append)
    return simulation


def can_be_stacked(simulation: Simulation) -> bool:
    """Whether a stack of each of its nets computes what one net computes."""
    return all(cannot_vectorise(task) is None for task in simulation.tasks)


def play(simulation: Simulation, rounds: int) -> Simulation:
    """Play some rounds and give the simulation back."""
    for _ in range(rounds):
        simulation.state, _ = simulation.play_round()
    return simulation


def distance(one: Vectors, other: Vectors) -> tuple[float, str]:
    """The largest difference between two sets of named tensors, relative above 1, and where it is."""
    assert one.keys() == other.keys(), f"different names: {sorted(one.keys() ^ other.keys())}"
    worst, where = 0.0, ""
    for key, value in one.items():
        assert value.shape == other[key].shape, f"{key} has shapes {value.shape} and {other[key].shape}"
        if value.numel():
            here, there = (v.cpu().double() for v in (value, other[key]))
            gap = float((here - there).abs().max() / here.abs().max().clamp(min=1))
            worst, where = max((worst, where), (gap if np.isfinite(gap) else float("inf"), key))
    return worst, where
