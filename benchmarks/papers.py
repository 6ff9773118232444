"""Our accuracies next to the papers', on real data: ``python -m benchmarks.papers niid-mnist|niid-adult|rfedavg-mnist``.

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

from unalike.engine.run import Result, run
from unalike.engine.spec import RunSpec

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Table:
    """A part of a paper's table: the setting, and the accuracy in percent that the paper gives for each cell."""

    setting: dict[str, Any]
    algorithms: tuple[str, ...]
    published: dict[str, tuple[str, ...]]
    """by partition, in the order of the algorithms; "-" where the paper has no such cell"""

    def specs(self) -> Iterator[tuple[str, str, RunSpec]]:
        """Partition, algorithm and run of each cell, seed by seed."""
        for seed in SEEDS:
            for partition in self.published:
                for algorithm in self.algorithms:
                    fields = {**self.setting, "partition": partition, "algorithm": algorithm, "seed": seed}
                    yield partition, algorithm, RunSpec.from_mapping(fields)


NIID = ("fedavg", "fedprox(0.01)", "scaffold", "fednova")
_WHOLE = {"validation": 0.0, "held_out": 0.0, "evaluate_every": 10**6}  # the papers train on all rows

TABLES = {
    "niid-mnist": Table(
        {**_WHOLE, "dataset": "mnist", "rounds": 10, "epochs": 1},
        NIID,
        {
            "label-dirichlet(0.5)": ("98.9±0.1", "98.9±0.1", "99.0±0.1", "99.0±0.1"),
            "label-count(1)": ("29.8±7.9", "40.9±23.1", "9.9±0.2", "31.6±21.2"),
            "label-count(2)": ("97.0±0.4", "96.4±0.3", "95.9±0.3", "96.8±0.6"),
            "quantity-dirichlet(0.5)": ("99.2±0.1", "99.2±0.1", "99.1±0.1", "99.1±0.1"),
        },
    ),
    "niid-adult": Table(
        {**_WHOLE, "dataset": "adult", "rounds": 20, "epochs": 10},
        NIID,
        {
            "label-dirichlet(0.5)": ("78.4±0.9", "80.5±0.7", "76.4±0.0", "62.0±7.9"),
            "label-count(1)": ("82.5±2.2", "76.4±0.0", "23.6±0.0", "51.6±1.5"),
            "label-count(2)": ("-", "-", "-", "-"),
            "quantity-dirichlet(0.5)": ("82.2±0.1", "84.8±0.2", "81.6±4.5", "55.3±23.6"),
        },
    ),
    "rfedavg-mnist": Table(
        {
            **_WHOLE,
            "dataset": "mnist",
            "model": "fedavg-cnn",
            "parties": 20,
            "rounds": 20,
            "steps": 5,
            "batch_size": 100,
            "lr": 0.1,
            "optimiser": "sgd",
            "public": 0.8,
        },
        ("fedavg", "rfedavg(0.0001)", "rfedavg+(0.0001)"),
        {"similarity(0)": ("97.07±0.34", "97.88±0.07", "98.02±0.03")},
    ),
}


def show(table: Table, results: dict[tuple[str, str], list[float]]) -> str:
    """The table as Markdown: ours and the paper's, in percent."""
    lines = [
        "| partition | " + " | ".join(f"{a}: ours | paper" for a in table.algorithms) + " |",
        "|---" * (2 * len(table.algorithms) + 1) + "|",
    ]
    for partition, published in table.published.items():
        cells = [
            f"{_spread(results.get((partition, algorithm), []))} | {paper}"
            for algorithm, paper in zip(table.algorithms, published, strict=True)
        ]
        lines.append(f"| `{partition}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    if not values:
        return "-"
    spread = f"±{100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.fmean(values):.1f}{spread}" + ("" if len(values) == len(SEEDS) else f" ({len(values)})")


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
        print(f"{spec.partition} {spec.algorithm} seed {spec.seed}: {100 * (result.accuracy or 0):.2f}%", flush=True)
    print(show(table, results))


if __name__ == "__main__":
    main()
