"""What a data set checks about itself, and the listing of all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from unalike.data import DATASETS, Dataset, load_dataset, trainable
from unalike.data.dataset import Units
from unalike.data.split import choose_test_rows, random_rank
from unalike.errors import UserError

GOOD: dict[str, Any] = {
    "name": "small",
    "x": np.zeros((3, 2), np.float32),
    "y": np.array([0, 1, 1]),
    "x_test": np.zeros((1, 2), np.float32),
    "y_test": np.array([0]),
    "classes": ("no", "yes"),
}


IMAGES = np.zeros((3, 3, 8, 8), np.uint8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros((0, 2)), "y": np.zeros(0, int)}, r"small's training rows have the shape \(0, 2\)"),
        ({"y": np.array([0, 1])}, "small's training labels are 2, but there are 3 rows"),
        ({"y": np.array([0, 1, 2])}, "small's training labels are from 0 to 2, but there are 2 classes"),
        ({"y_test": np.array([-1])}, "small's test labels are from -1 to -1"),
        ({"x": np.array([[0, np.nan], [1, np.inf], [0, 0]])}, r"hold NaN or infinite values in 2 row\(s\)"),
        (
            {"x_test": None},
            "small's x_test is None. Give an array of rows that are not",
        ),
        ({"x_test": None, "y_test": None, "x": None}, r"small's x is None\. Give an array\.$"),
        ({"x_test": None, "y_test": None, "x": 3}, r"small's training rows have the shape \(\)"),
        ({"x_test": np.zeros((0, 3)), "y_test": np.zeros(0, int)}, "its test rows dense of shape"),
        ({"y": None}, r"small's y is None\. Give an array\.$"),
        ({"x": [[1], [1, 2], [3]]}, "small's x is a list that numpy cannot take"),
        ({"x": torch.zeros(3, 2, dtype=torch.bfloat16)}, "small's x is a Tensor that numpy cannot take"),
        ({"x": np.zeros(3)}, r"small's training rows have the shape \(3,\).*such as x\[:, None\]"),
        ({"x": np.float32(3)}, r"training rows have the shape \(\)"),
        ({"x": np.zeros((3, 2), complex)}, "training rows are of type complex128, not numbers"),
        ({"x": np.array([["a", "b"]] * 3)}, "training rows are of type <U1, not numbers"),
        ({"y": np.eye(3, 2, dtype=int)}, r"labels have the shape \(3, 2\).*y\.argmax\(axis=1\)"),
        ({"y": np.zeros((3, 1), int)}, r"labels have the shape \(3, 1\).*y\.ravel\(\)"),
        ({"y": np.array([0.0, 1.0, 1.0])}, "labels are of type float64, not whole numbers. Number the classes"),
        (
            {"x_test": np.zeros((1, 3))},
            r"rows are dense of shape \(3, 2\), its test rows dense of shape \(1, 3",
        ),
        ({"x": sparse.csr_matrix((3, 2))}, r"training rows are sparse of shape \(3, 2\), its test rows dense"),
        ({"x": IMAGES.transpose(0, 2, 3, 1)}, r"shape \(3, 8, 8, 3\): images must have their channels first"),
        ({"classes": 2}, "small's classes must be names, got 2"),
        ({"x": np.ma.masked_array(np.ones((3, 2)), [[1, 0]] * 3)}, "small's x has 3 masked values. Fill them in"),
        ({"group": np.array(["a", "b", "a"])}, "small's group is of type <U1, not whole.*np.unique"),
        ({"group": np.zeros(3)}, "small's group is of type float64, not whole numbers"),
        ({"group": np.zeros(2, int)}, r"small's group has the shape \(2,\), but there are 3 rows"),
        ({"group_test": np.zeros(3, int)}, r"small's group_test has the shape \(3,\), but there are 1 rows"),
        ({"shift": np.zeros(3)}, r"small's shift \(float64, shape \(3,\)\) must be one finite number"),
        ({"shift": np.zeros((4, 2))}, r"small's shift .* a row of shape \(2,\) has"),
        ({"scale": np.nan}, "small's scale .* must be one finite number"),
        ({"scale": np.array([1, 0])}, "small's scale must not be 0"),
        ({"classes": None}, "small's classes must be names, got None"),
    ],
)
def test_broken_data_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        Dataset(**GOOD | change)
    assert "\n" not in str(caught.value)


def test_tensors_lists_and_sparse_matrices_are_taken() -> None:
    parts = ("x", "y", "x_test", "y_test")
    for make in (torch.tensor, np.ndarray.tolist):
        data = Dataset(**GOOD | {part: make(GOOD[part]) for part in parts}, group=make(np.array([0, 1, 1])))
        assert all(isinstance(getattr(data, part), np.ndarray) for part in (*parts, "group"))
        np.testing.assert_array_equal(data.y, GOOD["y"])
    graded = Dataset(**GOOD | {"x": torch.ones(3, 2, requires_grad=True), "classes": [0, 1]})
    np.testing.assert_array_equal(graded.x, np.ones((3, 2)))
    assert graded.classes == ("0", "1")
    thin = Dataset(**GOOD | {part: sparse.coo_matrix(GOOD[part]) for part in ("x", "x_test")})
    assert (thin.is_sparse, thin.x.format, thin.shape) == (True, "csr", (2,))


def test_arrays_that_pytorch_cannot_take_are_made_anew() -> None:
    """Of another machine's byte order, as in many binary files, or read backwards, as x[::-1]."""
    x, y = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0, 1, 1])
    plain = Dataset(**GOOD | {"x": x, "y": y, "group": y})
    for change in (
        {"x": x.astype(">f4"), "y": y.astype(">i8"), "group": y.astype(">i8")},
        {"x": x[::-1].copy()[::-1], "y": y[::-1].copy()[::-1], "group": y[::-1].copy()[::-1]},
        {"x": np.ma.masked_array(x)},
    ):
        data = Dataset(**GOOD | {"x": x, "y": y, "group": y, **change})
        assert all(torch.as_tensor(part).tolist() == part.tolist() for part in (data.x, data.y, data.group))
        assert data.digest == plain.digest


