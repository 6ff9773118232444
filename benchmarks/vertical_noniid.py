"""What the study vertical-noniid shows: its table as CSV, the one in the docs, and the picture.

unalike study run vertical-noniid --runs RUNS
python -m benchmarks.vertical_noniid RUNS
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import ROOT, put, table
from unalike.runs.results import Record
from unalike.studies.study import load_study, study_results

NAME = "vertical-noniid"
METHODS = {"vertical": "linear model", "secureboost": "boosted trees", "split-net": "split net"}
JOINED = {
    "vertical": ("pooled", "logistic"),
    "secureboost": ("histogram", "trees"),
    "split-net": ("pooled", "mlp"),
}
COLUMNS = ("dataset", "partition", "method", "accuracy", "deviation", "alone", "joined", "runs")
PICTURE = ROOT / "docs" / "vertical-noniid.svg"
CSV = ROOT / "docs" / "results" / "vertical-noniid.csv"
PAGE = ROOT / "docs" / "partitions.md"


class Cell(NamedTuple):
    """Accuracies in percent, over seeds: together, of the label holder alone, and on the joined table."""

    dataset: str
    partition: str
    method: str
    accuracy: float
    deviation: float
    alone: float
    joined: float
    runs: int

    @property
    def loss(self) -> float:
        """By how many points the split is below the joined table."""
        return self.joined - self.accuracy


def cells(records: Sequence[Record]) -> list[Cell]:
    """A cell for each data set, split and method with runs of all seeds, in the order of the study."""
    seeds = len(load_study(NAME).seeds)
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    joined: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for record in records:
        method = record.algorithm.partition("(")[0]
        if method in METHODS:
            groups[record.dataset, record.partition, method].append(record)
        else:
            model = str(record.spec["model"]).partition("(")[0]
            joined[record.dataset, method, model].append(100 * float(record.figures["accuracy"]))
    found = []
    for (dataset, partition, method), own in groups.items():
        together = [100 * float(one.figures["accuracy"]) for one in own]
        alone = statistics.fmean(100 * float(one.figures["alone"]) for one in own)
        whole = joined[dataset, *JOINED[method]]
        if whole and len(own) == seeds:
            mean, spread = statistics.fmean(together), statistics.pstdev(together)
            found.append(Cell(dataset, partition, method, mean, spread, alone, statistics.fmean(whole), len(own)))
    return found


def page(found: Sequence[Cell]) -> str:
    """A line for each data set and split; for each method the split, the joined table, and alone."""
    lines = []
    by_place = {(one.dataset, one.partition, one.method): one for one in found}
    for dataset, partition in dict.fromkeys((one.dataset, one.partition) for one in found):
        told = []
        for method in METHODS:
            one = by_place.get((dataset, partition, method))
            told.append("–" if one is None else f"{one.accuracy:.1f} / {one.joined:.1f} / {one.alone:.1f}")
        lines.append([f"{dataset}, `{partition}`", *told])
    return table(["together / joined / alone", *METHODS.values()], lines)


def picture(found: Sequence[Cell], path: Path) -> None:
    """For each method a panel: points below the joined table, split by split."""
    from unalike.report.figures import PALETTE, drawing, new_figure

    splits = list(dict.fromkeys(one.partition for one in found))
    datasets = list(dict.fromkeys(one.dataset for one in found))
    with drawing(8.5):
        figure = new_figure(11, 1.3 + 0.24 * len(splits))
        panels = figure.subplots(1, len(METHODS), sharey=True)
        for axes, (method, title) in zip(panels, METHODS.items(), strict=True):
            axes.axvline(0, color="#999999", linewidth=0.8)
            for place, dataset in enumerate(datasets):
                own = [one for one in found if (one.method, one.dataset) == (method, dataset)]
                axes.plot([-one.loss for one in own], [splits.index(one.partition) for one in own], "o",
                          color=PALETTE[place].colour, markersize=5, alpha=0.85, label=dataset)  # fmt: skip
            axes.set_title(title, loc="left", fontweight="bold")
            axes.set_xlabel("points of accuracy against the joined table")
        panels[0].set_yticks(range(len(splits)), splits)
        panels[0].invert_yaxis()
        panels[0].legend(frameon=False, fontsize=7.5)
        figure.tight_layout()
        figure.savefig(path)


def main(folders: Sequence[Path]) -> None:
    """Write the CSV, the picture and the table of the page."""
    records = {}
    for folder in folders:
        results = study_results(load_study(NAME), folder)
        for record in (one for setting in results.settings for line in setting.lines for one in line.finished):
            records[record.key] = record
    found = cells(list(records.values()))
    with CSV.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([*one[:3], *(f"{number:.2f}" for number in one[3:7]), one.runs] for one in found)
    picture(found, PICTURE)
    put(PAGE, NAME, page(found))
    for method, title in METHODS.items():
        losses = [one.loss for one in found if one.method == method]
        if losses:
            span = f"{min(losses):.1f} to {max(losses):.1f}"
            print(f"{title}: {len(losses)} splits, {span} points below the joined table")


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
