"""Trees that xgboost has grown, as the arrays that a training keeps: an oracle for whatever uses such arrays."""

import json

import numpy as np

from unalike.models.trees import Trees
from unalike.trees.ensemble import Ensemble
from unalike.trees.soundness import NODES

NAMES = {
    "binary": "binary:logistic",
    "softmax": "multi:softprob",
    "squared-error": "reg:squarederror",
    "poisson": "count:poisson",
}


def example(objective, seed=0, rows=400, features=5, missing=0.15):
    """Rows with gaps, and answers that depend on them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)).astype(np.float32)
    signal = x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=rows) / 2
    x[rng.random(x.shape) < missing] = np.nan
    y = {
        "binary": signal > 0.3,
        "softmax": np.digitize(signal, [-0.5, 0.7]),
        "squared-error": 100 + 20 * signal,
        "poisson": rng.poisson(np.exp(signal / 2)),
    }[objective]
    return x, y.astype(np.float64)


def grown(objective, x, y, rounds=4, depth=3, target=(0.0, 1.0)):
    """A booster of xgboost, and the same trees as an ensemble of ours."""
    import xgboost

    classes = {"binary": 2, "softmax": 3}.get(objective, 0)
    shift, scale = target
    parameters = {"objective": NAMES[objective], "max_depth": depth, "nthread": 1, "base_score": 0.5}
    if objective == "softmax":
        parameters["num_class"] = classes
    booster = xgboost.train(parameters, xgboost.DMatrix(x, (y - shift) / scale), rounds)
    margin = {"binary": 0.0, "softmax": 0.5, "squared-error": 0.5, "poisson": np.log(0.5)}[objective]
    outputs = classes if objective == "softmax" else 1
    trees = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    arrays = arrays_of(trees) | {"base": np.full(outputs, margin), "starts": np.arange(x.shape[1] + 1)}
    return booster, Ensemble.of(arrays, Trees(objective=objective), classes, target)


def arrays_of(trees):
    """The trees of an xgboost file by node, filled up with -1."""
    most = max(len(tree["left_children"]) for tree in trees) + 2
    arrays = {
        name: np.full((len(trees), most), -1 if name != "missing_left" else 0, dtype)
        for name, dtype in NODES.items()
    }
    for number, tree in enumerate(trees):
        count = len(tree["left_children"])
        left = np.array(tree["left_children"])
        parts = {
            "feature": np.where(left < 0, -1, tree["split_indices"]),
            "threshold": tree["split_conditions"],
            "missing_left": tree["default_left"],
            "left": left,
            "right": tree["right_children"],
            "value": np.where(left < 0, tree["split_conditions"], 0),
            "gain": tree["loss_changes"],
            "cover": tree["sum_hessian"],
            "rows": np.zeros(count),
        }
        for name, part in parts.items():
            arrays[name][number, :count] = part
    return arrays
