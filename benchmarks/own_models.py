"""The table of models of the parties' own that ``unalike recommend --own-rows`` goes by, from its study's runs.

unalike study run docs/results/own-models.toml --runs RUNS
python -m benchmarks.own_models RUNS
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections import Counter
from pathlib import Path

import unalike.ranking
from benchmarks.report import ROOT, put, table
from unalike.data import load_dataset
from unalike.measure.situation import Situation, simulated_situation
from unalike.partition import make_partition
from unalike.ranking.blocks import KINDS, run_blocks
from unalike.ranking.deployed import by_own_models
from unalike.ranking.own_models import COLUMNS, SIMPLE, ranked, shipped_blocks
from unalike.runs.results import Setting, settings
from unalike.studies.study import load_study, study_results

STUDY = ROOT / "docs" / "results" / "own-models.toml"


def rows(found: Setting) -> list[list[object]]:
    """A line for each algorithm that has all seeds."""
    (block,) = run_blocks([found])
    seeds = set.union(*(set(each) for each in block.trials.values()))
    situations = [situation(found, seed) for seed in sorted(seeds)]
    kind, wishes = (Counter(getattr(one, name) for one in situations).most_common(1)[0][0] for name in
                    ("kind", "wishes"))  # fmt: skip
    place = [found.dataset, found.partition, found.spec["parties"], kind, wishes]
    made = []
    for trials in block.trials.values():
        if set(trials) == seeds and all(trial.value is not None for trial in trials.values()):
            text = next(iter(trials.values())).text
            mean, worst = (
                statistics.fmean(getattr(trial, name) for trial in trials.values())
                for name in ("value", "worst_tenth")
            )
            made.append([*place, text, f"{mean:.2f}", f"{worst:.2f}", len(seeds)])
    return sorted(made, key=str)


def situation(found: Setting, seed: int) -> Situation:
    """How unalike the parties of a setting are with a seed."""
    data = load_dataset(found.spec["dataset"])
    return simulated_situation(data, make_partition(found.spec["partition"], data, found.spec["parties"], seed))


def summary() -> str:
    """For each kind of situation, the means of the simple ways and how all others stand, as Markdown."""
    shipped_blocks.cache_clear()
    lines = []
    for kind, title in ((None, "the same rows, other labels"), *((kind, kind) for kind in KINDS)):
        blocks = shipped_blocks(kind)
        if (standing := ranked(blocks)) is None:
            continue
        ranking, reference = standing
        means = [
            statistics.fmean(block.value(name, block.trials[name]) or 0.0 for block in blocks) for name in SIMPLE
        ]
        better = [
            f"{one.algorithm} ({one.median_gain:+.1f}, p {one.p:.3f})" for one in ranking if one.shown_better
        ]
        others = [one for one in ranking if not one.shown_better and one.algorithm != reference]
        nearest = "none" + "".join(f"; next {one.algorithm} ({one.median_gain:+.1f})" for one in others[:1])
        lines.append(
            [title, str(len(blocks)), *(f"{mean:.1f}" for mean in means), reference, "; ".join(better) or nearest]
        )
    head = ["parties", "settings", "local", "FedAvg", "tuned", "best simple", "shown to be better (median gain)"]
    return table(head, lines)


def main(folder: Path) -> None:
    """Write the table into the package, and what follows from it into the page on advice.

    Parameters are those that the study chose on validation rows.
    """
    path = Path(unalike.ranking.__file__).parent / "tables" / "own-models.csv"
    results = study_results(load_study(str(STUDY)), folder)
    records = [record for found in results.settings for line in found.lines for record in line.finished]
    lines = [row for found in settings(by_own_models(records)) for row in rows(found)]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *lines])
    put(ROOT / "docs" / "advice.md", "own-models", summary())
    print(f"{len(lines)} lines in {file.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
