"""What the study trees-noniid shows: the table that ``unalike recommend`` goes by, and the one in docs/trees.md.

unalike study run trees-noniid --runs RUNS
python -m benchmarks.tree_evidence RUNS
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import unalike
import unalike.ranking
from benchmarks.report import ROOT, put, table
from unalike.models import MODELS
from unalike.partition import make_partition
from unalike.ranking.blocks import kind_of
from unalike.ranking.boosted import COLUMNS, LINEAR, NET, TREES, TreeRow, tree_rows
from unalike.runs.results import Record
from unalike.scores import figures_of, scores_of
from unalike.studies.study import load_study, study_results
from unalike.tallies import exact_auroc, tally_of

SCORES = ("accuracy", "auroc", "brier", "calibration_error")
ORDER = (TREES, "bagging", "local", NET, LINEAR)
TITLES = ("histogram trees", "bagging", "local, mean over parties", "FedAvg, mlp(32,16)", "FedAvg, logistic")
SPLITS = ("iid", "quantity-dirichlet(0.5)", "natural", "label-dirichlet(0.5)", "label-dirichlet(0.1)",
          "label-count(1)")  # fmt: skip


def method_of(record: Record) -> str:
    """The algorithm, and the net where it trains one."""
    model = MODELS.brief(MODELS.build(str(record.spec["model"])))
    if model.startswith("trees"):
        return record.algorithm
    return NET if model.startswith("mlp") else f"{record.algorithm} {model}"


def alone(record: Record) -> dict[str, float]:
    """The scores of parties that train alone, each on the global test set: their means, and the worst AUROC."""
    data, result = unalike.load_dataset(str(record.spec["dataset"])), unalike.load(str(record.folder))
    scores = scores_of("classification")
    each: list[dict[str, float]] = []
    for party in range(parties_of(record)):
        found = result.predict_proba(data.x_test, party=party)
        told = figures_of(scores, tally_of({name for one in scores for name in one.needs}, found, data.y_test))
        told["auroc"] = exact_auroc(found, data.y_test)
        each.append({name: value for name, value in told.items() if value is not None})
    means = {name: statistics.fmean(one[name] for one in each) for name in SCORES}
    return {**means, "worst_auroc": min(one["auroc"] for one in each)}


def parties_of(record: Record) -> int:
    """How many parties a run has."""
    data = unalike.load_dataset(str(record.spec["dataset"]))
    return make_partition(str(record.spec["partition"]), data, record.spec.get("parties"), record.seed).parties


def row(place: tuple[str, str, str], records: Sequence[Record]) -> list[Any]:
    """A line of the table: the means over seeds."""
    dataset, partition, method = place
    figures = [alone(one) if method == "local" else one.figures for one in records]
    mean = {name: statistics.fmean(float(one[name]) for one in figures) for name in SCORES}
    worst = [one["worst_auroc"] for one in figures if "worst_auroc" in one]
    told = [f"{100 * mean['accuracy']:.2f}", f"{mean['auroc']:.4f}", f"{mean['brier']:.4f}",
            f"{100 * mean['calibration_error']:.2f}"]  # fmt: skip
    last = f"{statistics.fmean(worst):.4f}" if worst else ""
    return [dataset, partition, parties_of(records[0]), kind_of(records), method, *told, last, len(records)]


def page(rows: Iterable[TreeRow]) -> str:
    """A line for each data set and split, a column for each way to train, as Markdown."""
    found: dict[tuple[str, str], dict[str, TreeRow]] = defaultdict(dict)
    for one in rows:
        found[one.dataset, one.partition][one.method] = one
    names = list(dict.fromkeys(dataset for dataset, _ in found))
    lines = []
    for place in sorted(found, key=lambda place: (names.index(place[0]), SPLITS.index(place[1]))):
        lines.append([f"{place[0]}, {place[1]}", *(_cell(found[place].get(name)) for name in ORDER)])
    return table(["rows, split", *TITLES], lines)


def _cell(one: TreeRow | None) -> str:
    if one is None:
        return "–"
    worst = "" if one.worst_auroc is None else f" (worst {one.worst_auroc:.3f})"
    return f"{one.accuracy:.1f} / {one.auroc:.3f}{worst} / {one.calibration_error:.1f}"


def same_models(records: Iterable[Record]) -> str:
    """How many different models histogram grew, by data set."""
    found: dict[str, list[str]] = defaultdict(list)
    for one in records:
        if method_of(one) == TREES:
            found[one.dataset].append(str(one.figures["model_sha256"]))
    return "; ".join(
        f"{name}: {len(shas)} runs, {len(set(shas))} model(s)" for name, shas in sorted(found.items())
    )


def main(folder: Path) -> None:
    """Write the table into the package, and into the page on trees."""
    path = Path(unalike.ranking.__file__).parent / "tables" / "trees.csv"
    results = study_results(load_study("trees-noniid"), folder)
    records = [record for found in results.settings for line in found.lines for record in line.finished]
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.dataset, record.partition, method_of(record)].append(record)
    lines = [row(place, groups[place]) for place in sorted(groups)]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *lines])
    tree_rows.cache_clear()
    put(ROOT / "docs" / "trees.md", "trees-noniid", page(tree_rows()))
    print(f"{len(lines)} lines in {file.name}\n{same_models(records)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
