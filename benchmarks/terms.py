"""Rounds of algorithms whose local objective is more than cross-entropy, as multiples of FedAvg's round.

    OMP_NUM_THREADS=1 python -m benchmarks.terms              # --without: as step by step, with Python in between

CPU seconds of whole rounds on the compiled engine, on random rows; contenders take turns, medians. An evaluation
on all test rows is part of a round (``--training`` leaves it out). MOON has a last model of each party's own from
the second round on, which is what is measured.
"""

from __future__ import annotations

import statistics
import time
from contextlib import nullcontext
from dataclasses import replace
from unittest import mock

import torch
from torch import Tensor

from benchmarks.phases import simulation
from benchmarks.report import made, options, publish, table
from benchmarks.rounds import WORK as ROUNDS
from benchmarks.workload import Workload
from unalike.algorithms import ALGORITHMS
from unalike.algorithms.contract import Algorithm, Party, algorithm
from unalike.engines.compiled import engine
from unalike.runs.simulation import Simulation


@algorithm("distilled")
class Distilled(Algorithm):
    """FedAvg whose parties are taught by the model that they received, on their own rows."""

    def teach(self, party: Party) -> tuple[float, float, Tensor]:
        """The received model teaches, at a heat of 2."""
        return 1.0, 2.0, party.received["w"]


NAMES = ["fedavg", "rfedavg", "rfedavg+", "distilled", "moon", "scaffold", "ditto", "apfl"]
NAMES += ["per-fedavg", "pfedme", "fedrep"]
SIZES = {"W1": (512, 1), "W2": (512, 1), "W3": (3_200, 2)}
"""Rows of a party, and local epochs."""
WORK = [replace(one, rows=SIZES[one.key][0], epochs=SIZES[one.key][1]) for one in ROUNDS if one.key in SIZES]


def cpu_seconds(runs: list[Simulation], repeats: int, *, evaluated: bool) -> list[float]:
    """CPU seconds of a round of each, medians over turns that alternate."""
    seconds: list[list[float]] = [[] for _ in runs]
    for repeat in range(repeats + 2):
        for run, times in zip(runs, seconds, strict=True):
            began = time.process_time()
            run.state, _ = run.play_round()
            if evaluated:
                run.evaluate(run.state)
            if repeat > 1:  # first rounds have no regulariser yet, and warm caches up
                times.append(time.process_time() - began)
    return [statistics.median(times) for times in seconds]


def measure(workload: Workload, names: list[str], repeats: int, *, evaluated: bool) -> list[str]:
    """A line of the table: FedAvg's seconds, and the others' rounds as multiples."""
    runs = [simulation(workload, ALGORITHMS.build(name)) for name in names]
    average, *others = cpu_seconds(runs, repeats, evaluated=evaluated)
    return [f"{workload.key}, {workload.name}", f"{average:.3f}", *(f"{one / average:.2f}" for one in others)]


def main() -> None:
    """Measure, print, and write."""
    parser = options(__doc__, repeats=7)
    parser.add_argument("--without", action="store_true", help="as if the kernels knew no declared term")
    parser.add_argument("--only", default="", help="algorithms beside fedavg, by commas")
    parser.add_argument("--training", action="store_true", help="leave evaluation out")
    given = parser.parse_args()
    torch.set_num_threads(1)
    names = ["fedavg", *given.only.split(",")] if given.only else NAMES
    chosen = [work.quick() for work in WORK] if given.quick else WORK
    by_steps = mock.patch.object(engine, "_descent", return_value=None)
    with by_steps if given.without else nullcontext():
        rows = [measure(workload, names, given.repeats, evaluated=not given.training) for workload in chosen]
    text = f"CPU seconds of FedAvg's round, and others' as multiples; medians of {given.repeats} turns.\n{made()}"
    publish("terms", f"{text}\n\n{table(['work, 10 parties', *names], rows)}", given)


if __name__ == "__main__":
    main()
