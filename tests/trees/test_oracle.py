"""The same trees as xgboost's, from the same cuts: what is predicted differs by its float32 alone."""

import numpy as np
import pytest

from unalike.models.trees import Trees
from unalike.trees.bins import bin_rows
from unalike.trees.cuts import Cuts
from unalike.trees.grow import grow
from unalike.trees.objective import objective_of

NAMES = {"binary": "binary:logistic", "softmax": "multi:softprob", "squared-error": "reg:squarederror"}
CASES = {
    "binary": (Trees(), 2),
    "softmax": (Trees(depth=4), 3),
    "squared-error": (Trees(), 0),
    "poisson": (Trees(objective="poisson", depth=4), 0),
    "missing": (Trees(), 2),
    "monotone": (Trees(rising=(0, 4), falling=(1, 2)), 2),
    "monotone-poisson": (Trees(rising=(0,), falling=(3,), objective="poisson"), 0),
    "leaves": (Trees(grow="leaves", leaves=20), 2),
    "leaves-missing": (Trees(grow="leaves", leaves=11, depth=8), 0),
    "few": (Trees(leaves=9, depth=5), 2),
    "gain": (Trees(gain=3.0, l2=2.0, least_weight=4.0), 2),
    "weights": (Trees(), 2),
}


def rows_of(name, classes, rows=600, features=8):
    random = np.random.default_rng(len(name))
    x = random.normal(size=(rows, features)).astype(np.float32)
    x[:, 2] = np.round(x[:, 2])
    x[random.random(rows) < 0.7, 3] = 0
    score = x[:, 0] - x[:, 1] * x[:, 2] + np.sin(2 * x[:, 3]) + random.normal(size=rows)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes)) if classes else score
    if "poisson" in name:
        y = random.poisson(np.exp(np.clip(score / 2, -2, 2)))
    if "missing" in name:
        x[random.random(x.shape) < 0.2] = np.nan
        x[score > 1, 5] = np.nan
    return x, y, random.integers(1, 4, rows) / 2.0 if name == "weights" else None


def settings_for_xgboost(settings, objective):
    """What xgboost calls these settings."""
    signs = [1 if j in settings.rising else -1 if j in settings.falling else 0 for j in range(8)]
    return {
        "objective": NAMES.get(objective.name, "count:poisson"),
        **({"num_class": objective.outputs} if objective.name == "softmax" else {}),
        **({"monotone_constraints": tuple(signs)} if any(signs) else {}),
        "tree_method": "hist",
        "grow_policy": "lossguide" if settings.grow == "leaves" else "depthwise",
        "max_depth": settings.depth,
        "max_leaves": settings.leaves,
        "max_bin": settings.bins,
        "eta": settings.eta,
        "lambda": settings.l2,
        "gamma": settings.gain,
        "min_child_weight": settings.least_weight,
        "base_score": 0.5,
        "nthread": 1,
    }


@pytest.mark.parametrize("name", CASES)
def test_the_same_trees_as_xgboost(name):
    xgboost = pytest.importorskip("xgboost")
    settings, classes = CASES[name]
    settings = Trees(**{**vars(settings), "least_rows": 1})
    objective = objective_of(settings, classes)
    x, y, weights = rows_of(name, classes)
    matrix = xgboost.QuantileDMatrix(x, y, weight=weights, max_bin=settings.bins, nthread=1)
    theirs = xgboost.train(settings_for_xgboost(settings, objective), matrix, 10)
    starts, values = matrix.get_quantile_cut()
    cuts = Cuts(values.astype(np.float32), starts.astype(np.int64))
    binned = bin_rows(x, cuts)
    link = {"binary": 0.0, "poisson": np.log(0.5)}.get(objective.name, 0.5)
    margins = np.full((len(x), objective.outputs), link)
    for _ in range(10):
        g, h = objective.gradients(margins, y, weights)
        for k in range(objective.outputs):
            grow(binned, g[k], h[k], settings, margins=margins[:, k])
    expected = theirs.predict(xgboost.DMatrix(x, nthread=1), output_margin=True).reshape(margins.shape)
    assert np.abs(margins - expected).max() < 2e-5
    assert np.abs(margins - link).max() > 0.3
