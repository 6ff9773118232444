"""What it costs to evaluate 100 personal models, each on its party's own rows, beside one model on the same rows.

``python -m benchmarks.personal_evaluation`` prints CPU times, medians of interleaved repetitions on one thread. An
evaluation is that of a round: validation rows and held-out rows of every party, and making the personal models.
Rows are random numbers in the shape of the data set's: what a forward pass costs does not depend on them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace

import numpy as np
import torch

from unalike.data import Dataset
from unalike.rounds.evaluation import evaluate
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec
from unalike.scores import choose

CASES = {
    "logistic, 784": ((784,), "logistic"),
    "mlp(64), 64": ((64,), "mlp(64)"),
    "mlp(64), 784": ((784,), "mlp(64)"),
    "mlp(200,200), 784": ((784,), "mlp(200,200)"),
    "simple-cnn, MNIST": ((1, 28, 28), "simple-cnn"),
    "simple-cnn, CIFAR-10": ((3, 32, 32), "simple-cnn"),
}
ENGINES = ("sequential", "compiled")


def seconds(simulation: Simulation, *, personal: bool) -> float:
    """CPU time to evaluate all parties under one model, or under each one's own."""
    began = time.process_time()
    models = simulation.models(simulation.state)
    if not personal:
        models = replace(models, global_model=simulation.initial, personal=None)
    evaluate(simulation.federation, models, 1, [choose(None, "classification")])
    return time.process_time() - began


def make(shape: tuple[int, ...], model: str, engine: str, parties: int, rows: int) -> Simulation:
    """A federation whose parties have trained for a moment, so that no two models are the same."""
    rng = np.random.default_rng(0)
    count = 2 * parties * rows  # half to train on, a quarter to validate with, a quarter held out
    x = rng.normal(size=(count, *shape)).astype(np.float32)
    y = np.tile(np.arange(10), count // 10 + 1)[:count]
    group = np.repeat(np.arange(parties), 2 * rows)
    names = tuple(f"party {number}" for number in range(parties))
    data = Dataset("random", x, y, x[:10], y[:10], tuple("0123456789"), group=group, group_names=names)
    fields = {"partition": "natural", "model": model, "engine": engine, "steps": 1, "batch_size": 2, "lr": 0.01}
    spec = RunSpec.from_mapping(
        {**fields, "algorithm": "local", "held_out": 0.25, "validation": 0.25, "rounds": 1}
    )
    simulation = Simulation(spec, data=data, say=lambda line: None)
    simulation.state, _ = simulation.play_round()
    return simulation


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parties", type=int, default=100)
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--repeat", type=int, default=15)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{given.parties} parties of {given.rows} rows; CPU ms, medians of {given.repeat}")
    print(f"{'net':<22}{'engine':<12}{'one model':>10}{'personal':>10}{'ratio':>8}")
    for name, (shape, model) in CASES.items():
        for engine in ENGINES:
            case = make(shape, model, engine, given.parties, given.rows)
            found: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(given.repeat + 1):
                for personal in (False, True):
                    found[personal].append(seconds(case, personal=personal))
            one, own = (1000 * statistics.median(found[personal][1:]) for personal in (False, True))
            print(f"{name:<22}{engine:<12}{one:>10.1f}{own:>10.1f}{own / one:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
