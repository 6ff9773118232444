"""Importance: a column that decides is above one that does not, and the numbers add up."""

import numpy as np
import pytest

from tests.trees.grown_model import grown_arrays
from unalike.models.trees import Trees
from unalike.trees.ensemble import Ensemble
from unalike.trees.importance import importance_of

NAMES = ("noise", "strong", "weak", "constant")


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 4)).astype(np.float32)
    x[:, 3] = 1
    y = (3 * x[:, 1] + x[:, 2] + rng.normal(size=600) > 0).astype(np.int64)
    arrays, settings, _ = grown_arrays("binary", x, y)
    return importance_of(Ensemble.of(arrays, settings, 2), NAMES), arrays


def test_the_column_that_decides_comes_first_and_one_that_nothing_is_split_at_not_at_all(found):
    columns = [row["column"] for row in found[0]]
    assert columns[:2] == ["strong", "weak"]
    assert "constant" not in columns


def test_gain_cover_and_splits_are_sums_over_nodes(found):
    importance, arrays = found
    inner = arrays["left"] >= 0
    assert importance.splits.sum() == inner.sum()
    assert importance.gain.sum() == pytest.approx(arrays["gain"][inner].sum())
    assert importance.cover.sum() == pytest.approx(arrays["cover"][inner].sum())
    assert sum(row["share"] for row in importance) == pytest.approx(1)
    assert "strong" in repr(importance)
    assert (importance[0], importance[:2]) == (importance.rows[0], importance.rows[:2])
    assert len(importance) == len(importance.rows)


def test_trees_that_never_split_go_by_nothing():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 4)), np.arange(50) % 2
    arrays, _, _ = grown_arrays("binary", x, y, gain=1e9)
    ensemble = Ensemble.of(arrays, Trees(gain=1e9), 2)
    assert importance_of(ensemble, NAMES).rows == []
    assert ensemble.told(NAMES)["importance"] == {}
    assert np.isfinite(importance_of(ensemble, NAMES).shares).all()
