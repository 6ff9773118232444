"""FedTree's row of a9a: its page gives an AUC of 0.914 and does not say of which rows; here both are told.

UNALIKE_DATA=DATA python -m benchmarks.fedtree_row
"""

from __future__ import annotations

import time

import unalike
from benchmarks.report import made, table
from unalike.tallies import exact_auroc

MODEL = "trees(depth=6, bins=255, eta=0.1, least_rows=1)"
"""Their page: 50 trees, depth 6, 255 bins, a learning rate of 0.1."""
PUBLISHED = "0.914 for XGBoost and FedTree, horizontal and vertical; FATE 0.912 to 0.914"


def main() -> None:
    """Grow the trees with ten uneven parties, and print both AUCs beside the published one."""
    data = unalike.load_dataset("adult")
    lines = []
    for partition in ("iid", "label-dirichlet(0.1)"):
        begun = time.process_time()
        result = unalike.run(
            dataset="adult", partition=partition, parties=10, model=MODEL, algorithm="histogram", rounds=50,
            validation=0.0, held_out=0.0, evaluate_every=50,
        )  # fmt: skip
        seconds = time.process_time() - begun
        auc = [exact_auroc(result.predict_proba(x), y) for x, y in ((data.x, data.y), (data.x_test, data.y_test))]
        lines.append([partition, f"{auc[0]:.4f}", f"{auc[1]:.4f}", f"{seconds:.1f} s"])
    print(table(["a9a, 10 parties", "AUC, training rows", "AUC, test rows (a9a.t)", "CPU"], lines))
    print(f"Published: {PUBLISHED} (https://github.com/Xtra-Computing/FedTree).\n{made()}")


if __name__ == "__main__":
    main()
