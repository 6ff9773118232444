"""A million parties on one machine: start, memory, a round; what stateful parties cost; a run that is killed.

python -m benchmarks.million                      # prints its tables; with --write into docs/scale.md
python -m benchmarks.million --quick

Parties have 10 rows of 20 features each, cohorts are of 100, nets are mlp(16), one local step, one thread. Each
number of parties is a process of its own (its peak memory is that of its whole life). The second part plays
SCAFFOLD twice: once undisturbed, once killed with signal 9 and started again, and compares the digests of all
weights and states.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.report import ROOT, made, options, put, table

PARTIES = (10_000, 100_000, 1_000_000)
COHORT = 100
ROUNDS = 1_000
KILLS = (0.2, 0.6)
"""After which parts of its rounds the run is killed."""


def fields(parties: int, rounds: int, **more: Any) -> dict[str, Any]:
    """The run, whatever is measured of it."""
    work = {"model": "mlp(16)", "steps": 1, "engine": "sequential", "partition": "iid"}
    return {**work, "parties": parties, "sample": COHORT / parties, "rounds": rounds, **more}


def dataset(parties: int) -> Any:
    """Ten rows for each party, and a thousand to test on."""
    import numpy as np

    from unalike.data import Dataset

    rng = np.random.default_rng(0)
    x, x_test = (rng.standard_normal((rows, 20), dtype=np.float32) for rows in (10 * parties, 1000))
    y, y_test = ((rows[:, 0] > 0).astype(np.int64) for rows in (x, x_test))
    return Dataset("rows", x, y, x_test, y_test, ("low", "high"))


def peak() -> float:
    """The most memory that the process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def start(parties: int) -> dict[str, float]:
    """Begin a run of so many parties, play some rounds, evaluate once."""
    from unalike import RunSpec
    from unalike.runs.simulation import Simulation

    data = dataset(parties)
    began = time.perf_counter()
    simulation = Simulation(RunSpec(**fields(parties, 10**6, evaluate_every=10**6)), data=data)
    found = {"start": time.perf_counter() - began, "data": (data.x.nbytes + data.y.nbytes) / 1e6}
    rounds = []
    for _ in range(31):
        began = time.process_time()
        simulation.state, _ = simulation.play_round()
        rounds.append(time.process_time() - began)
    began = time.process_time()
    simulation.figures(simulation.state)
    return {
        **found,
        "round": statistics.median(rounds[1:]),
        "evaluate": time.process_time() - began,
        "peak": peak(),
    }


def train(parties: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Play the stateful run in a folder, or go on with it; how long its checkpoints took."""
    import unalike
    from unalike.runs import run as runs

    saves: list[float] = []
    save = vars(runs)["save"]

    def timed(*given: Any) -> None:
        began = time.perf_counter()
        save(*given)
        saves.append(time.perf_counter() - began)

    vars(runs)["save"] = timed
    made = fields(parties, rounds, algorithm="scaffold", evaluate_every=rounds // 10)
    result = unalike.run(data=dataset(parties), runs=folder, **made)
    return {"sha256": result.figures["weights_sha256"], "saves": saves, "peak": peak()}


def child(*words: object) -> list[str]:
    """The command of a process of its own."""
    return [sys.executable, "-m", "benchmarks.million", *map(str, words)]


def answer(*words: object) -> dict[str, Any]:
    """What such a process says."""
    said = subprocess.run(child(*words), cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def killed(parties: int, rounds: int, folder: Path) -> dict[str, Any]:
    """The stateful run, killed at times and started again."""
    for part in KILLS:
        process = subprocess.Popen(child("--train", folder, parties, rounds), cwd=ROOT, stdout=subprocess.DEVNULL)
        while process.poll() is None and _played(folder) < part * rounds:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    return answer("--train", folder, parties, rounds)


def _played(folder: Path) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in folder.glob("*/rounds.jsonl"))


def show(sizes: dict[int, dict[str, float]], plain: dict[str, Any], again: dict[str, Any], rounds: int) -> str:
    """Both tables."""
    least = sizes[min(sizes)]
    head = [
        "parties",
        "data (MB)",
        "start (s)",
        "peak memory (MB)",
        "of 1.5 x data + 300",
        "CPU s a round",
        "to fewest",
    ]
    rows = [
        [
            f"{parties:,}",
            f"{one['data']:.0f}",
            f"{one['start']:.2f}",
            f"{one['peak']:.0f}",
            f"{one['peak'] / (1.5 * one['data'] + 300):.2f}",
            f"{one['round']:.3f}",
            f"{one['round'] / least['round']:.2f}",
        ]
        for parties, one in sizes.items()
    ]
    evaluated = ", ".join(f"{parties:,}: {one['evaluate']:.2f}" for parties, one in sizes.items())
    saves = sorted(1000 * each for each in plain["saves"])
    same = "the same" if plain["sha256"] == again["sha256"] else f"NOT the same ({again['sha256'][:12]})"
    return (
        f"Parties of 10 rows, cohorts of {COHORT}, FedAvg, one thread. Targets: start 5 s, a round within 1.2.\n\n"
        f"{table(head, rows)}\n\nOne evaluation (10,000 parties at most), CPU s: {evaluated}.\n\n"
        f"SCAFFOLD, {max(sizes):,} parties, {rounds:,} rounds: {len(saves)} checkpoints, median "
        f"{statistics.median(saves):.0f} ms, longest {saves[-1]:.0f} ms (target 50 ms); peak memory "
        f"{plain['peak']:.0f} MB. Killed with signal 9 after {' and '.join(f'{k:.0%}' for k in KILLS)} of its "
        f"rounds and started again, it has `weights_sha256` {plain['sha256'][:12]}: {same}.\n\n{made()}"
    )


def main() -> None:
    """Measure, print, and write."""
    parser = options(__doc__, repeats=1)
    parser.add_argument("--start", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--train", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the stateful run")
    given = parser.parse_args()
    if given.start or given.train:
        import torch

        torch.set_num_threads(1)
        if given.start:
            print(json.dumps(start(given.start)))
        else:
            folder, parties, rounds = given.train
            print(json.dumps(train(int(parties), int(rounds), Path(folder))))
        return
    sizes = PARTIES[:2] if given.quick else PARTIES
    played = 60 if given.quick else given.rounds
    found = {parties: answer("--start", parties) for parties in sizes}
    with tempfile.TemporaryDirectory() as folder:
        plain = answer("--train", Path(folder) / "plain", sizes[-1], played)
        again = killed(sizes[-1], played, Path(folder) / "killed")
    text = show(found, plain, again, played)
    print(text)
    if given.write and not given.quick:
        put(ROOT / "docs" / "scale.md", "million", text)


if __name__ == "__main__":
    main()
