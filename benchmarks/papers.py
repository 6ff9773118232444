"""Our accuracies next to the papers', on real data: ``python -m benchmarks.papers niid-mnist`` (and others).

Runs are kept (``--runs``): a second call goes on where a stopped one left off and prints what there is. The rounds
are fewer than the papers', as each table says.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unalike.bench.published import published
from unalike.engine.run import Result, run
from unalike.engine.spec import RunSpec

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Table:
    """A part of a paper's table, in a setting that may be smaller than the paper's."""

    source: str
    setting: dict[str, Any]
    partitions: tuple[str, ...]
    algorithms: tuple[str, ...]
    paper_setting: str = ""

    def specs(self) -> Iterator[tuple[str, str, RunSpec]]:
        """Partition, algorithm and run of each cell, seed by seed."""
        for seed in SEEDS:
            for partition in self.partitions:
                for algorithm in self.algorithms:
                    fields = {**self.setting, "partition": partition, "algorithm": algorithm, "seed": seed}
                    yield partition, algorithm, RunSpec.from_mapping(fields)

    def paper(self, partition: str, algorithm: str) -> str:
        """The paper's number for a cell, in percent; "-" where it has none."""
        wanted = (self.setting["dataset"], partition, algorithm.split("(")[0], self.paper_setting)
        found = [
            cell
            for cell in published(self.source)
            if (cell.dataset, cell.partition, cell.algorithm, cell.setting) == wanted
        ]
        return str(found[0]) if found else "-"


NIID = ("fedavg", "fedprox(0.01)", "scaffold", "fednova")
# Nothing is held out, as in the papers. Where `public` is given, so many rows are left unused, to save time.
_WHOLE = {"validation": 0.0, "held_out": 0.0, "evaluate_every": 10**6}

NIID_SPLITS = ("label-dirichlet(0.5)", "label-count(1)", "label-count(2)", "quantity-dirichlet(0.5)")

TABLES = {
    "niid-mnist": Table(
        "niid-bench-table3",
        {**_WHOLE, "dataset": "mnist", "rounds": 10, "epochs": 1, "public": 0.5},
        NIID_SPLITS,
        NIID,
    ),
    "niid-adult": Table(
        "niid-bench-table3", {**_WHOLE, "dataset": "adult", "rounds": 20, "epochs": 10}, NIID_SPLITS, NIID
    ),
    "rfedavg-mnist": Table(
        "rfedavg-tables1-2",
        {
            **_WHOLE,
            "dataset": "mnist",
            "model": "fedavg-cnn",
            "parties": 20,
            "rounds": 10,
            "steps": 5,
            "batch_size": 100,
            "lr": 0.1,
            "optimiser": "sgd",
            "public": 0.8,
        },
        ("similarity(0)",),
        ("fedavg", "rfedavg(0.0001)", "rfedavg+(0.0001)"),
        "cross-silo",
    ),
}


def show(table: Table, results: dict[tuple[str, str], list[float]]) -> str:
    """The table as Markdown: ours and the paper's, in percent."""
    lines = [
        "| partition | " + " | ".join(f"{a}: ours | paper" for a in table.algorithms) + " |",
        "|---" * (2 * len(table.algorithms) + 1) + "|",
    ]
    for partition in table.partitions:
        cells = [
            f"{_spread(results.get((partition, algorithm), []))} | {table.paper(partition, algorithm)}"
            for algorithm in table.algorithms
        ]
        lines.append(f"| `{partition}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    if not values:
        return "-"
    spread = f"±{100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.fmean(values):.1f}{spread}" + (
        "" if len(values) == len(SEEDS) else f" ({len(values)})"
    )


def main() -> None:
    """Run one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    chosen = parser.parse_args()
    table = TABLES[chosen.table]
    results: dict[tuple[str, str], list[float]] = {}
    for partition, algorithm, spec in table.specs():
        result: Result = run(spec, runs=chosen.runs)
        results.setdefault((partition, algorithm), []).append(result.accuracy or 0.0)
        print(
            f"{spec.partition} {spec.algorithm} seed {spec.seed}: {100 * (result.accuracy or 0):.2f}%", flush=True
        )
    print(show(table, results))


if __name__ == "__main__":
    main()
