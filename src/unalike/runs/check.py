"""``check_algorithm``: what every algorithm must hold, its own paper's properties aside.

Run it on an algorithm of your own: ``check_algorithm("my-algorithm(mu=0.1)")``. It raises AssertionError with
one line that says which promise of the contract is broken, or UserError where a method fails or returns something
else than the contract says: the same line that a run would end in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unalike.algorithms import ALGORITHMS
from unalike.algorithms.contract import Vectors
from unalike.data import Dataset
from unalike.engines.choose import ENGINES, cannot_vectorise
from unalike.engines.sequential import Sequential
from unalike.engines.vectorised import Vectorised
from unalike.rounds.gather import Engine
from unalike.rounds.state import State
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

ROUNDS = 4
SIZES = (3, 8, 11, 16, 37, 50)
"""Unequal parties: less than a batch, exactly one, one and a bit, several."""

COMPILING = ("Compiling", "Cannot be compiled")
"""How the lines begin that depend on the machine, not on the algorithm."""


def check_algorithm(text: str, **fields: Any) -> None:
    """Check the algorithm that ``text`` describes; ``fields`` change the spec it is tried with."""
    part = ALGORITHMS.build(text)
    assert ALGORITHMS.build(ALGORITHMS.describe(part)) == part, f"{text}: its text does not give it back"
    check_engines_agree(text, **fields)
    check_resume(text, **fields)
    check_purity(text, **fields)


def check_engines_agree(text: str, **fields: Any) -> None:
    """All engines give the same server and party states, to 1e-5 in float32 and 1e-10 in float64.

    The compiled one takes part in float32, where there is a compiler.
    """
    for dtype, tolerance in (("float32", 1e-5), ("float64", 1e-10)):
        states = {}
        others: dict[str, Engine] = {"stacked": Vectorised(), "stacked one by one": Vectorised(chunk_bytes=1)}
        for name, engine in {"sequential": Sequential(), **others, "compiled": None}.items():
            simulation = small_simulation(text, dtype=dtype, **fields)
            if engine is None:
                simulation.use("compiled", lambda line: None)
            else:
                simulation.engine = engine
            states[name] = play(simulation, ROUNDS).state.tensors()
        for name, other in states.items():
            worst, key = distance(states["sequential"], other)
            assert worst <= tolerance, (
                f"{text}: sequential and {name} differ by {worst:.1e} in {key} after {ROUNDS} rounds ({dtype})"
            )


def check_resume(text: str, **fields: Any) -> None:
    """A run cut in two through its saved tensors gives the same bits, and so does a second run."""
    for engine in ENGINES:
        whole = play(small_simulation(text, engine=engine, **fields), ROUNDS)
        first = play(small_simulation(text, engine=engine, **fields), ROUNDS // 2)
        second = small_simulation(text, engine=engine, **fields)
        saved = {name: value.clone() for name, value in first.state.tensors().items()}
        second.state = State.of(first.state.round, saved)
        play(second, ROUNDS - ROUNDS // 2)
        assert second.state.digest() == whole.state.digest(), (
            f"{text}: resumed differs from uninterrupted ({engine})"
        )


def check_purity(text: str, **fields: Any) -> None:
    """A round changes nothing it was given, and leaves absent parties' states alone."""
    for engine in ENGINES:
        simulation = small_simulation(text, engine=engine, **fields)
        for _ in range(ROUNDS):
            before = {name: value.clone() for name, value in simulation.state.tensors().items()}
            after, _ = simulation.play_round()
            changed, key = distance(before, simulation.state.tensors())
            assert changed == 0, f"{text}: a round changed {key} in place ({engine})"
            absent = set(simulation.state.parties) - set(simulation.cohort(after.round))
            for number in absent:
                changed, key = distance(dict(simulation.state.parties[number]), dict(after.parties[number]))
                assert changed == 0, f"{text}: absent party {number}'s {key} changed ({engine})"
            simulation.state = after


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


def small_simulation(text: str, **fields: Any) -> Simulation:
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
    simulation = Simulation(spec, data=small_dataset(), say=messages.append)
    said = [line for line in messages if not line.startswith(COMPILING)]
    assert not said, f"{text}: {said[0]}"
    if spec.engine == "auto" and cannot_vectorise(simulation.task) is None:  # the rule would not stack so little
        simulation.use("vectorised", messages.append)
    return simulation


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
