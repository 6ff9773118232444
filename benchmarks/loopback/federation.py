"""A federation of so many sites on loopback, and what each of its exchanges cost."""

from __future__ import annotations

import csv
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from pathlib import Path

from benchmarks.loopback.clocked import ANSWER, EVALUATION, EXCHANGE, ROUND, TRAINING, TRYING
from benchmarks.report import ROOT

PATIENCE = 240.0
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
UNALIKE = (sys.executable, "-c", "from unalike.cli.start import main; main()")
WARM = 3
"""Rounds that come first and are not counted."""


@dataclass(frozen=True)
class Clocked:
    """Something that a process did: when, and the CPU seconds of it and of the whole process until then."""

    what: str
    began: float
    ended: float
    cpu: float
    process: float

    @property
    def seconds(self) -> float:
        """How long it took by the clock."""
        return self.ended - self.began


@dataclass(frozen=True)
class Trip:
    """One trip to all sites and back, or a whole round of them."""

    seconds: float
    work: tuple[float, ...]
    """CPU seconds of each site's own work in it: training, or trying the model"""

    @property
    def itself(self) -> float:
        """The least time that this machine needs for it: its cores share it, a site's own is one thread's."""
        return max(max(self.work), sum(self.work) / CORES)

    @property
    def overhead(self) -> float:
        """What it took beyond the work itself."""
        return self.seconds - self.itself


@dataclass(frozen=True)
class Found:
    """What the rounds of a federation cost."""

    exchanges: list[Trip]
    evaluations: list[Trip]
    rounds: list[Trip]
    cpu: float
    """CPU seconds of all processes in a round, beyond the sites' own work"""


def play(folder: Path, sites: int, rounds: int, model: str, more: Sequence[str] = ()) -> Found:
    """Train in real processes, as a user would, and read their clocks."""
    names = [f"site{number:02d}" for number in range(sites)]
    write_tables(folder / "tables", names)
    address = f"127.0.0.1:{free_port()}"
    parties = [word for name in names for word in ("--party", name)]
    usual = ["--label", "outcome", "--missing", "indicate", "--address", address, "--model", model]
    train = ["--epochs", "1", "--batch-size", "16", "--lr", "0.05", "--rounds", str(WARM + rounds)]
    call(folder, "init", "server", *parties, *usual, *train, *more)
    with ExitStack() as stack:
        clocks = {name: folder / f"{name}.clock" for name in ("server", *names)}
        for name in names:
            shutil.copytree(folder / "server" / "invitations" / name, folder / name)
            table = ["--data", f"csv:tables/{name}.csv", "--label", "outcome", "--yes"]
            stack.enter_context(clocked(folder, clocks[name], "join", name, *table))
        stack.enter_context(clocked(folder, clocks["server"], "serve", "server"))
        cards = [folder / name / f"{name}.public.json" for name in names]
        until(lambda: all(card.exists() for card in cards), "a site did not join")
        call(folder, "admit", "server", *map(str, cards))
        call(folder, "run", "server", "--quiet")
    return _read(clocks)


def _read(clocks: dict[str, Path]) -> Found:
    lines = {name: [Clocked(*json.loads(line)) for line in path.open()] for name, path in clocks.items()}
    server = lines.pop("server")
    counted = [each for each in server if each.what == ROUND][WARM:]
    first, last = counted[0].began, counted[-1].ended

    def trips(what: str, works: Sequence[str], whole: list[Clocked] | None = None) -> list[Trip]:
        found = whole or [each for each in server if each.what == what and first <= each.began <= last]
        return [Trip(each.seconds, tuple(_within(each, own, works) for own in lines.values())) for each in found]

    begins = [each.began for each in counted]
    whole = [Clocked(ROUND, a, b, 0, 0) for a, b in pairwise(begins)]  # with its checkpoint
    rounds = trips(ROUND, (TRAINING, TRYING), whole)
    cpu = _process(server, ROUND, first, last) + sum(_process(own, ANSWER, first, last) for own in lines.values())
    work = sum(sum(trip.work) for trip in rounds) / len(rounds)
    found = trips(EXCHANGE, (TRAINING,)), trips(EVALUATION, (TRYING,))
    return Found(*found, rounds, cpu / (len(counted) - 1) - work)


def _within(trip: Clocked, own: list[Clocked], works: Sequence[str]) -> float:
    return sum(each.cpu for each in own if each.what in works and trip.began <= each.began <= trip.ended)


def _process(own: list[Clocked], what: str, first: float, last: float) -> float:
    """CPU seconds of a process between two moments, nearly: from the first thing that ended there to the last."""
    ends = [each.process for each in own if each.what == what and first <= each.ended <= last]
    return ends[-1] - ends[0]


def write_tables(folder: Path, names: Sequence[str]) -> None:
    """All patients of the ``heart`` data, dealt out evenly."""
    folder.mkdir(parents=True)
    source = (resources.files("unalike.data") / "vendored" / "heart.csv").read_text(encoding="utf-8")
    patients = list(csv.DictReader(source.splitlines()))
    columns = [name for name in patients[0] if name not in ("hospital", "num")]
    for number, name in enumerate(names):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([*columns, "outcome"])
            for patient in patients[number :: len(names)]:
                sick = "disease" if int(patient["num"]) else "healthy"
                writer.writerow([*(patient[column] for column in columns), sick])


def environment() -> dict[str, str]:
    """What processes are started with: this package, unless another is asked for, and one thread."""
    paths = os.environ.get("PYTHONPATH") or str(ROOT / "src")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([paths, str(ROOT)]), "OMP_NUM_THREADS": "1"}


def call(folder: Path, *args: str) -> None:
    """One command of ``unalike federation``, to its end."""
    done = subprocess.run(
        [*UNALIKE, "federation", *args], cwd=folder, env=environment(), capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"federation {args[0]} failed: {done.stdout}{done.stderr}")


@contextmanager
def clocked(folder: Path, clock: Path, *args: str) -> Iterator[None]:
    """A command of ``unalike federation`` with clocks, while it is entered; it is asked to end then."""
    command = [sys.executable, "-m", "benchmarks.loopback.clocked", str(clock), "federation", *args]
    with clock.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def until(condition: Callable[[], bool], problem: str) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(problem)
        time.sleep(0.05)


def free_port() -> int:
    """A port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
