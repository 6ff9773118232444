"""Importance: what tells most comes first, shares are Dirichlet, and each attribute has one party."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import mutual_info_score

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.measure import alpha_of
from unalike.partition import make_partition
from unalike.partition.column_importance import importances
from unalike.partition.vertical import attributes_of
from unalike.partition.vertical_importance import deal, dirichlet
from unalike.randomness import stream


def fine(columns: int = 150, rows: int = 400, seed: int = 0) -> Dataset:
    """Many columns that tell a little each, so that any shares can nearly be reached."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    x = (y[:, None] * rng.uniform(0.5, 1.5, columns) + rng.normal(size=(rows, columns))).astype(np.float32)
    return Dataset("fine", x, y, x[:5], y[:5], ("no", "yes"))


def test_importance_is_mutual_information_less_chance() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 3000)
    x = np.stack([y, np.where(rng.random(3000) < 0.5, y, 0), rng.integers(0, 2, 3000), np.ones(3000)], axis=1)
    data = Dataset("three", x.astype(np.float32), y, x[:3].astype(np.float32), y[:3], ("a", "b", "c"))
    found = importances(data)
    chance = [4, 4, 2, 0]  # (values - 1) * (labels - 1) / (2 * rows), in 1 / 6000
    told = [max(mutual_info_score(x[:, k], y) - chance[k] / 6000, 0) for k in range(4)]
    np.testing.assert_allclose(found, np.array(told) / sum(told), atol=1e-12)
    assert found[0] > found[1] > 0.05
    assert found[3] == 0
    thin = Dataset("thin", sparse.csr_matrix(data.x), y, sparse.csr_matrix(data.x_test), y[:3], ("a", "b", "c"))
    np.testing.assert_array_equal(importances(thin), found)


def test_a_category_tells_what_its_columns_tell_together() -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 4000)
    kind = np.where(rng.random(4000) < 0.7, y * 2, 1 + rng.integers(0, 2, 4000))
    x = np.concatenate([np.eye(3)[kind], rng.normal(size=(4000, 1))], axis=1).astype(np.float32)
    data = Dataset("kinds", x, y, x[:3], y[:3], ("a", "b"), features=("k_0", "k_1", "k_2", "noise"))
    coded = Dataset(
        "coded", np.stack([kind, x[:, 3]], axis=1).astype(np.float32), y, np.zeros((1, 2)), y[:1], ("a", "b")
    )
    np.testing.assert_allclose(importances(data), importances(coded))


def test_importance_of_missing_values_and_of_numbers_to_predict() -> None:
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 2000)
    x = rng.normal(size=(2000, 2)).astype(np.float32)
    x[(y == 1) & (rng.random(2000) < 0.8), 1] = np.nan  # that it is missing tells the label
    found = importances(Dataset("gaps", x, y, x[:2], y[:2], ("a", "b"), gaps=True))
    assert found[1] > 0.95
    numbers = rng.normal(size=(2000, 3))
    target = 5 * numbers[:, 1] + rng.normal(size=2000)
    found = importances(Dataset("sums", numbers, target, numbers[:2], target[:2], (), task="regression"))
    assert found[1] > 0.9


def test_data_that_tell_nothing_have_even_importances() -> None:
    x, y = np.ones((20, 4), np.float32), np.arange(20) % 2
    np.testing.assert_array_equal(importances(Dataset("ones", x, y, x, y, ("a", "b"))), np.full(4, 0.25))


