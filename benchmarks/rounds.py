"""Whole rounds (local training, aggregation, evaluation): our engines, a plain loop, peers, and the GEMM limit.

make bench                                        # everything, written into docs/performance.md
python -m benchmarks.rounds --quick               # a try with little work
python -m benchmarks.rounds --only W1 --without-peers --engines compiled
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks import gemm
from benchmarks.peers.process import PEERS, Failed
from benchmarks.plain import PlainLoop
from benchmarks.report import made, options, publish, table
from benchmarks.work import dataset, plain_net
from benchmarks.workload import LR, MOMENTUM, Workload
from unalike.data import Dataset
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

WORK = (
    Workload("simple-cnn, CIFAR's shape", (3, 32, 32), 10, "simple-cnn", 10, 5_000, 10_000, key="W1"),
    Workload("simple-cnn, MNIST's shape", (1, 28, 28), 10, "simple-cnn", 10, 6_000, 10_000, key="W2"),
    Workload("MLP, adult's shape", (123,), 2, "mlp(32,16,8)", 10, 3_256, 16_281, epochs=10, key="W3"),
    Workload("MLP, covtype's shape", (54,), 2, "mlp(32,16,8)", 10, 43_575, 145_253, key="W3c"),
    Workload("fedavg-cnn, MNIST's shape", (1, 28, 28), 10, "fedavg-cnn", 500, 100, 10_000, cohort=100, key="W4"),
)
ENGINES = ("sequential", "vectorised", "compiled")
TWO = "compiled, two threads"
PLAIN, LIMIT = "plain loop", "GEMM limit"
TARGETS = {"W1": 4.0, "W2": 5.0, "W3": 22.0, "W3c": 40.0, "W4": 1.3}
"""What the compiled engine is to reach, as a ratio to the plain loop."""
OF_PEER = {("W1", "pfl"): 3.0}
OF_LIMIT = {"W1": 0.95, "W2": 0.95, "W3": 0.65, "W3c": 0.55, "W4": 0.85}
OF_THREADS = {"W1": 1.7}
APART = 0.05
"""Accuracies that differ by more than this from the plain loop's are pointed out: the work may not be the same."""

Turn = dict[str, Any]
Play = Callable[[], Turn]


@dataclass
class Found:
    """One workload's medians."""

    workload: Workload
    rate: dict[str, float] = field(default_factory=dict)
    wall: dict[str, float] = field(default_factory=dict)
    accuracy: dict[str, float] = field(default_factory=dict)
    limit: float = 0.0
    peak: float = 0.0

    def ratio(self, name: str) -> float | None:
        """The compiled engine's rate over that of another."""
        return self.rate["compiled"] / self.rate[name] if name in self.rate else None


def ours(workload: Workload, data: Dataset, engine: str, threads: int = 1) -> Play:
    """Rounds of a simulation."""
    spec = RunSpec.from_mapping(
        {
            "dataset": "digits",  # a name: the rows are given
            "partition": "iid",
            "parties": workload.parties,
            "model": workload.model,
            "rounds": 10**6,
            "epochs": workload.epochs,
            "batch_size": workload.batch,
            "optimiser": f"sgd(momentum={MOMENTUM})",
            "lr": LR,
            "sample": (workload.cohort or workload.parties) / workload.parties,
            "validation": 0.0,
            "held_out": 0.0,
            "engine": engine,
            "threads": threads,
        }
    )
    simulation = Simulation(spec, data=data, say=lambda line: print(line, file=sys.stderr))
    if simulation.engine.name != engine:
        raise Failed(f"runs on the {simulation.engine.name} engine instead")

    def step() -> float:
        simulation.state, row = simulation.play_round()
        return float(row["accuracy"])

    return lambda: timed(step)


def timed(play: Callable[[], float]) -> Turn:
    """What a round in this process cost."""
    wall, cpu = time.perf_counter(), time.process_time()
    accuracy = play()
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "accuracy": accuracy}


def contenders(
    workload: Workload, turns: int, peers: bool, stack: ExitStack, engines: Sequence[str]
) -> dict[str, Play]:
    """Everybody who can play; who cannot is named in one line."""
    net = plain_net(workload)
    plain = PlainLoop(net, workload)
    data = dataset(workload)
    plays: dict[str, Callable[[], Play]] = {PLAIN: lambda: lambda: timed(plain.play)}
    for engine in engines:
        plays[engine] = lambda engine=engine: ours(workload, data, engine)  # type: ignore[misc]
    if workload.key in OF_THREADS and engines == ENGINES:
        plays[TWO] = lambda: ours(workload, data, "compiled", 2)
    if peers:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "net.pt"
        torch.save(net, file)
        job = {"workload": dataclasses.asdict(workload), "net": str(file), "turns": turns}
        for peer in PEERS:

            def start(peer: Any = peer) -> Play:
                worker = peer.start(job)
                stack.callback(worker.close)
                VERSIONS[peer.name] = worker.version
                return lambda: worker.ask({"play": 1})

            plays[peer.name] = start
    ready: dict[str, Play] = {}
    for name, prepare in plays.items():
        try:
            ready[name] = prepare()
        except Failed as error:
            print(f"{workload.key}: {name} does not take part: {error}", file=sys.stderr, flush=True)
    return ready


