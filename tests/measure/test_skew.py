"""Figures of skew against numbers worked out by hand and against scipy."""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linprog
from scipy.spatial.distance import jensenshannon

from unalike.data import load_dataset
from unalike.errors import UserError
from unalike.measure import label_skew, skew
from unalike.partition import make_partition

TABLES = hnp.arrays(
    np.int64, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=8), elements=st.integers(0, 50)
).map(lambda table: table + (table.sum(axis=1, keepdims=True) == 0))


def wasserstein_01(p: np.ndarray, q: np.ndarray) -> float:
    """The least cost of moving p to q where a move between two labels costs 1, as a linear programme."""
    labels = len(p)
    cost = (1 - np.eye(labels)).ravel()
    leaves = np.kron(np.eye(labels), np.ones(labels))
    arrives = np.kron(np.ones(labels), np.eye(labels))
    solved = linprog(cost, A_eq=np.vstack([leaves, arrives[:-1]]), b_eq=np.concatenate([p, q[:-1]]))
    return float(solved.fun)


def test_by_hand() -> None:
    # Two parties: 6 rows of two even labels and 2 rows of the first label.
    found = label_skew(np.array([[3, 3], [2, 0]]))
    np.testing.assert_allclose(found.entropy, [1, 0])
    # all rows: 5/8 and 3/8; |1/2 - 5/8| = 1/8, |1 - 5/8| = 3/8
    np.testing.assert_allclose(found.total_variation, [1 / 8, 3 / 8])
    # H(3/4, 1/4) - (1 + 0) / 2 = 0.811278 - 0.5 = 0.311278
    assert found.jensen_shannon == pytest.approx(np.sqrt(0.3112781244591329))
    # 1 - (sqrt(1/2 * 1) + 0) = 0.292893
    assert found.hellinger == pytest.approx(np.sqrt(1 - np.sqrt(1 / 2)))
    # |1/2 - 1| : half of the first party's rows would have to change their label
    assert found.earth_mover == pytest.approx(1 / 2)
    assert found.pairs == 1
    assert found.label_entropy == pytest.approx(0.954434002924965)  # H(5/8, 3/8)
    assert found.quantity_entropy == pytest.approx(0.8112781244591328)
    # 1 - H(3/4, 1/4) / log2 2
    assert found.quantity_imbalance == pytest.approx(1 - 0.8112781244591328)


def test_alike_parties_have_no_skew() -> None:
    found = label_skew(np.array([[1, 2, 4], [10, 20, 40], [3, 6, 12]]))
    assert found.jensen_shannon == 0
    assert found.hellinger == 0
    np.testing.assert_allclose(found.total_variation, 0, atol=1e-15)
    assert found.quantity_imbalance > 0.3


def test_parties_of_one_label_each_are_as_unalike_as_can_be() -> None:
    found = label_skew(np.diag([5, 5, 5, 5]))
    assert found.jensen_shannon == pytest.approx(1)
    assert found.hellinger == pytest.approx(1)
    assert found.entropy.tolist() == [0, 0, 0, 0]
    assert not np.signbit(found.entropy).any()
    np.testing.assert_allclose(found.total_variation, 3 / 4)
    assert found.quantity_imbalance == 0


def test_single_party() -> None:
    found = label_skew(np.array([[4, 4]]))
    assert (found.jensen_shannon, found.hellinger, found.quantity_imbalance) == (0, 0, 0)
    assert found.entropy.tolist() == [1]


