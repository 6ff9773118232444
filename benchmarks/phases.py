"""Rounds of personal algorithms beside FedAvg's; Ditto in two phases and in one loss; what FedAMP sends down.

    python -m benchmarks.phases

Whole rounds on the compiled engine, on random rows. In two phases each training is one compiled call; in one loss
the net is one compiled operation in each step. A round "per gradient" is divided by how many gradients it takes
for one of FedAvg's, of the whole net or of a part of it.
"""

from __future__ import annotations

import statistics
import sys
import time
from importlib import import_module
from typing import Any

import torch

from benchmarks.report import made, options, publish, table
from benchmarks.work import dataset
from benchmarks.workload import LR, MOMENTUM, Workload
from unalike.algorithms import ALGORITHMS, Ditto, FedAmp
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

# By name: the tests are not typed.
_PAPERS: Any = import_module("tests.contract.paper_algorithms")
WORK = [
    Workload("simple-cnn, MNIST's shape", (1, 28, 28), 10, "simple-cnn", 20, 256),
    Workload("MLP, adult's shape", (123,), 2, "mlp(32,16,8)", 20, 1_024),
    Workload("MLP, digits' shape, batches of 32", (64,), 10, "mlp(32)", 20, 90, epochs=2, batch=32),
    Workload("MLP, digits' shape, batches of 10", (64,), 10, "mlp(32)", 20, 90, epochs=2, batch=10),
]


PERSONAL = {"fedper": 1, "fedrep": 11, "fedbabu": 1, "ditto": 2}
"""Personal algorithms, and how many gradients a round of theirs takes for one of FedAvg's with one local epoch."""


BESIDE = "Rounds beside FedAvg's: seconds, and in brackets how many times as long as FedAvg each gradient takes."


def simulation(workload: Workload, algorithm: object) -> Simulation:
    """A run of the algorithm that is never evaluated while it is measured."""
    spec = RunSpec(
        algorithm=ALGORITHMS.describe(algorithm),  # type: ignore[arg-type]
        parties=workload.parties,
        model=workload.model,
        rounds=10**6,
        epochs=workload.epochs,
        batch_size=workload.batch,
        lr=LR,
        optimiser=f"sgd(momentum={MOMENTUM})",
        validation=0.0,
        held_out=0.0,
        evaluate_every=10**6,
        engine="compiled",
    )
    return Simulation(spec, data=dataset(workload), say=lambda line: print(line, file=sys.stderr))


def timed(runs: list[Simulation], repeats: int) -> list[float]:
    """Seconds a round of each, medians over turns that alternate."""
    seconds: list[list[float]] = [[] for _ in runs]
    for repeat in range(repeats + 1):
        for run, times in zip(runs, seconds, strict=True):
            began = time.perf_counter()
            run.state, _ = run.play_round()
            if repeat:  # the first turn warms caches up
                times.append(time.perf_counter() - began)
    return [statistics.median(times) for times in seconds]


def beside_fedavg(workload: Workload, repeats: int) -> list[str]:
    """A line of the other table: FedAvg's seconds a round, and those of others, also per gradient."""
    names = ["fedavg", *PERSONAL]
    average, *others = timed([simulation(workload, ALGORITHMS.build(name)) for name in names], repeats)
    costs = [PERSONAL["fedrep"] / workload.epochs if name == "fedrep" else PERSONAL[name] for name in PERSONAL]
    figures = [f"{s:.3f} ({s / average / cost:.2f})" for s, cost in zip(others, costs, strict=True)]
    return [workload.name, f"{average:.3f}", *figures]


def measure(workload: Workload, repeats: int) -> list[str]:
    """A line of the table: seconds a round of Ditto in both ways and their ratio, and FedAMP's bytes down."""
    one, two = timed([simulation(workload, one) for one in (_PAPERS.DittoInOneLoss(), Ditto())], repeats)
    amp = simulation(workload, FedAmp())
    _, row = amp.play_round()
    down, everything = row["bytes_down"], workload.parties**2 * amp.task.size * 4
    figures = [f"{one:.3f}", f"{two:.3f}", f"{one / two:.1f}", f"{down:,}", f"{everything:,}"]
    return [workload.name, f"{amp.task.size:,}", *figures]


def main() -> None:
    """Measure, print, and write."""
    given = options(__doc__, repeats=7).parse_args()
    torch.set_num_threads(1)
    chosen = [workload.quick() for workload in WORK] if given.quick else WORK
    head = ["work, 20 parties", "weights", "Ditto in one loss", "in two phases", "times as fast"]
    head += ["FedAMP's bytes down", "all models to all"]
    text = f"Seconds a round, compiled engine, one thread, medians of {given.repeats} interleaved turns.\n{made()}"
    rows = [measure(workload, given.repeats) for workload in chosen]
    beside = [beside_fedavg(workload, given.repeats) for workload in chosen]
    names = ["work, 20 parties", "FedAvg", *(f"{name} (per gradient)" for name in PERSONAL)]
    text += f"\n\n{table(head, rows)}\n\n{BESIDE}\n\n{table(names, beside)}"
    publish("phases", text, given)


if __name__ == "__main__":
    main()
