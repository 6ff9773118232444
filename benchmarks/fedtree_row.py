"""FedTree's row of a9a: its page gives an AUC of 0.914 and does not say of which rows; here both are told.

UNALIKE_DATA=DATA python -m benchmarks.fedtree_row
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import unalike
from benchmarks.report import made, table
from unalike.data import Dataset
from unalike.tallies import exact_auroc

MODEL = "trees(depth=6, bins=255, eta=0.1, least_rows=1)"
"""Their page: 50 trees, depth 6, 255 bins, a learning rate of 0.1."""
TREES = 50
PUBLISHED = "0.914 for XGBoost and FedTree, horizontal and vertical; FATE 0.912 to 0.914"


def ours(partition: str) -> Callable[[Any], Any]:
    """Trees from the sums of ten parties, as what gives the probabilities of rows."""
    return unalike.run(
        dataset="adult", partition=partition, parties=10, model=MODEL, algorithm="histogram", rounds=TREES,
        validation=0.0, held_out=0.0, evaluate_every=TREES,
    ).predict_proba  # fmt: skip


def xgboost(data: Dataset, start: float | None) -> Callable[[Any], Any]:
    """XGBoost's trees on all rows in one place, begun at a probability, or at the share of labels."""
    import xgboost as package

    terms = {"objective": "binary:logistic", "tree_method": "hist", "max_depth": 6, "max_bin": 255, "eta": 0.1}
    terms |= {"nthread": 1} | ({} if start is None else {"base_score": start})
    booster = package.train(terms, package.DMatrix(data.x, data.y), TREES)

    def probabilities(x: Any) -> Any:
        found = booster.predict(package.DMatrix(x)).astype(np.float64)
        return np.stack([1 - found, found], axis=1)

    return probabilities


def main() -> None:
    """Print the AUCs of both kinds of rows beside the published one."""
    data = unalike.load_dataset("adult")
    models = {f"histogram, {partition}": ours(partition) for partition in ("iid", "label-dirichlet(0.1)")}
    models |= {"XGBoost": xgboost(data, None), "XGBoost, begun at 0.5": xgboost(data, 0.5)}
    lines = []
    for name, predict in models.items():
        rows = ((data.x, data.y), (data.x_test, data.y_test))
        lines.append([name, *(f"{exact_auroc(predict(x), y):.4f}" for x, y in rows)])
    print(table(["a9a, 50 trees", "AUC, training rows", "AUC, test rows (a9a.t)"], lines))
    print(f"Published: {PUBLISHED} (https://github.com/Xtra-Computing/FedTree).\n{made()}")


if __name__ == "__main__":
    main()
