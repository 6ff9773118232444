"""A round of FedRep: in the head's phase the frozen body runs once for each row, or in each step.

    python -m benchmarks.still_layers

Whole rounds on the compiled engine, on random rows; the bits after them are compared too.
"""

from __future__ import annotations

import statistics
import time

import torch

from benchmarks.phases import simulation
from benchmarks.report import made, options, publish, table
from benchmarks.workload import Workload
from unalike.algorithms import ALGORITHMS
from unalike.engines.compiled import library

WORK = [
    Workload("fedrep-cnn, CIFAR-10's shape, batches of 10", (3, 32, 32), 10, "fedrep-cnn", 10, 500, batch=10),
    Workload("simple-cnn, CIFAR-10's shape, batches of 10", (3, 32, 32), 10, "simple-cnn", 10, 500, batch=10),
    Workload("MLP, digits' shape, batches of 10", (64,), 10, "mlp(32)", 10, 90, batch=10),
]


def measure(workload: Workload, repeats: int) -> list[str]:
    """A line of the table: CPU seconds of the same round in both ways."""
    run = simulation(workload, ALGORITHMS.build("fedrep"))
    seconds: dict[int, list[float]] = {0: [], library.LARGEST_KEPT: []}
    bits = set()
    for repeat in range(repeats + 1):
        for largest, times in seconds.items():
            library.LARGEST_KEPT = largest
            began = time.process_time()
            state, _ = run.play_round()
            if repeat:  # the first turn warms caches up
                times.append(time.process_time() - began)
            bits.add(state.digest())
    each, once = (statistics.median(times) for times in seconds.values())
    same = "the same" if len(bits) == 1 else "different"
    return [workload.name, f"{run.task.size:,}", f"{each:.3f}", f"{once:.3f}", f"{each / once:.1f}", same]


def main() -> None:
    """Measure, print, and write."""
    given = options(__doc__, repeats=3).parse_args()
    torch.set_num_threads(1)
    chosen = [workload.quick() for workload in WORK] if given.quick else WORK
    head = ["work, 10 parties", "weights", "body in each step", "once for each row", "times as fast", "bits"]
    text = f"CPU seconds a round, one thread, medians of {given.repeats} interleaved turns on a busy machine."
    rows = [measure(work, given.repeats) for work in chosen]
    publish("still-layers", f"{text}\n{made()}\n\n{table(head, rows)}", given)


if __name__ == "__main__":
    main()
