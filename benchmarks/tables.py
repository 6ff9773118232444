"""How long a large CSV file takes to be read, typed and coded, and how much memory: commits, in turns.

    python -m benchmarks.tables                     # 1,000,000 rows of 11 columns; with pyarrow, and without it
    python -m benchmarks.tables 2dc8825 . --turns 5

Every turn is a fresh process. Time is CPU time, memory the peak beyond what the process had before.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import NamedTuple

from benchmarks.bits import checkout

CHILD = """
import resource, sys, time
path, without, task = sys.argv[1:]
if without:
    sys.modules["pyarrow"] = None
else:
    import pyarrow.csv
from unalike.data.table import CSV
table = CSV(path, missing="indicate")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
kinds = [column.type for column in table.columns()] if task == "typed" else [table.load().digest]
took = time.process_time() - start
print(took, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, ",".join(kinds))
"""
TASKS = ("typed", "coded")
HEADER = "age,sex,chest_pain,pressure,cholesterol,smokes,rate,born,weight,marker,outcome"


def write_table(path: Path, rows: int) -> None:
    """A table of patients: numbers with few and with many values, yes and no, texts, dates, and some gaps."""
    draw = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        file.write(HEADER + "\n")
        for _ in range(rows):
            cells = (
                draw.randrange(18, 95),
                "fm"[draw.random() < 0.5],
                draw.choice(("typical", "atypical", "none")),
                "" if draw.random() < 0.03 else draw.randrange(90, 200),
                draw.randrange(120, 400),
                ("no", "yes")[draw.random() < 0.3],
                draw.randrange(60, 200),
                f"{draw.randrange(1930, 2006)}-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}",
                f"{draw.uniform(45, 120):.2f}",
                f"{draw.gauss(0, 1):.6f}",
                ("healthy", "disease")[draw.random() < 0.4],
            )
            file.write(",".join(map(str, cells)) + "\n")


class Way(NamedTuple):
    """A commit that reads the table, with pyarrow or without it."""

    commit: str
    without: bool
    task: str


def turn(folder: Path, table: Path, way: Way) -> tuple[float, float, str]:
    """Seconds, megabytes and what was found, of one process."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CHILD, str(table), "without" if way.without else "", way.task]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds, megabytes, found = done.stdout.split()
    return float(seconds), float(megabytes), found


def main() -> None:
    """Read the table in turns, and print a line for each commit and way of reading."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", default=["."], help="git revisions or folders [.]")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    with ExitStack() as stack:
        table = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "patients.csv"
        write_table(table, given.rows)
        size = table.stat().st_size
        folders = {which: stack.enter_context(checkout(which)) for which in given.commits}
        ways = [Way(which, *rest) for which in folders for rest in product((False, True), TASKS)]
        turns: dict[Way, list[tuple[float, float, str]]] = {way: [] for way in ways}
        for _ in range(given.turns):
            for way in ways:
                turns[way].append(turn(folders[way.commit], table, way))
    print(f"{given.rows:,} rows, {size / 1e6:.0f} MB, medians of {given.turns} turns\n")
    print("| commit | pyarrow | typed (s) | (MB) | typed and coded (s) | (MB) |\n|---|---|---:|---:|---:|---:|")
    for which, without in product(folders, (False, True)):
        cells = []
        for task in TASKS:
            seconds, megabytes, _ = zip(*turns[Way(which, without, task)], strict=True)
            cells += [f"{statistics.median(seconds):.1f}", f"{statistics.median(megabytes):.0f}"]
        print(f"| {which} | {'no' if without else 'yes'} | {' | '.join(cells)} |")
    for task in TASKS:
        assert len({found for way, each in turns.items() if way.task == task for _, _, found in each}) == 1


if __name__ == "__main__":
    main()
