"""The project's own runs of NIID-Bench's Table 3, as a table that ships with the package beside the published one.

python -m benchmarks.own_table

Reads docs/results/niid-table3.csv (``python -m benchmarks.results niid-table3``), leaves out the runs that only
tuned mu, and writes src/unalike/ranking/tables/unalike-table3.csv: a line for each run, with the paper's names of
the cells.
"""

from __future__ import annotations

import csv
from pathlib import Path

import unalike.ranking
from benchmarks.report import ROOT
from unalike.ranking.published import OURS, published
from unalike.ranking.shipped import COLUMNS, PUBLISHED
from unalike.runs.parts import registry
from unalike.runs.results import brief
from unalike.studies.study import load_study

RUNS = ROOT / "docs" / "results" / "niid-table3.csv"
TABLE = Path(unalike.ranking.__file__).parent / "tables" / f"{OURS}.csv"


def main() -> None:
    """Write the table anew."""
    cells = {(cell.dataset, cell.our_partition): cell.partition for cell in published(PUBLISHED)}
    base = load_study("niid-table3").base
    lines = []
    with RUNS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["state"] == "unfinished" or any(
                float(row[name]) != base[name] for name in ("rounds", "validation")
            ):
                continue
            dataset, partition, algorithm = (brief(registry(name), row[name]) for name in COLUMNS[:3])
            accuracy = f"{100 * float(row['accuracy']):.2f}" if row["state"] == "finished" else ""
            lines.append([dataset, cells[dataset, partition], algorithm, int(row["seed"]), accuracy])
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *sorted(lines)])
    print(f"{len(lines)} runs in {TABLE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
