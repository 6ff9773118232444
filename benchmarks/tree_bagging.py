"""Trees that parties grow alone, put together in two ways, on the splits of the study trees-noniid (adult).

python -m benchmarks.tree_bagging                     # label-dirichlet(0.1), three seeds: a Markdown table

"Each round": as the algorithm bagging does, every party grows its next tree at the margins of the model that all
have so far. "At the end": every party boosts by itself, and the margins of all are averaged once. Both are plain
loops over the core, apart from the package's protocols.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from unalike import RunSpec
from unalike.models.trees import Trees
from unalike.runs.build import split_rows
from unalike.trees.agreed import own_cuts
from unalike.trees.bins import Binned, bin_rows
from unalike.trees.grow import add_values, grow
from unalike.trees.objective import objective_of
from unalike.trees.tree import Tree

SETTINGS = Trees(eta=0.1)
OBJECTIVE = objective_of(SETTINGS, 2)
Floats = np.ndarray[Any, Any]


def each_round(rows: list[Binned], labels: list[Floats], tested: Binned, start: float, trees: int) -> Floats:
    """Margins of the test rows where all parties' trees of a round are averaged before the next."""
    margins, found = [np.full((own.rows, 1), start) for own in rows], np.full(tested.rows, start)
    for _ in range(trees):
        grown = [_next(own, m, y) for own, m, y in zip(rows, margins, labels, strict=True)]
        for tree in grown:
            for own, m in zip(rows, margins, strict=True):
                m[:, 0] += _values(own, tree) / len(rows)
            found += _values(tested, tree) / len(rows)
    return found


def at_the_end(rows: list[Binned], labels: list[Floats], tested: Binned, start: float, trees: int) -> Floats:
    """Margins of the test rows where each party boosts by itself."""
    found = np.full(tested.rows, start)
    for own, y in zip(rows, labels, strict=True):
        margins = np.full((own.rows, 1), start)
        for _ in range(trees):
            tree = _next(own, margins, y)
            margins[:, 0] += _values(own, tree)
            found += _values(tested, tree) / len(rows)
    return found


def _next(own: Binned, margins: Floats, y: Floats) -> Tree:
    g, h = OBJECTIVE.gradients(margins, y)
    return grow(own, g[0], h[0], SETTINGS)


def _values(rows: Binned, tree: Tree) -> Floats:
    found = np.zeros(rows.rows)
    add_values(found, rows, tree)
    return found


def main() -> None:
    """Print a row for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partition", default="label-dirichlet(0.1)")
    parser.add_argument("--trees", type=int, default=100)
    chosen = parser.parse_args()
    print("| seed | parties with 20 rows of each label | each round: AUROC | at the end: AUROC |")
    print("|---:|---:|---:|---:|")
    for seed in range(3):
        spec = RunSpec(
            dataset="adult",
            partition=chosen.partition,
            parties=10,
            model="trees",
            algorithm="bagging",
            seed=seed,
            validation=0.0,
            held_out=0.0,
        )
        split = split_rows(spec, None)
        data, parties = split.dataset, [party.train for party in split.parties]
        everybody = np.concatenate(parties)
        cuts = own_cuts(data.x[everybody], SETTINGS.bins, SETTINGS.least_rows)
        rows, labels = [bin_rows(data.x[own], cuts) for own in parties], [data.y[own] for own in parties]
        start = float(OBJECTIVE.base(OBJECTIVE.sums(data.y[everybody]))[0])
        both = sum(min(y.sum(), len(y) - y.sum()) >= SETTINGS.least_rows for y in labels)
        given = rows, labels, bin_rows(data.x_test, cuts), start, chosen.trees
        scores = [roc_auc_score(data.y_test, way(*given)) for way in (each_round, at_the_end)]
        print(f"| {seed} | {both} | {scores[0]:.3f} | {scores[1]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