@pytest.mark.parametrize("shape", [(3, 3, 8, 8), (3, 1, 8, 8), (3, 64, 4, 4), (3, 16, 1, 1), (3, 2, 3, 3)])
def test_images_whose_channels_are_first_are_taken(shape: tuple[int, ...]) -> None:
    assert Dataset(**GOOD | {"x": np.zeros(shape), "x_test": np.zeros((1, *shape[1:]))}).shape == shape[1:]


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ((GOOD["x"], GOOD["y"]), "a tuple of ndarray, ndarray"),
        (GOOD["x"], "a ndarray"),
        ("digits", "a str"),
        ([], "a list of "),
        ({"x": 1}, "a dict"),
    ],
)
def test_what_is_no_data_set_is_told_how_to_become_one(data: object, shown: str) -> None:
    with pytest.raises(
        UserError, match=rf"must be an unalike\.Dataset, got {shown}.*Make one: unalike\.dataset\(x, y\)"
    ):
        trainable(data)


def test_one_class_is_nothing_to_learn() -> None:
    one = Dataset(**GOOD | {"y": np.array([1, 1, 1])})  # as a site may have
    with pytest.raises(UserError, match="All 3 training rows of small have the label 'yes'"):
        trainable(one)
    assert trainable(Dataset(**GOOD)).name == "small"


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("rows", [np.ones((3, 2)), sparse.csr_matrix(np.ones((3, 2))), np.zeros((3, 1, 4, 4))])
def test_a_data_set_may_have_no_test_rows(rows: Any, task: Any) -> None:
    change = {"x": rows, "task": task, "classes": () if task == "regression" else ("a", "b")}
    data = Dataset(**GOOD | change | {"x_test": None, "y_test": None})
    assert (data.is_tested, len(data.labels_test), data.x_test.shape) == (False, 0, (0, *rows.shape[1:]))
    assert replace(data, name="other").digest == data.digest
    assert Dataset(**GOOD).is_tested


CHANGES: dict[str, Any] = {
    "x": np.ones((3, 2), np.float32),
    "y": np.array([0, 1, 0]),
    "x_test": np.ones((1, 2), np.float32),
    "y_test": np.array([1]),
    "classes": ("yes", "no"),
    "features": ("age", "weight"),
    "group": np.array([0, 0, 1]),
    "group_names": ("a", "c"),
    "group_test": np.array([1]),
    "shift": np.float32(1),
    "scale": np.float32(2),
    "kind": "tokens",
    "public": (np.zeros((1, 2)), np.array([0])),
}


@pytest.mark.parametrize("part", CHANGES)
def test_whatever_a_run_could_depend_on_is_in_the_digest(part: str) -> None:
    full = GOOD | {"group": np.array([0, 1, 1]), "group_names": ("a", "b"), "group_test": np.array([0])}
    known, other = Dataset(**full), Dataset(**full | {part: CHANGES[part]})
    assert known.digest != other.digest
    assert (known.rows_digest != other.rows_digest) == (part in ("x", "y", "x_test", "y_test"))
    assert Dataset(**full | {"name": "other"}).digest == known.digest


def test_the_scale_of_targets_is_in_the_digest() -> None:
    plain = Dataset(**GOOD | {"task": "regression", "classes": ()})
    other = replace(plain, target=Units(np.array(0.5), np.array(2.0)))
    assert (plain.digest == other.digest, plain.rows_digest == other.rows_digest) == (False, True)


def test_good_data_are_taken() -> None:
    assert Dataset(**GOOD).shape == (2,)


def test_listing() -> None:
    assert {"digits", "fcube", "heart"} <= {entry.name for entry in DATASETS}
    for name in ("digits", "fcube", "heart"):
        entry = DATASETS.entry(name)
        assert len(entry.summary) > 20
        assert entry.paper
        assert load_dataset(name).name == name


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match=r"Unknown data set 'hart'\. Did you mean 'heart'\?"):
        load_dataset("hart")


def test_random_rank_numbers_each_group() -> None:
    group = np.array([2, 0, 2, 2, 0, 5])
    seen = set()
    for seed in range(50):
        rank = random_rank(group, np.random.default_rng(seed))
        for value in np.unique(group):
            assert sorted(rank[group == value]) == list(range((group == value).sum()))
        seen.add(tuple(rank))
    assert len(seen) == 2 * 6  # every order comes up


def test_test_rows_are_stratified_and_fixed() -> None:
    strata = np.repeat([0, 1, 3], [10, 5, 2])
    test = choose_test_rows(strata, 0.2, seed=1)
    assert [int(test[strata == s].sum()) for s in (0, 1, 3)] == [2, 1, 0]
    np.testing.assert_array_equal(test, choose_test_rows(strata, 0.2, seed=1))
    others = [tuple(choose_test_rows(strata, 0.2, seed)) for seed in range(20)]
    assert len(set(others)) > 10


def test_columns_of_a_sparse_matrix_that_hold_nothing_are_in_the_digest() -> None:
    rows, labels = sparse.csr_matrix(np.eye(4, 3, dtype=np.float32)), np.array([0, 1, 0, 1])
    wider = sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=(4, 9))
    known, other = (Dataset("rows", x, labels, x, labels, ("no", "yes")) for x in (rows, wider))
    assert known.rows_digest != other.rows_digest
    assert known.digest != other.digest
