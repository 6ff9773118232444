"""Are whole rounds as fast as at another commit? Both play in turns, a process each, on this machine.

    python -m benchmarks.commits 23f6ae9 .                       # W1 to W4 on the compiled engine
    python -m benchmarks.commits HEAD~1 . --only W3 --engine vectorised

Compared is the CPU time of a round (training, sums, evaluation): the median over turns of new / old.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.bits import checkout
from benchmarks.rounds import WORK

# Run by each commit in its own folder, with its own package and workloads.
CHILD = """
import sys
from benchmarks.rounds import WORK, ours
from benchmarks.work import dataset
key, engine = sys.argv[1:]
work = next(work for work in WORK if work.key == key)
play = ours(work, dataset(work), engine)
print("ready", flush=True)
for line in sys.stdin:
    print(play()["cpu"], flush=True)
"""


class Commit:
    """A process that plays rounds with the package of one commit."""

    def __init__(self, folder: Path, key: str, engine: str) -> None:
        paths = os.pathsep.join([str(folder / "src"), str(folder)])
        self._child = subprocess.Popen(
            [sys.executable, "-c", CHILD, key, engine],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        if self._line() != "ready":
            raise SystemExit(f"{folder} cannot play {key} on {engine}.")

    def seconds(self) -> float:
        """CPU seconds of one more round."""
        assert self._child.stdin is not None
        print("play", file=self._child.stdin, flush=True)
        return float(self._line())

    def close(self) -> None:
        """End the process."""
        self._child.kill()
        self._child.wait()

    def _line(self) -> str:
        assert self._child.stdout is not None
        return self._child.stdout.readline().strip()


def main() -> None:
    """Compare two commits and print a line a workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a git revision or a folder")
    parser.add_argument("new", help="a git revision or a folder")
    parser.add_argument("--only", default="", help="workloads whose key has this in it")
    parser.add_argument("--engine", default="compiled")
    parser.add_argument("--turns", type=int, default=11)
    given = parser.parse_args()
    with ExitStack() as stack:
        folders = [stack.enter_context(checkout(which)) for which in (given.old, given.new)]
        for work in (work for work in WORK if given.only in work.key):
            old, new = (Commit(folder, work.key, given.engine) for folder in folders)
            ratios, cost = [], []
            for turn in range(given.turns + 1):
                first, second = old.seconds(), new.seconds()
                if turn:  # the first warms caches up
                    ratios.append(second / first)
                    cost.append(second)
            old.close()
            new.close()
            spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
            print(
                f"{work.key:4} {given.engine}: new / old {statistics.median(ratios):.3f} ({spread}), "
                f"{statistics.median(cost):.3f} s a round",
                flush=True,
            )


if __name__ == "__main__":
    main()
