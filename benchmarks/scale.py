"""Time and memory of a round as parties grow, with ten of them in each round.

make bench                                        # with the other tables, written into docs/performance.md
python -m benchmarks.scale --quick

Every party has the same number of rows, so a round is the same work however many parties there are; the data grow.
Each number of parties is a process of its own (its peak memory is that of its whole life); they take turns.
Nothing is evaluated: all parties' own rows are tried only at the end of a run.
"""

from __future__ import annotations

import dataclasses
import resource
import statistics
import sys
import time
from contextlib import ExitStack
from typing import Any

from benchmarks.peers.process import Worker
from benchmarks.report import made, options, publish, table
from benchmarks.workload import LR, MOMENTUM, Workload

PARTIES = (10, 100, 1_000, 10_000)
COHORT = 10
ENGINES = ("vectorised", "compiled")
ROUNDS = 20
"""Rounds in a turn; a turn's figure is their median."""


def workload(parties: int) -> Workload:
    """Tables of ten features."""
    return Workload(f"{parties:,}", (10,), 2, "mlp(32,16,8)", parties, 100, epochs=5, cohort=COHORT)


def serve() -> None:
    """Be the worker of one number of parties."""
    import torch

    from benchmarks.peers.worker import Line
    from benchmarks.work import dataset
    from unalike.runs.simulation import Simulation
    from unalike.runs.spec import RunSpec

    line = Line()
    job = line.job()
    work = Workload.of(job["workload"])
    torch.set_num_threads(1)
    data = dataset(work)
    began = time.perf_counter()
    spec = RunSpec(
        parties=work.parties,
        model=work.model,
        rounds=10**6,
        epochs=work.epochs,
        batch_size=work.batch,
        optimiser=f"sgd(momentum={MOMENTUM})",
        lr=LR,
        sample=COHORT / work.parties,
        evaluate_every=10**6,
        engine=job["engine"],
    )
    simulation = Simulation(spec, data=data, say=lambda text: print(text, file=sys.stderr))
    simulation.state, _ = simulation.play_round()
    start = time.perf_counter() - began
    line.ready(simulation.engine.name)
    while True:
        seconds = []
        for _ in range(job["rounds"]):
            clock = time.process_time()
            simulation.state, _ = simulation.play_round()
            seconds.append(time.process_time() - clock)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        data_bytes = sum(part.nbytes for part in (data.x, data.y, data.x_test, data.y_test))
        line.played({"round": statistics.median(seconds), "peak": peak, "data": data_bytes, "start": start})


def measure(engine: str, parties: tuple[int, ...], rounds: int, repeats: int) -> list[dict[str, Any]]:
    """Medians for each number of parties."""
    with ExitStack() as stack:
        workers = []
        for number in parties:
            job = {"workload": dataclasses.asdict(workload(number)), "engine": engine, "rounds": rounds}
            workers.append(Worker([sys.executable, "-m", "benchmarks.scale", "--serve"], job))
            stack.callback(workers[-1].close)
            if workers[-1].version != engine:
                raise SystemExit(f"{number:,} parties run on the {workers[-1].version} engine, not {engine}.")
        turns = [[worker.ask({"play": 1}) for worker in workers] for _ in range(repeats + 1)][1:]
    return [
        {**played[-1], "round": statistics.median(turn["round"] for turn in played)}
        for played in zip(*turns, strict=True)
    ]


def show(results: dict[str, list[dict[str, Any]]], parties: tuple[int, ...], rounds: int, repeats: int) -> str:
    """A line for each engine and number of parties."""
    rows = []
    for engine, found in results.items():
        first = found[0]
        for number, one in zip(parties, found, strict=True):
            rows.append(
                [
                    f"{number:,} parties, {engine}",
                    f"{1000 * one['round']:.2f}",
                    f"{one['round'] / first['round']:.2f}",
                    f"{one['peak'] / 2**20:.0f}",
                    f"{one['data'] / 2**20:.0f}",
                    f"{one['peak'] / first['peak']:.2f}",
                    f"{one['start']:.2f}",
                ]
            )
    text = (
        f"{COHORT} parties in a round, 100 rows each (80 to train on), five local epochs of an MLP, aggregation; "
        f"medians of {repeats} interleaved turns of {rounds} rounds, one thread. "
        f"Targets: time within 1.20, memory within 2.\n{made()}"
    )
    head = [
        "",
        "CPU ms a round",
        "to 10 parties",
        "peak memory (MB)",
        "of which data",
        "to 10 parties",
        "start (s)",
    ]
    return f"{text}\n\n{table(head, rows)}"


def main() -> None:
    """Measure, print, and write."""
    parser = options(__doc__, repeats=7)
    parser.add_argument("--serve", action="store_true", help="be a worker (used by the benchmark itself)")
    given = parser.parse_args()
    if given.serve:
        serve()
        return
    parties, rounds = (PARTIES[:3], 3) if given.quick else (PARTIES, ROUNDS)
    results = {engine: measure(engine, parties, rounds, given.repeats) for engine in ENGINES}
    publish("scale", show(results, parties, rounds, given.repeats), given)


if __name__ == "__main__":
    main()