VERSIONS: dict[str, str] = {}


def measure(workload: Workload, repeats: int, peers: bool, engines: Sequence[str] = ENGINES) -> Found:
    """Everybody's medians over turns that are taken one after the other; the first turn is not counted."""
    turns: dict[str, list[Turn]] = {}
    limits: list[float] = []
    peaks: list[float] = []
    with ExitStack() as stack:
        playing = contenders(workload, repeats + 1, peers, stack, engines)
        for repeat in range(repeats + 1):
            limits.append(gemm.measure())
            peaks += [found_peak] if (found_peak := gemm.peak()) else []
            for name, play in list(playing.items()):
                try:
                    turn = play()
                except Failed as error:
                    print(f"{workload.key}: {name} gave up: {error}", file=sys.stderr, flush=True)
                    del playing[name]
                    turns.pop(name, None)
                    continue
                if repeat:
                    turns.setdefault(name, []).append(turn)
            print(f"{workload.key}: turn {repeat} of {repeats}", file=sys.stderr, flush=True)
    found = Found(workload)
    for name, played in turns.items():
        found.rate[name] = workload.trained / statistics.median(turn["cpu"] for turn in played)
        found.wall[name] = statistics.median(turn["wall"] for turn in played)
        found.accuracy[name] = played[-1]["accuracy"]
    forward, step = gemm.operations(plain_net(workload), workload.shape)
    found.limit = statistics.median(limits)
    found.peak = statistics.median(peaks) if peaks else 0.0
    seconds = (workload.trained * step + workload.test * forward) / found.limit
    found.rate[LIMIT] = workload.trained / seconds
    for name, accuracy in found.accuracy.items():
        if abs(accuracy - found.accuracy[PLAIN]) > APART:
            print(
                f"{workload.key}: {name} is at {accuracy:.3f}, {PLAIN} at {found.accuracy[PLAIN]:.3f}.",
                file=sys.stderr,
            )
    rates = ", ".join(f"{name} {rate:,.0f}" for name, rate in found.rate.items())
    print(f"{workload.key}: {rates}", file=sys.stderr, flush=True)  # should a later one fail
    return found


def cell(value: float | None, target: float | None = None, form: str = "{:.2f}") -> str:
    """A number, and in brackets what it is to reach."""
    shown = "-" if value is None else form.format(value)
    return shown if target is None else f"{shown} ({form.format(target)})"


def show(results: list[Found], repeats: int) -> str:
    """Both tables, and what they are of."""
    peers = [peer.name for peer in PEERS]
    columns = [PLAIN, *ENGINES, *peers, LIMIT]
    rates = [
        [
            f"{r.workload.key}: {r.workload.name}",
            *(cell(r.rate.get(name), form="{:,.0f}") for name in columns),
            " to ".join(f"{v:.2f}" for v in (min(r.accuracy.values()), max(r.accuracy.values()))),
        ]
        for r in results
    ]
    ratios = []
    for r in results:
        key = r.workload.key
        if "compiled" not in r.rate:
            continue
        of_limit = r.ratio(LIMIT)
        two = r.wall["compiled"] / r.wall[TWO] if TWO in r.wall else None
        ratios.append(
            [
                key,
                cell(r.ratio(PLAIN), TARGETS.get(key)),
                *(cell(r.ratio(peer), OF_PEER.get((key, peer))) for peer in peers),
                cell(of_limit, OF_LIMIT.get(key), "{:.0%}"),
                cell(of_limit * r.limit / r.peak if of_limit and r.peak else None, form="{:.0%}"),
                cell(two, OF_THREADS.get(key)),
            ]
        )
    versions = ", ".join(f"{name} {version}" for name, version in VERSIONS.items()) or "no peers"
    limit, peak = (statistics.median(getattr(r, name) for r in results) / 1e9 for name in ("limit", "peak"))
    return "\n\n".join(
        [
            f"Rows trained per CPU-second of whole rounds, one thread, medians of {repeats} interleaved "
            f"turns; {versions}; matrix products at {limit:.0f} "
            f"GFLOP/s, multiply-adds in registers at {peak:.0f}.\n{made()}",
            table(["work", *columns, "accuracies"], rates),
            "The compiled engine as a ratio to the others (targets in brackets); two threads to one by the clock.",
            table(["work", PLAIN, *peers, LIMIT, "multiply-adds", "two threads"], ratios),
        ]
    )


def main() -> None:
    """Measure, print, and write."""
    parser = options(__doc__, repeats=5)
    parser.add_argument("--without-peers", action="store_true", help="only ours and the plain loop")
    parser.add_argument("--engines", nargs="*", default=ENGINES, help="some of our engines; never writes")
    parser.add_argument(
        "--only", nargs="*", choices=[w.key for w in WORK], help="some of the workloads; never writes"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    chosen = [w.quick() if given.quick else w for w in WORK if not given.only or w.key in given.only]
    given.write &= not given.only and given.engines == ENGINES
    peers, engines = not given.without_peers, given.engines
    results = [measure(workload, given.repeats, peers, engines) for workload in chosen]
    publish("rounds", show(results, given.repeats), given)


if __name__ == "__main__":
    main()
