"""Time and peak memory of every split, and the size of its file: 1,000,000 rows for 10,000 parties.

python -m benchmarks.partitions              # prints a Markdown table; each line is measured in a fresh process
python -m benchmarks.partitions --parties 500 --rows 60000
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SPLITS = [
    "iid",
    "label-dirichlet(0.3)",
    "label-dirichlet(0.05)",
    "label-dirichlet(0.3, balanced=true)",
    "label-count(2)",
    "shards(2)",
    "similarity(10)",
    "quantity-dirichlet(0.5)",
    "quantity-power(1)",
    "natural",
    "by(time)",
    "temporal",
    "temporal(drift, by=time)",
]
LABELS, GROUPS = 10, 50_000


def measure(split: str, rows: int, parties: int) -> dict[str, float]:
    """Make one partition, save it and read it again; once in a process, as the peak is that of its whole life."""
    import numpy as np

    from unalike.data import Dataset
    from unalike.partition import load_partition, make_partition, save_partition

    rng = np.random.default_rng(0)
    groups = max(parties, min(GROUPS, rows // 10))
    group = np.arange(rows) % groups
    dataset = Dataset(
        name="made",
        x=rng.random((rows, 1), np.float32),
        y=rng.integers(0, LABELS, rows),
        x_test=np.zeros((1, 1), np.float32),
        y_test=np.zeros(1, np.int64),
        classes=tuple(map(str, range(LABELS))),
        features=("time",),
        group=group,
        group_names=tuple(f"group {number}" for number in range(groups)),
    )
    before, start = _peak(), time.perf_counter()
    partition = make_partition(split, dataset, parties, 0)
    made, peak = time.perf_counter() - start, _peak()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "partition.npz"
        start = time.perf_counter()
        save_partition(path, partition, dataset, 0)
        load_partition(path)
        stored, size = time.perf_counter() - start, path.stat().st_size
    return {"seconds": made, "before": before, "peak": peak, "stored": stored, "size": size / 1e6}


def _peak() -> float:
    """The most memory this process has had, in MB (Linux counts in kB, macOS in bytes)."""
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--parties", type=int, default=10_000)
    parser.add_argument("--one", help="measure one split here and print JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.rows, options.parties)))
        return
    print(f"{options.rows:,} rows, {options.parties:,} parties, {LABELS} labels\n")
    print("| partition | time (s) | peak memory (MB) | of which data and program | save + load (s) | file (MB) |")
    print("|---|---:|---:|---:|---:|---:|")
    shared = ["--rows", str(options.rows), "--parties", str(options.parties)]
    for split in SPLITS:
        command = [sys.executable, "-m", "benchmarks.partitions", "--one", split, *shared]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        numbers = f"{found['seconds']:.2f} | {found['peak']:.0f} | {found['before']:.0f}"
        print(f"| {split} | {numbers} | {found['stored']:.2f} | {found['size']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
