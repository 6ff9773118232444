"""What runs cost beside training: short ones in a warm worker, a finished one shown, personal models, peak memory.

    OMP_NUM_THREADS=1 UNALIKE_DATA=... python -m benchmarks.fixed_costs        # a minute; W4 needs MNIST

CPU seconds, medians; contenders take turns. Peak memory is that of a process of its own.
"""

from __future__ import annotations

import argparse
import functools
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.report import made, table
from unalike.data import Dataset, load_dataset
from unalike.data.folder import NotFound
from unalike.runs.run import run
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

TURNS = 7
SETTING = {"dataset": "digits", "partition": "label-dirichlet(0.1)", "rounds": 20}
W4 = {"parties": 500, "sample": 0.2, "model": "fedavg-cnn", "epochs": 1, "batch_size": 64, "evaluate_every": 10**6}


def seconds(call: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def warm_runs(engines: tuple[str, ...]) -> list[list[str]]:
    """A run of 20 rounds where data, code and compiled nets are in memory, as in a worker of a study."""
    load = functools.lru_cache(load_dataset)
    found: dict[str, list[float]] = {engine: [] for engine in engines}
    with tempfile.TemporaryDirectory() as runs:
        for seed in range(TURNS + 2):
            for engine in engines:
                spec = RunSpec.from_mapping({**SETTING, "engine": engine, "seed": seed})
                taken = seconds(functools.partial(run, spec, runs=runs, load=load))
                found[engine] += [taken] if seed > 1 else []
    return [[f"20 rounds of digits, warm, {engine}", f"{statistics.median(s):.3f}"] for engine, s in found.items()]


def shown() -> list[str]:
    """The command of a run that is finished already."""
    command = [sys.executable, "-m", "unalike", "run", "--dataset", "digits", "--rounds", "5"]
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(TURNS + 1):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return ["a finished run shown", f"{statistics.median(times[1:]):.2f}"]


def personal(parties: int = 1_000, rows: int = 100) -> list[str]:
    """The share of a round of FedPer that goes into judging each party's own MLP."""
    x = np.random.default_rng(0).standard_normal((parties * rows, 123), dtype=np.float32)
    y = np.arange(len(x)) % 10
    data = Dataset("random", x, y, x[:100], y[:100], tuple(map(str, range(10))))
    fields = {"parties": parties, "model": "mlp(32,16,8)", "algorithm": "fedper", "rounds": 10**6, "epochs": 1}
    simulation = Simulation(RunSpec.from_mapping({**fields, "engine": "compiled"}), data=data, say=print)
    shares = []
    for _ in range(TURNS + 2):
        whole = seconds(lambda: vars(simulation).update(state=simulation.play_round()[0]))
        simulation.models_at(simulation.state)
        shares.append((seconds(lambda: simulation.evaluate(simulation.state)), whole))
    judging, whole = (statistics.median(values) for values in zip(*shares[2:], strict=True))
    each = f"{1e6 * judging / parties:.0f} us a model"
    return [f"{parties:,} personal MLPs judged", f"{judging:.3f}, {judging / whole:.0%} of a round, {each}"]


def peak() -> None:
    """Three rounds of W4; the peak after each, in MB."""
    try:
        data = load_dataset("mnist")
    except NotFound as error:
        print(error)
        return
    spec = RunSpec.from_mapping({**W4, "dataset": "mnist", "rounds": 10**6, "engine": "compiled"})
    simulation = Simulation(spec, data=data, say=lambda line: None)
    megabytes = [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]
    for _ in range(3):
        simulation.state, _ = simulation.play_round()
        megabytes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(", ".join(f"{one:.0f}" for one in megabytes))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--peak", action="store_true", help="the memory of W4 alone, in this process")
    torch.set_num_threads(1)
    if parser.parse_args().peak:
        peak()
        return
    lines = [*warm_runs(("auto", "prepared")), shown(), personal()]
    command = [sys.executable, "-m", "benchmarks.fixed_costs", "--peak"]
    memory = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    lines.append(["W4: MB with the data, and after each of three rounds", memory.stdout.strip()])
    print(f"{made()}\n\n{table(['what', 'CPU seconds'], lines)}")


if __name__ == "__main__":
    main()
