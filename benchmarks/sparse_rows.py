"""Local training on sparse rows in the shape of rcv1's: the compiled engine beside the sequential one.

    OMP_NUM_THREADS=1 python -m benchmarks.sparse_rows

CPU milliseconds of a step of a round (one epoch), on random rows of 47,236 columns of which 74 are set; turns that
alternate, medians. The dense optimiser is in it: every step moves all weights.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np
import torch
from scipy import sparse

from benchmarks.report import made, options, publish, table
from unalike.data import Dataset
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

COLUMNS, SET = 47_236, 74
PARTIES, ROWS, BATCH, EPOCHS = 2, 1_800, 64, 3
NETS = ("mlp(32,16,8)", "logistic")
ENGINES = ("sequential", "vectorised", "compiled")


def rows_like_rcv1(count: int) -> Dataset:
    """Random rows with as many columns set, and labels by chance."""
    random = np.random.default_rng(0)
    columns = np.concatenate([random.choice(COLUMNS, SET, replace=False) for _ in range(count)])
    values = random.random(len(columns)).astype(np.float32)
    x = sparse.csr_matrix((values, columns, np.arange(0, len(columns) + 1, SET)), (count, COLUMNS))
    y = np.arange(count) % 2
    return Dataset("random", x, y, x[:100], y[:100], ("no", "yes"))


def simulation(data: Dataset, model: str, engine: str) -> Simulation:
    """A run that is never evaluated while it is measured."""
    spec = RunSpec(
        parties=PARTIES,
        model=model,
        rounds=10**6,
        epochs=EPOCHS,
        batch_size=BATCH,
        lr=0.1,
        optimiser="sgd(momentum=0.9)",
        validation=0.0,
        held_out=0.0,
        evaluate_every=10**6,
        engine=engine,
    )
    return Simulation(spec, data=data, say=lambda line: print(line, file=sys.stderr))


def measure(data: Dataset, model: str, repeats: int) -> list[str]:
    """A line of the table: milliseconds a step of every engine, and how many times as fast the compiled one is."""
    runs = [simulation(data, model, engine) for engine in ENGINES]
    steps = EPOCHS * len(data.y) / BATCH
    times: list[list[float]] = [[] for _ in runs]
    for repeat in range(repeats + 1):
        for run, seconds in zip(runs, times, strict=True):
            began = time.process_time()
            run.state, _ = run.play_round()
            if repeat:  # the first turn warms caches up
                seconds.append(1000 * (time.process_time() - began) / steps)
    found = [statistics.median(seconds) for seconds in times]
    return [
        model,
        f"{runs[0].task.size:,}",
        *(f"{ms:.2f}" for ms in found),
        f"{found[0] / found[2]:.1f}",
        f"{found[1] / found[2]:.1f}",
    ]


def main() -> None:
    """Measure, print, and write."""
    given = options(__doc__, repeats=5).parse_args()
    torch.set_num_threads(1)
    data = rows_like_rcv1(PARTIES * (BATCH if given.quick else ROWS))
    head = ["net", "weights", *ENGINES, "sequential / compiled", "vectorised / compiled"]
    text = f"CPU milliseconds a step of {BATCH} rows, medians of {given.repeats} turns.\n{made()}"
    publish("sparse-rows", f"{text}\n\n{table(head, [measure(data, net, given.repeats) for net in NETS])}", given)


if __name__ == "__main__":
    main()
