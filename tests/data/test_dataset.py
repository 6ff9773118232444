"""What a data set checks about itself, and the listing of all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unalike.data import DATASETS, Dataset, load_dataset
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros((0, 2)), "y": np.zeros(0, int)}, "small has no training rows"),
        ({"x_test": np.zeros((0, 2)), "y_test": np.zeros(0, int)}, "small has no test rows"),
        ({"y": np.array([0, 1])}, "small has 3 training rows but 2 labels"),
        ({"y": np.array([0, 1, 2])}, "small has training labels from 0 to 2, but 2 classes"),
        ({"y_test": np.array([-1])}, "small has test labels from -1 to -1"),
        ({"x": np.array([[0, np.nan], [1, np.inf], [0, 0]])}, r"NaN or infinite values in 2 training row\(s\)"),
    ],
)
def test_broken_data_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Dataset(**GOOD | change)


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
