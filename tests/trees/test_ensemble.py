"""Trained trees in use: they say what xgboost says of the same trees, and arrays that are no trees are refused."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trees.grown_model import CLASSES, grown_arrays
from tests.trees.xgboost_arrays import NAMES, example, grown
from unalike.models.trees import MOST_DEPTH, Trees
from unalike.trees.ensemble import Ensemble
from unalike.trees.soundness import NODES


def stump(**changed):
    """One split at column 1: below 2 a row gets -1, else 1, where it is missing -1."""
    arrays = {name: np.full((1, 5), -1 if dtype.startswith("int") else 0, dtype) for name, dtype in NODES.items()}
    arrays["feature"][0, 0], arrays["threshold"][0, 0], arrays["missing_left"][0, 0] = 1, 2.0, 1
    arrays["left"][0, 0], arrays["right"][0, 0] = 1, 2
    arrays["value"][0, 1:3] = -1.0, 1.0
    return arrays | {"base": np.array([0.25])} | changed


def of(arrays, features=3, classes=2, **settings):
    return Ensemble.of(arrays, Trees(**settings), classes, features=features)


@pytest.mark.parametrize("objective", NAMES)
def test_margins_and_predictions_are_those_of_xgboost(objective):
    xgboost = pytest.importorskip("xgboost")
    x, y = example(objective)
    target = (100.0, 20.0) if objective == "squared-error" else (0.0, 1.0)
    booster, ensemble = grown(objective, x, y, target=target)
    rows = xgboost.DMatrix(x)
    wanted = booster.predict(rows, output_margin=True).reshape(len(x), -1)
    np.testing.assert_allclose(ensemble.margins(x), wanted, atol=1e-6)
    told = booster.predict(rows)
    if ensemble.classes:
        made = ensemble.predict_proba(x)
        np.testing.assert_allclose(made[:, 1] if objective == "binary" else made, told, atol=1e-6)
        assert (ensemble.predict(x) == made.argmax(axis=1)).all()
    else:
        np.testing.assert_allclose(ensemble.predict(x), told * target[1] + target[0], rtol=1e-6)


def test_ranges_of_trees_add_up_to_all_of_them():
    pytest.importorskip("xgboost")
    x, y = example("softmax")
    _, ensemble = grown("softmax", x, y)
    parts = [ensemble.margins(x, first, first + 3) for first in range(0, ensemble.trees, 3)]
    np.testing.assert_allclose(sum(parts), ensemble.margins(x), atol=1e-12)
    assert (ensemble.margins(x, 0, 0) == ensemble.base).all()


def test_a_row_goes_left_below_the_threshold_and_where_it_is_missing_as_the_node_says():
    x = np.array([[9.0, 1.999, 9], [9, 2, 9], [9, np.nan, 9], [9, np.inf, 9], [9, -np.inf, 9]])
    assert of(stump()).margins(x)[:, 0].tolist() == [-0.75, 1.25, -0.75, 1.25, -0.75]
    right = stump()
    right["missing_left"][0, 0] = 0
    assert of(right).margins(x)[2, 0] == 1.25


def test_numbers_are_compared_in_single_precision():
    arrays = stump()
    arrays["threshold"][0, 0] = 0.1
    x = np.array([[0, 0.1, 0], [0, np.float32(0.1), 0], [0, 0.09999999, 0], [0, 1e300, 0]])
    assert of(arrays).margins(x)[:, 0].tolist() == [1.25, 1.25, -0.75, 1.25]


def test_what_a_sparse_matrix_does_not_store_is_zero_and_not_missing():
    dense = np.array([[0, 0.0, 1], [0, 3, 0], [0, np.nan, 0]])
    arrays = stump()
    arrays["missing_left"][0, 0] = 0
    sparse = scipy.sparse.csr_matrix(dense)
    made = of(arrays).margins(sparse)
    assert made[:, 0].tolist() == [-0.75, 1.25, 1.25]
    assert (made == of(arrays).margins(dense)).all()


def test_many_rows_go_in_blocks_with_the_same_result(monkeypatch):
    pytest.importorskip("xgboost")
    x, y = example("binary")
    _, ensemble = grown("binary", x, y)
    whole = ensemble.margins(x)
    monkeypatch.setattr("unalike.trees.ensemble._BLOCK", 7)
    assert (ensemble.margins(x) == whole).all()
    assert ensemble.margins(x[:0]).shape == (0, 1)


def test_trees_that_were_not_grown_are_left_out_and_do_not_change_the_digest():
    longer = {
        name: np.concatenate([part, np.full_like(part, -1) if part.dtype.kind == "i" else np.zeros_like(part)])
        for name, part in stump().items()
        if name != "base"
    }
    short, made = of(stump()), of(longer | {"base": np.array([0.25])})
    assert made.trees == 1
    assert made.sha256 == short.sha256
    assert of(stump(base=np.array([0.5]))).sha256 != short.sha256


def test_rows_of_another_width_are_refused():
    with pytest.raises(ValueError, match="rows of 3 numbers"):
        of(stump()).margins(np.zeros((2, 4)))


def changed(name, place, value):
    arrays = stump()
    arrays[name][place] = value
    return arrays


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        (changed("left", (0, 0), 0), "children"),
        (changed("right", (0, 0), 5), "children"),
        (changed("right", (0, 0), -1), "children"),
        (changed("left", (0, 1), 0), "children"),
        (changed("right", (0, 1), 3), "children"),
        (changed("right", (0, 0), 1), "two parents"),
        (changed("feature", (0, 0), 3), "column"),
        (changed("feature", (0, 0), -1), "column"),
        (changed("threshold", (0, 0), np.nan), "not a number"),
        (changed("gain", (0, 0), np.nan), "a gain or"),
        (changed("cover", (0, 1), np.inf), "a gain or"),
        (changed("value", (0, 2), np.inf), "not a number"),
        (stump(base=np.array([np.nan])), "not a number"),
        (stump(base=np.zeros(2)), "base"),
        (stump(base=np.zeros(1, np.float32)), "base"),
        (stump(left=np.zeros((1, 5), np.int64)), "left"),
        (stump(value=np.zeros((1, 4))), "shape"),
        (stump(value=np.zeros(5)), "value"),
        ({name: part for name, part in stump().items() if name != "gain"}, "gain"),
        ({name: part[:, :0] if name != "base" else part for name, part in stump().items()}, "feature"),
    ],
)
def test_arrays_that_are_no_trees_are_refused(arrays, reason):
    with pytest.raises(ValueError, match=reason):
        of(arrays)


def test_a_tree_that_is_too_deep_is_refused():
    count = 2 * (MOST_DEPTH + 1) + 1
    arrays = {
        name: np.full((1, count), -1 if name in ("left", "right") else 0, dtype) for name, dtype in NODES.items()
    }
    inner = np.arange(0, count - 1, 2)
    arrays["left"][0, inner], arrays["right"][0, inner] = inner + 1, inner + 2
    with pytest.raises(ValueError, match="deeper"):
        of(arrays | {"base": np.zeros(1)})
    arrays["left"][0, inner[-1]] = arrays["right"][0, inner[-1]] = -1
    assert of(arrays | {"base": np.zeros(1)}).margins(np.zeros((1, 3))).tolist() == [[0.0]]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_the_arrays_say_they_are_refused_or_walked_to_an_end(data):
    trees, nodes = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 7))
    whole = st.integers(-2, nodes + 1)
    arrays = {}
    for name, dtype in NODES.items():
        numbers = st.floats(width=32, allow_subnormal=False) if dtype.startswith("float") else whole
        numbers = st.integers(0, 3) if dtype == "uint8" else numbers
        drawn = data.draw(st.lists(numbers, min_size=trees * nodes, max_size=trees * nodes))
        arrays[name] = np.array(drawn).astype(dtype).reshape(trees, nodes)
    try:
        ensemble = of(arrays | {"base": np.zeros(1)})
    except ValueError:
        return
    assert np.isfinite(ensemble.margins(np.array([[0.0, 1, np.nan]]))).all()


@pytest.mark.parametrize("objective", NAMES)
def test_raw_rows_come_to_the_leaves_that_they_were_trained_in(objective):
    x, y = example(objective)
    y = y.astype(np.int64) if objective in CLASSES else y
    arrays, chosen, margins = grown_arrays(objective, x, y, target=(100.0, 20.0))
    ensemble = Ensemble.of(arrays, chosen, CLASSES.get(objective, 0), (100.0, 20.0))
    assert ensemble.trees == 3 * ensemble.outputs
    assert (ensemble.margins(x) == margins).all()
    assert ensemble.margins(x).std() > 0


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(NODES)), st.integers(0, 8), st.integers(0, 14), st.integers(-3, 20))
def test_a_changed_number_is_refused_or_walked_to_an_end(name, tree, node, value):
    x, arrays, chosen = GROWN
    changed = arrays[name].copy()
    changed[tree, node] = value if name != "missing_left" else value % 3
    try:
        ensemble = Ensemble.of({**arrays, name: changed}, chosen, 3)
    except ValueError:
        return
    assert np.isfinite(ensemble.margins(x)).all()


def _grown():
    x, y = example("softmax", rows=60)
    arrays, chosen, _ = grown_arrays("softmax", x, y.astype(np.int64))
    return x, arrays, chosen


GROWN = _grown()
