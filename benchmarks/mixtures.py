"""Rounds of APFL and L2GD against FedAvg's, per gradient taken.

    python -m benchmarks.mixtures

Whole rounds on the compiled engine, on random rows. A gradient is that of one row. FedAvg takes one for each row
of each step; so does L2GD, in as many steps as its coin says; APFL takes two, and with a learnt share one more
for each training row of a round.
"""

from __future__ import annotations

import time

import torch

from benchmarks.phases import WORK, simulation
from benchmarks.report import made, options, publish, table
from benchmarks.workload import Workload
from unalike.algorithms import Algorithm, Apfl, FedAvg, L2gd
from unalike.models import Task

NAMES = ["FedAvg", "APFL, fixed share", "APFL, learnt share", "L2GD"]


def tried(workload: Workload) -> list[Algorithm]:
    """The algorithms; L2GD takes as many steps in the mean as the others."""
    steps = workload.epochs * -(-workload.rows // workload.batch)
    return [FedAvg(), Apfl(learn=False), Apfl(), L2gd(lam=0.1, p=1 / max(2, steps))]


def gradients(workload: Workload, algorithm: Algorithm, task: Task, round: int) -> int:
    """How many gradients of a row a party takes in a round."""
    rows = workload.epochs * workload.rows
    if isinstance(algorithm, Apfl):
        return 2 * rows + algorithm.learn * workload.rows
    if isinstance(algorithm, L2gd):
        return algorithm.coins(task, round)[1] * min(workload.batch, workload.rows)
    return rows


def measure(workload: Workload, repeats: int) -> list[str]:
    """A line of the table: FedAvg's CPU time for a gradient, and how many times that the others take."""
    algorithms = tried(workload)
    runs = [simulation(workload, algorithm) for algorithm in algorithms]
    seconds, taken = [0.0] * len(runs), [0] * len(runs)
    for repeat in range(repeats + 1):
        for at, run in enumerate(runs):
            began = time.process_time()
            run.state, _ = run.play_round()
            if repeat:  # the first turn warms caches up
                seconds[at] += time.process_time() - began
                taken[at] += workload.parties * gradients(workload, algorithms[at], run.task, run.state.round)
    first, *others = (spent / count for spent, count in zip(seconds, taken, strict=True))
    return [workload.name, f"{1e6 * first:.2f}", *(f"{other / first:.2f}" for other in others)]


def main() -> None:
    """Measure, print, and write."""
    given = options(__doc__, repeats=30).parse_args()
    torch.set_num_threads(1)
    chosen = [workload.quick() for workload in WORK] if given.quick else WORK
    first, *others = NAMES
    head = ["work, 20 parties", f"{first}, microseconds", *(f"{name}, times that" for name in others)]
    text = f"CPU time per gradient of a row, compiled engine, one thread, {given.repeats} turns that alternate."
    rows = [measure(workload, given.repeats) for workload in chosen]
    publish("mixtures", f"{text}\n{made()}\n\n{table(head, rows)}", given)


if __name__ == "__main__":
    main()
