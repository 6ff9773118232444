"""Trees as a model file of XGBoost, which loads it and predicts the same to single precision."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unalike.trees.nodes import FlatTree, flat_trees

if TYPE_CHECKING:
    from unalike.trees.columns import Columns
    from unalike.trees.ensemble import Ensemble

VERSION = [2, 1, 0]
"""The oldest version of XGBoost whose files look so; all later ones read them."""
_NO_PARENT = 2**31 - 1
_REGRESSION: dict[str, Any] = {"reg_loss_param": {"scale_pos_weight": "1"}}
_OBJECTIVES: dict[str, tuple[dict[str, Any], str]] = {
    "binary": ({"name": "binary:logistic", **_REGRESSION}, "5E-1"),
    "softmax": ({"name": "multi:softprob"}, "0E0"),
    "squared-error": ({"name": "reg:squarederror", **_REGRESSION}, "0E0"),
    "poisson": ({"name": "count:poisson", "poisson_regression_param": {"max_delta_step": "0.7"}}, "1E0"),
}
"""What XGBoost calls an objective, and the base score that is a margin of 0."""
_NONE, _ZERO = np.full(1, -1), np.zeros(1)
_ONE_LEAF = FlatTree(
    feature=_NONE,
    threshold=_ZERO,
    missing_left=np.zeros(1, bool),
    left=_NONE,
    right=_NONE,
    parent=_NONE,
    value=_ZERO,
    gain=_ZERO,
    cover=_ZERO,
    rows=np.zeros(1, np.int64),
)
"""A tree that adds nothing: where training ended before the first one, something must hold the start."""


def xgboost_bytes(ensemble: Ensemble, columns: Columns) -> bytes:
    """The model as the JSON that ``xgboost.Booster(model_file=...)`` reads.

    Where the margins start is added to the leaves of the first trees, because what a base score means has changed
    between versions. Predicted numbers are in their own units.
    """
    outputs = ensemble.outputs
    objective, base_score = _OBJECTIVES[ensemble.objective.name]
    several = outputs if outputs > 1 else 0
    if several:
        objective = {**objective, "softmax_multiclass_param": {"num_class": str(several)}}
    scaled = ensemble.objective.name == "squared-error"
    shift, scale = ensemble.target if scaled else (0.0, 1.0)
    flat = list(flat_trees(ensemble, columns)) or [_ONE_LEAF] * outputs
    trees, count = [], len(flat)
    for number, tree in enumerate(flat):
        start = ensemble.base[number] * scale + shift if number < outputs else 0.0
        trees.append(_tree(number, tree, tree.value * scale + start, ensemble.features))
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(count)},
        "iteration_indptr": list(range(0, count + 1, outputs)),
        "tree_info": [number % outputs for number in range(count)],
        "trees": trees,
    }
    learner = {
        "attributes": {},
        "feature_names": list(usable_names(columns.names)),
        "feature_types": ["float"] * ensemble.features,
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {
            "base_score": base_score,
            "boost_from_average": "1",
            "num_class": str(several),
            "num_feature": str(ensemble.features),
            "num_target": "1",
        },
        "objective": objective,
    }
    return json.dumps({"learner": learner, "version": VERSION}, allow_nan=False).encode()


def usable_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names without what XGBoost does not allow in them, each once: ``income_<=50K`` is ``income__=50K``."""
    made: dict[str, None] = {}
    for name in names:
        plain = "".join("_" if letter in "[]<" else letter for letter in name) or "_"
        while plain in made:
            plain += "_"
        made[plain] = None
    return tuple(made)


def _tree(number: int, tree: FlatTree, value: Any, features: int) -> dict[str, Any]:
    count = len(tree.left)
    inner = tree.left >= 0
    leaves = np.where(inner, 0.0, value)
    single = {
        "base_weights": leaves,
        "loss_changes": np.where(inner, tree.gain, 0.0),
        "split_conditions": np.where(inner, tree.threshold, leaves),
        "sum_hessian": tree.cover,
    }
    whole = {
        "default_left": inner & tree.missing_left,
        "left_children": tree.left,
        "right_children": tree.right,
        "parents": np.where(tree.parent < 0, _NO_PARENT, tree.parent),
        "split_indices": np.where(inner, tree.feature, 0),
        "split_type": np.zeros(count, int),
    }
    return {
        **{name: [float(str(part)) for part in array.astype(np.float32)] for name, array in single.items()},
        **{name: array.astype(int).tolist() for name, array in whole.items()},
        **{f"categories{part}": [] for part in ("", "_nodes", "_segments", "_sizes")},
        "id": number,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(features),
            "num_nodes": str(count),
            "size_leaf_vector": "1",
        },
    }
