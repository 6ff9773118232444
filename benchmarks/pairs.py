"""Algorithms of a study beside FedAvg, seed by seed: by how much they differ, and whether chance would do it.

python -m benchmarks.pairs docs/results/rfedavg-epochs.toml --runs RUNS

Writes a table between the comments NAME-pairs of docs/results.md. The test is exact: if an algorithm were no other
than FedAvg, each seed's difference would be as likely to have the other sign; p is the share of all
signs under which the mean would be at least as far from zero. The interval is Student's, 95 %.
"""

from __future__ import annotations

import argparse
import statistics
from itertools import product
from pathlib import Path

from scipy.stats import t

from benchmarks.report import put, table
from benchmarks.results import PAGE
from unalike.ranking.standing import REFERENCE
from unalike.studies.study import load_study, study_results


def sign_flips(differences: list[float]) -> float:
    """The exact two-sided p of a mean difference over all assignments of signs."""
    reached = abs(sum(differences)) - 1e-9
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(found >= reached for found in sums) / len(sums)


def row_of(name: str, differences: list[float]) -> list[str]:
    """One algorithm's line."""
    mean, count = statistics.fmean(differences), len(differences)
    spread = statistics.stdev(differences) if count > 1 else float("nan")
    half = float(t.ppf(0.975, count - 1)) * spread / count**0.5 if count > 1 else float("nan")
    each = ", ".join(f"{one:+.2f}" for one in differences)
    return [
        f"`{name}`",
        f"{count}",
        f"{mean:+.2f}",
        f"{mean - half:+.2f} to {mean + half:+.2f}",
        f"{sign_flips(differences):.3f}",
        each,
    ]


def main() -> None:
    """Write one study's pairs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("study")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    given = parser.parse_args()
    results = study_results(load_study(given.study), given.runs)
    rows = []
    for setting in results.settings:
        by_seed = {
            line.algorithm: {run.seed: 100 * float(run.figures["accuracy"]) for run in line.finished}
            for line in setting.lines
        }
        plain = by_seed.get(REFERENCE, {})
        for name, found in by_seed.items():
            both = sorted(found.keys() & plain.keys())
            if name != REFERENCE and both:
                rows.append(row_of(name, [found[seed] - plain[seed] for seed in both]))
    head = ["points over FedAvg", "seeds", "mean", "95 % interval", "p", "by seed"]
    put(PAGE, f"{Path(given.study).stem}-pairs", table(head, rows))


if __name__ == "__main__":
    main()
