"""Rounds of APFL and L2GD against FedAvg's, per gradient taken.

    python -m benchmarks.mixtures

Whole rounds on the compiled engine, on random rows. A gradient is that of one row. FedAvg takes one for each row
of each step; so does L2GD, in as many steps as its coin says; APFL takes two, and with a learnt share one more
for each training row of a round.
"""

from __future__ import annotations

import statistics
import time

import torch

from benchmarks.phases import WORK, simulation
from benchmarks.report import made, options, publish, table
from benchmarks.workload import Workload
from unalike.algorithms import Algorithm, Apfl, FedAvg, L2gd

TRIED = {
    "FedAvg": FedAvg(),
    "APFL, fixed share": Apfl(learn=False),
    "APFL, learnt share": Apfl(),
    "L2GD": L2gd(lam=0.1, p=0.1),
}


def gradients(workload: Workload, algorithm: Algorithm, task: object, round: int) -> int:
    """How many gradients of a row a party takes in a round."""
    rows = workload.epochs * workload.rows
    if isinstance(algorithm, Apfl):
        return 2 * rows + algorithm.learn * workload.rows
    if isinstance(algorithm, L2gd):
        return algorithm.coins(task, round)[1] * min(workload.batch, workload.rows)  # type: ignore[arg-type]
    return rows


def measure(workload: Workload, repeats: int) -> list[str]:
    """A line of the table: FedAvg's microseconds a gradient, and how many times that the others take."""
    runs = {name: simulation(workload, algorithm) for name, algorithm in TRIED.items()}
    each: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            run.state, _ = run.play_round()
            seconds = time.perf_counter() - began
            if repeat:  # the first turn warms caches up
                taken = workload.parties * gradients(workload, TRIED[name], run.task, run.state.round)
                each[name].append(seconds / taken)
    first, *others = (statistics.median(times) for times in each.values())
    return [workload.name, f"{1e6 * first:.2f}", *(f"{other / first:.2f}" for other in others)]


def main() -> None:
    """Measure, print, and write."""
    given = options(__doc__, repeats=7).parse_args()
    torch.set_num_threads(1)
    chosen = [workload.quick() for workload in WORK] if given.quick else WORK
    first, *others = TRIED
    head = ["work, 20 parties", f"{first}, microseconds", *(f"{name}, times that" for name in others)]
    text = f"Time per gradient of a row, compiled engine, one thread, {given.repeats} turns that alternate."
    rows = [measure(workload, given.repeats) for workload in chosen]
    publish("mixtures", f"{text}\n{made()}\n\n{table(head, rows)}", given)


if __name__ == "__main__":
    main()
