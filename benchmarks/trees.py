"""CPU time of a boosted tree on one thread beside xgboost and LightGBM, and how far our trees are from xgboost's.

python -m benchmarks.trees                    # adult and covtype, which are downloaded: a Markdown table
python -m benchmarks.trees --only adult --trees 5

Contenders grow one tree each in turn, with equal settings (depth 6, eta 0.3, l2 1, least weight 1, least rows 1).
Reading, cuts and binning are outside the clock; derivatives, growth and the new margins are inside. xgboost gets
the rows dense and as a sparse matrix, which it is faster with where most are zero.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from scipy import sparse

from unalike.data import load_dataset
from unalike.models.trees import Trees
from unalike.trees.bins import bin_rows
from unalike.trees.cuts import Cuts
from unalike.trees.grow import grow
from unalike.trees.objective import objective_of

CASES = {
    "adult": ("adult", None, 64),
    "covtype-100k": ("covtype", 100_000, 64),
    "covtype-465k": ("covtype", 464_809, 255),
}
SHARED = {"max_depth": 6, "eta": 0.3, "nthread": 1}
Step = Callable[[], None]


def rows_of(name: str, count: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels; of several classes the second against all others."""
    data = load_dataset(name)
    x, y = np.asarray(data.x, np.float32), np.asarray(data.y)
    if count is not None:
        x, y = (
            np.concatenate([x, data.x_test]).astype(np.float32)[:count],
            np.concatenate([y, data.y_test])[:count],
        )
    return np.ascontiguousarray(x), (y == 1).astype(np.int64)


def xgboost_settings(bins: int, **more: Any) -> dict[str, Any]:
    """What our settings are called there."""
    return {
        **SHARED,
        "objective": "binary:logistic",
        "tree_method": "hist",
        "max_bin": bins,
        "base_score": 0.5,
        "verbosity": 0,
        **more,
    }


def ours(
    x: np.ndarray, y: np.ndarray, cuts: Cuts, threads: int = 1, least_rows: int = 1
) -> tuple[Step, np.ndarray]:
    """A step that adds one tree, and the margins that it changes."""
    settings, binned = Trees(least_rows=least_rows), bin_rows(x, cuts)
    objective, margins = objective_of(settings, 2), np.zeros((len(x), 1))

    def step() -> None:
        g, h = objective.gradients(margins, y, threads=threads)
        grow(binned, g[0], h[0], settings, margins=margins[:, 0], threads=threads)

    return step, margins


def by_xgboost(x: Any, y: np.ndarray, bins: int) -> Step:
    """A step of xgboost's hist that adds one tree."""
    import xgboost

    rows = xgboost.DMatrix(x, y, nthread=1)
    booster = xgboost.Booster(xgboost_settings(bins), [rows])
    count = iter(range(10**6))
    return lambda: booster.update(rows, next(count))


def by_lightgbm(x: np.ndarray, y: np.ndarray, bins: int) -> Step:
    """A step of LightGBM that adds one tree of at most 64 leaves."""
    import lightgbm

    settings = {
        "objective": "binary",
        "num_leaves": 64,
        "max_depth": 6,
        "learning_rate": 0.3,
        "lambda_l2": 1.0,
        "min_sum_hessian_in_leaf": 1.0,
        "min_data_in_leaf": 1,
        "max_bin": bins,
        "num_threads": 1,
        "verbosity": -1,
    }
    booster = lightgbm.Booster(settings, lightgbm.Dataset(x, y, params=settings).construct())

    def step() -> None:
        booster.update()

    return step


def their_cuts(x: np.ndarray, y: np.ndarray, bins: int) -> tuple[Cuts, Any]:
    """The cuts that xgboost would choose, and its rows by them."""
    import xgboost

    matrix = xgboost.QuantileDMatrix(x, y, max_bin=bins, nthread=1)
    starts, values = matrix.get_quantile_cut()
    return Cuts(values.astype(np.float32), starts.astype(np.int64)), matrix


def difference(x: np.ndarray, y: np.ndarray, bins: int, trees: int) -> float:
    """The largest difference of margins after so many trees from the same cuts."""
    import xgboost

    cuts, matrix = their_cuts(x, y, bins)
    step, margins = ours(x, y, cuts)
    for _ in range(trees):
        step()
    booster = xgboost.train(xgboost_settings(bins), matrix, trees)
    return float(np.abs(booster.predict(matrix, output_margin=True) - margins[:, 0]).max())


def timed(steps: dict[str, Step], trees: int, clock: Callable[[], float]) -> dict[str, float]:
    """The median milliseconds of a tree of each contender; they take turns, three times without the clock."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(trees + 3):
        for name, step in steps.items():
            since = clock()
            step()
            if turn >= 3:
                taken[name].append(1000 * (clock() - since))
    return {name: median(times) for name, times in taken.items()}


def main() -> None:
    """Print the table, and the largest difference of margins after ten trees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--trees", type=int, default=20)
    chosen = parser.parse_args()
    names = ("ours", "least_rows=20", "xgboost", "xgboost, sparse", "LightGBM")
    print("| ms a tree | " + " | ".join(names) + " | ours / each | two threads | margins |")
    print("|---|---:|---:|---:|---:|---:|---|---:|---:|")
    for case in [chosen.only] if chosen.only else CASES:
        name, count, bins = CASES[case]
        x, y = rows_of(name, count)
        cuts, _ = their_cuts(x, y, bins)
        steps = {
            "ours": ours(x, y, cuts)[0],
            "least_rows=20": ours(x, y, cuts, least_rows=20)[0],
            "xgboost": by_xgboost(x, y, bins),
            "xgboost, sparse": by_xgboost(sparse.csr_matrix(x), y, bins),
            "LightGBM": by_lightgbm(x, y, bins),
        }
        ms = timed(steps, chosen.trees, time.process_time)
        pair = {str(n): ours(x, y, cuts, threads=n)[0] for n in (1, 2)}
        wall = timed(pair, 5 * chosen.trees, time.perf_counter)
        cells = " | ".join(f"{ms[n]:.2f}" for n in names)
        ratios = " / ".join(f"{ms['ours'] / ms[n]:.2f}" for n in names[2:])
        gap = difference(x, y, bins, 10)
        print(f"| {case} | {cells} | {ratios} | {wall['1'] / wall['2']:.2f} x | {gap:.1e} |", flush=True)


if __name__ == "__main__":
    main()