@settings(max_examples=40, deadline=None)
@given(TABLES)
def test_against_scipy_and_the_plain_formulae(table: np.ndarray) -> None:
    found = label_skew(table)
    shares = table / table.sum(axis=1, keepdims=True)
    pairs = list(combinations(shares, 2))
    distances = [jensenshannon(p, q, base=2) for p, q in pairs] or [0.0]
    # scipy too may take the root of a rounding error, so alike parties agree to 1e-8 only
    assert found.jensen_shannon == pytest.approx(np.mean(np.nan_to_num(distances)), abs=1e-7)
    hellinger = [np.linalg.norm(np.sqrt(p) - np.sqrt(q)) / np.sqrt(2) for p, q in pairs] or [0.0]
    assert found.hellinger == pytest.approx(np.mean(hellinger), abs=1e-12)
    moved = [wasserstein_01(p, q) for p, q in pairs] or [0.0]
    assert found.earth_mover == pytest.approx(np.mean(moved), abs=1e-7)
    assert found.pairs == len(pairs)
    assert not found.estimated
    assert 0 <= found.jensen_shannon <= 1
    assert found.earth_mover <= found.hellinger * np.sqrt(2) + 1e-9
    assert 0 <= found.hellinger <= 1
    assert 0 <= found.quantity_imbalance <= 1
    assert ((found.total_variation >= 0) & (found.total_variation <= 1)).all()
    assert (found.entropy <= np.log2(table.shape[1]) + 1e-12).all()


@given(TABLES)
def test_order_of_parties_and_labels_does_not_matter(table: np.ndarray) -> None:
    found, turned = label_skew(table), label_skew(table[::-1, ::-1])
    assert turned.jensen_shannon == pytest.approx(found.jensen_shannon, abs=1e-7)
    assert turned.hellinger == pytest.approx(found.hellinger, abs=1e-12)
    np.testing.assert_allclose(turned.entropy[::-1], found.entropy, atol=1e-12)


def test_blocks_do_not_change_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(0).integers(1, 30, (23, 4))
    whole = label_skew(table)
    for numbers in (1, 23 * 4 * 2, 23 * 4 * 7):
        monkeypatch.setattr(skew, "_BLOCK", numbers)
        parts = label_skew(table)
        assert parts.jensen_shannon == pytest.approx(whole.jensen_shannon)
        assert parts.hellinger == pytest.approx(whole.hellinger)


def test_many_parties_are_compared_by_a_sample_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(0).integers(0, 30, (300, 4)) + 1
    table[:20] = [90, 1, 1, 1]
    whole = label_skew(table)
    monkeypatch.setattr(skew, "MOST_PARTIES", 299)
    sample, again = label_skew(table), label_skew(table)
    assert sample.estimated
    assert sample.pairs == skew.SAMPLED_PAIRS != whole.pairs
    for name in ("jensen_shannon", "hellinger", "earth_mover"):
        found = getattr(sample, name)
        assert found == getattr(again, name)
        assert found != getattr(whole, name)
        assert found == pytest.approx(getattr(whole, name), abs=0.005)
    np.testing.assert_array_equal(sample.entropy, whole.entropy)


def test_a_party_is_never_compared_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skew, "MOST_PARTIES", 1)
    assert label_skew(np.diag([5, 5, 5])).earth_mover == 1


def test_five_thousand_parties_take_no_minute() -> None:
    table = np.random.default_rng(0).integers(0, 9, (5000, 10)) + 1
    begun = time.perf_counter()
    assert label_skew(table).pairs == skew.SAMPLED_PAIRS
    assert time.perf_counter() - begun < 5


def test_smaller_beta_is_measured_as_more_skew() -> None:
    digits = load_dataset("digits")
    found = [
        label_skew(make_partition(text, digits, 10, 0).label_counts(digits))
        for text in ("iid", "label-dirichlet(1)", "label-dirichlet(0.05)")
    ]
    assert found[0].jensen_shannon < found[1].jensen_shannon < found[2].jensen_shannon
    assert found[0].quantity_imbalance < found[1].quantity_imbalance < found[2].quantity_imbalance


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.array([1, 2]), r"two dimensions, got the shape \(2,\)"),
        (np.zeros((0, 3)), r"two dimensions, got the shape \(0, 3\)"),
        (np.array([[1, -2], [1, 1]]), "finite and >= 0, got -2"),
        (np.array([[1, np.nan]]), "finite and >= 0, got nan"),
        (np.array([[1, 2], [0, 0]]), "Party 1 has no rows"),
    ],
)
def test_wrong_tables(table: np.ndarray, message: str) -> None:
    with pytest.raises(UserError, match=message):
        label_skew(table)
