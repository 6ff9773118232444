"""Do two commits train to the same bits? Plays one list of runs with each of them on this machine and compares.

    python -m benchmarks.bits HEAD~1 .          # a commit, and the files as they are now
    python -m benchmarks.bits HEAD~1 HEAD --only scaffold

Every algorithm on every engine, stopped and resumed, through all kinds of channels, and as a federation of sites
in one process. Bits differ between CPUs and versions of torch, so there are no constants to compare with: a change
that is meant to keep the outcome is compared with the commit before it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

ENGINES = ("sequential", "vectorised", "compiled")
CHANNELS = (
    "clip(0.5)",
    "clip(0.5)+gauss(0.1)",
    "quantise(8)",
    "ternary",
    "topk(0.1)+quantise(8)",
    "masked",
    "clip(1.0)+masked(64)",
    "encrypted",
)
OPTIMISERS = ("sgd(weight_decay=0.01)", "rmsprop", "adam")
# Every value is written out: a commit with other defaults plays the same runs.
DIGITS: dict[str, Any] = {
    "dataset": "digits",
    "partition": "label-dirichlet(0.5)",
    "parties": 5,
    "model": "mlp(16,8)",
    "rounds": 3,
    "epochs": 1,
    "batch_size": 32,
    "optimiser": "sgd(momentum=0.9)",
    "lr": 0.02,
    "sample": 0.8,
    "engine": "sequential",
}
HEART = {**DIGITS, "dataset": "heart", "partition": "natural", "parties": 4, "model": "logistic", "sample": 1.0}
SITES = {key: DIGITS[key] for key in ("model", "rounds", "epochs", "batch_size", "optimiser", "lr")}
Runs = dict[str, Callable[[], str]]


def runs() -> Runs:
    """By name, what plays one run and gives its digest; made of the package that is imported."""
    from unalike.algorithms import ALGORITHMS

    names = [entry.name for entry in ALGORITHMS if entry.cls.__module__.startswith("unalike.")]
    made: Runs = {}
    for name in names:
        for engine in ENGINES:
            made[f"{name} {engine}"] = _simulated({**DIGITS, "algorithm": name, "engine": engine})
        made[f"{name} resumed"] = _resumed({**DIGITS, "algorithm": name})
        made[f"{name} sites"] = _sites({**SITES, "algorithm": name})
    for channel in CHANNELS:
        for name in ("fedavg", "scaffold"):
            made[f"{name} {channel}"] = _simulated({**DIGITS, "algorithm": name, "channel": channel})
    for channel in ("quantise(8)", "masked", "encrypted"):
        made[f"scaffold {channel} sites"] = _sites({**SITES, "algorithm": "scaffold", "channel": channel})
    for optimiser in OPTIMISERS:
        for engine in ENGINES:
            made[f"heart {optimiser} {engine}"] = _simulated({**HEART, "optimiser": optimiser, "engine": engine})
    return made


def _simulated(fields: dict[str, Any]) -> Callable[[], str]:
    def play() -> str:
        import unalike

        return str(unalike.run(**fields).figures["weights_sha256"])

    return play


def _resumed(fields: dict[str, Any]) -> Callable[[], str]:
    def play() -> str:
        import unalike

        with tempfile.TemporaryDirectory() as folder:
            try:
                unalike.run(**fields, runs=folder, watcher=_Stop())  # type: ignore[arg-type]  # all that is called
            except KeyboardInterrupt:
                return str(unalike.run(**fields, runs=folder).figures["weights_sha256"])
        raise RuntimeError("the run was not stopped")

    return play


class _Stop:
    """Follows a run and stops it after its second round."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given, **named: None

    def round_done(self, row: dict[str, Any]) -> None:
        if row["round"] == 2:
            raise KeyboardInterrupt


def _sites(train: dict[str, Any]) -> Callable[[], str]:
    def play() -> str:
        inside = import_module("tests.federation.inside")  # of that commit, whose sites it knows
        with tempfile.TemporaryDirectory() as folder:
            return str(inside.World.make(Path(folder), train=train).serve()["server_sha256"])

    return play


def play(only: str) -> None:
    """Play the list and print each digest, a JSON line a run; what fails is its error."""
    for name, run in runs().items():
        if only in name:
            try:
                digest = run()
            except Exception as error:  # the others are still worth knowing
                digest = f"{type(error).__name__}: {error}"
            print(json.dumps([name, digest]), flush=True)


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """A folder with the files of a revision; a folder stays as it is."""
    if Path(revision).is_dir():
        yield Path(revision).resolve()
        return
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", path, revision], check=True)
        try:
            yield path
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", path], check=True)


def digests(revision: str, only: str) -> dict[str, str]:
    """Each run's digest with the package of a revision."""
    with checkout(revision) as folder:
        paths = os.pathsep.join([str(folder / "src"), str(folder)])
        command = [sys.executable, str(Path(__file__).resolve()), "--play", "--only", only]
        environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as child:
            assert child.stdout is not None
            found = {}
            for line in child.stdout:
                name, digest = json.loads(line)
                found[name] = digest
                print(f"\r{revision}: {len(found)} runs", end="", file=sys.stderr)
        print(file=sys.stderr)
        if child.returncode or not found:
            raise SystemExit(f"{revision}: the runs could not be played (exit code {child.returncode}).")
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revisions", nargs="*", metavar="REVISION", help="two commits, or folders with a checkout")
    parser.add_argument("--only", default="", help="runs whose name has this in it")
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play:
        play(given.only)
        return
    if len(given.revisions) != 2:
        parser.error("two revisions are compared: python -m benchmarks.bits HEAD~1 .")
    old, new = (digests(revision, given.only) for revision in given.revisions)
    others = [name for name in old.keys() | new.keys() if old.get(name) != new.get(name)]
    for name in sorted(others):
        print(f"{name}: {old.get(name, 'not there')[:60]} -> {new.get(name, 'not there')[:60]}")
    failed = sorted(name for name in old.keys() & new.keys() if ":" in old[name] and old[name] == new[name])
    for name in failed:
        print(f"{name}: fails on both: {old[name][:100]}")
    same = len(old.keys() | new.keys()) - len(others) - len(failed)
    print(f"{same} runs have the same bits, {len(others)} differ, {len(failed)} fail.")
    sys.exit(bool(others or failed))


if __name__ == "__main__":
    main()