def reached(told: np.ndarray, parties: int, alpha: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    owner = deal(told, dirichlet(rng, parties, alpha), rng)
    return np.array([told[owner == party].sum() for party in range(parties)])


def test_the_split_is_that_of_its_deal() -> None:
    data = fine(40, 200)
    told = importances(data)
    columns = make_partition("vertical-importance(3, 0.5)", data, None, 4).columns
    assert columns is not None
    rng = stream(4, "partition", 0)
    owner = deal(told, dirichlet(rng, 3, 0.5), rng)
    assert all(np.array_equal(part, np.flatnonzero(owner == party)) for party, part in enumerate(columns))


@pytest.mark.parametrize(("parties", "alpha"), [(4, 0.5), (3, 1.0), (4, 10.0)])
def test_shares_are_dirichlet(parties: int, alpha: float) -> None:
    told = importances(fine(150))
    shares = np.array([reached(told, parties, alpha, seed) for seed in range(200)])
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    variance = (parties - 1) / (parties**2 * (parties * alpha + 1))
    sigma = np.sqrt(variance / len(shares))
    np.testing.assert_allclose(shares.mean(axis=0), 1 / parties, atol=5 * sigma)
    found = shares.var(axis=0).mean()
    assert abs(found / variance - 1) < 0.3
    # VertiBench's estimator, of the mean variance over seeds, gives alpha back.
    estimate = (parties - 1 - parties**2 * found) / (parties**3 * found)
    assert abs(estimate / alpha - 1) < 0.4


def test_the_estimator_is_exact_at_the_expected_variance() -> None:
    for parties, alpha in ((2, 0.3), (3, 1.0), (5, 20.0)):
        variance = (parties - 1) / (parties**2 * (parties * alpha + 1))
        step = np.sqrt(variance * parties / 2)
        shares = np.full(parties, 1 / parties)
        shares[:2] += [step, -step]
        assert np.isclose(np.var(shares), variance)
        assert np.isclose(alpha_of(shares), alpha)
    assert alpha_of(np.array([1.0, 0.0, 0.0])) == 0
    assert alpha_of(np.full(4, 0.25)) == np.inf


@given(
    importance=st.lists(st.floats(0, 1), min_size=3, max_size=40),
    parties=st.integers(2, 3),
    alpha=st.sampled_from([1e-6, 0.1, 1, 1e5]),
    seed=st.integers(0, 99),
)
@settings(deadline=None)
def test_nobody_is_without_an_attribute(importance: list[float], parties: int, alpha: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    told = np.array(importance)
    shares = dirichlet(rng, parties, alpha)
    assert np.isclose(shares.sum(), 1)
    owner = deal(told, shares, rng)
    assert set(owner.tolist()) == set(range(parties))
    assert len(owner) == len(told)


def test_attributes_stay_whole_and_the_seed_decides() -> None:
    heart = load_dataset("heart")
    attribute = attributes_of(heart)
    first, again, other = (
        make_partition("vertical-importance(3, 0.5)", heart, None, seed).columns for seed in (1, 1, 2)
    )
    assert first is not None
    assert again is not None
    assert other is not None
    assert sorted(np.concatenate(first).tolist()) == list(range(32))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    owners = [set(attribute[part].tolist()) for part in first]
    assert sum(map(len, owners)) == 13


@pytest.mark.parametrize(
    ("text", "parties", "message"),
    [
        ("vertical-importance(1, 1)", None, "n must be >= 2 parties, got 1"),
        ("vertical-importance(2, 0)", None, r"alpha must be above 0 and at most 1e6, got 0\.0\. Use 1\.0"),
        ("vertical-importance(2, nan)", None, "alpha must be a number, got .nan."),
        ("vertical-importance(2, 1)", 3, r"makes 2 parties, got 3\. Leave the number out"),
        ("vertical-importance(9, 1)", None, r"each of 9 parties an attribute of its own, but fine has 5"),
        ("vertical-correlation(2, 1.5)", None, r"beta must be from 0 to 1, got 1\.5\. Use 0\.5"),
        ("vertical-correlation(2, -1)", None, "beta must be from 0 to 1"),
        ("vertical-correlation(0, 1)", None, "n must be >= 2 parties"),
        ("vertical-correlation(9, 1)", None, r"Use at most 5 parties"),
        ("vertical-correlation(2, 1)", 4, "makes 2 parties, got 4"),
    ],
)
def test_wrong_splits(text: str, parties: int | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_partition(text, fine(5, 30), parties, 0)


@pytest.mark.parametrize("rule", ["vertical-importance(2, 1)", "vertical-correlation(2, 0.5)"])
def test_tokens_are_refused(rule: str) -> None:
    x, y = np.zeros((4, 9), np.int64), np.arange(4) % 2
    with pytest.raises(UserError, match="words has rows of tokens"):
        make_partition(rule, Dataset("words", x, y, x, y, ("a", "b"), kind="tokens"), None, 0)
