"""Algorithms of a study beside FedAvg, seed by seed: by how much they differ, and whether chance would do it.

python -m benchmarks.results docs/results/rfedavg-epochs.toml --runs RUNS --csv --keep
python -m benchmarks.pairs docs/results/rfedavg-epochs.toml

Reads docs/results/NAME.csv and writes a table between the comments NAME-pairs of docs/results.md. The test is
exact: if an algorithm were no other than FedAvg, each seed's difference would be as likely to have the other sign;
p is the share of all signs under which the mean would be at least as far from zero. The interval is Student's,
95 %.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from scipy.stats import t

from benchmarks.report import put, table
from benchmarks.results import PAGE
from unalike.ranking.published import published
from unalike.ranking.standing import REFERENCE
from unalike.runs.parts import registry
from unalike.runs.results import brief
from unalike.studies.study import load_study
from unalike.studies.study_file import Study

HEAD = ["split", "algorithm", "seeds", "accuracy", "paper", "over FedAvg", "95 % interval", "p", "by seed"]
Found = dict[str, dict[int, float]]
"""By algorithm and seed, accuracy in percent."""


def sign_flips(differences: Sequence[float]) -> float:
    """The exact two-sided p of a mean difference over all assignments of signs."""
    reached = abs(sum(differences)) - 1e-9
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(found >= reached for found in sums) / len(sums)


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Student's, of the mean, 95 %."""
    mean, count = statistics.fmean(differences), len(differences)
    half = float(t.ppf(0.975, count - 1)) * statistics.stdev(differences) / count**0.5
    return mean - half, mean + half


def read(file: Path) -> dict[tuple[str, str], Found]:
    """By data set and partition, the finished runs of a file."""
    found: dict[tuple[str, str], Found] = defaultdict(lambda: defaultdict(dict))
    with file.open(encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            if row["state"] == "finished":
                dataset, partition, name = (
                    brief(registry(field), row[field]) for field in ("dataset", "partition", "algorithm")
                )
                found[dataset, partition][name][int(row["seed"])] = 100 * float(row["accuracy"])
    return found


def row_of(place: tuple[str, str], name: str, found: Found, papers: Mapping[tuple[str, ...], str]) -> list[str]:
    """One algorithm's line: its accuracy, and how it differs from FedAvg on the seeds that both have."""
    values, plain = found[name], found[REFERENCE]
    spread = f"±{statistics.stdev(values.values()):.2f}" if len(values) > 1 else ""
    paper = papers.get((place[0].split("(")[0], place[1], name.split("(")[0]), "")
    line = [f"{place[0]}, `{place[1]}`", f"`{name}`", f"{len(values)}"]
    line += [f"{statistics.fmean(values.values()):.2f}{spread}", paper]
    if name == REFERENCE:
        return [*line, "", "", "", ""]
    differences = [values[seed] - plain[seed] for seed in sorted(values.keys() & plain.keys())]
    line.append(f"{statistics.fmean(differences):+.2f}" if differences else "")
    if len(differences) < 2:
        return [*line, "", "", ""]
    low, high = interval(differences)
    each = ", ".join(f"{one:+.2f}" for one in differences)
    return [*line, f"{low:+.2f} to {high:+.2f}", f"{sign_flips(differences):.4f}", each]


def papers_of(study: Study) -> dict[tuple[str, ...], str]:
    """The published numbers of the study's cells."""
    cells = published(study.published) if study.published else ()
    return {
        (cell.dataset, cell.our_partition, cell.algorithm): str(cell)
        for cell in cells
        if cell.setting == study.published_setting
    }


def main() -> None:
    """Write one study's pairs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("study")
    given = parser.parse_args()
    name, papers = Path(given.study).stem, papers_of(load_study(given.study))
    rows = [
        row_of(place, algorithm, found, papers)
        for place, found in sorted(read(PAGE.parent / "results" / f"{name}.csv").items())
        for algorithm in sorted(found, key=lambda each: (each != REFERENCE, each))
        if REFERENCE in found
    ]
    put(PAGE, f"{name}-pairs", table(HEAD, rows))
    print(table(HEAD, rows))


if __name__ == "__main__":
    main()
