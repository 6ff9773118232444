"""Sizes follow their law; labels do not depend on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unalike.data import Dataset
from unalike.partition import Partition, make_partition
from unalike.partition.sharing import apportion, raise_to

Make = Callable[..., Dataset]


def sizes(partition: Partition) -> np.ndarray:
    return np.array([len(rows) for rows in partition.rows])


@pytest.mark.parametrize("beta", [0.8, 2.0])
def test_dirichlet_sizes(made: Make, beta: float) -> None:
    rows, parties = 4000, 4
    dataset = made(np.zeros(rows, int), 1)
    rule = f"quantity-dirichlet({beta}, minimum=1)"
    drawn = np.array([sizes(make_partition(rule, dataset, parties, seed)) for seed in range(300)]) / rows
    for party in range(parties):
        assert stats.kstest(drawn[:, party], stats.beta(beta, 3 * beta).cdf).pvalue > 1e-3


def test_power_law_sizes(made: Make) -> None:
    dataset = made(np.zeros(50_000, int), 1)
    for exponent in (0.0, 0.7, 2.0):
        found = np.sort(sizes(make_partition(f"quantity-power({exponent}, 1)", dataset, 20, 0)))[::-1]
        law = np.arange(1, 21) ** -exponent
        np.testing.assert_allclose(found, law / law.sum() * 50_000, atol=1)
    largest = {int(np.argmax(sizes(make_partition("quantity-power", dataset, 5, seed)))) for seed in range(40)}
    assert largest == {0, 1, 2, 3, 4}  # any party may be the largest


@pytest.mark.parametrize("rule", ["quantity-dirichlet(0.5)", "quantity-power"])
def test_labels_do_not_depend_on_the_party(made: Make, rule: str) -> None:
    dataset = made(np.repeat(np.arange(4), 1000), 4)
    values = [
        stats.chi2_contingency(make_partition(rule, dataset, 5, seed).label_counts(dataset)).pvalue
        for seed in range(200)
    ]
    assert stats.kstest(values, "uniform").pvalue > 1e-3


@settings(deadline=None)
@given(
    rule=st.sampled_from(
        ["quantity-dirichlet(0.001", "quantity-dirichlet(3", "quantity-power(50", "quantity-power(1"]
    ),
    rows=st.integers(1, 300),
    minimum=st.integers(1, 40),
    data=st.data(),
)
def test_minimum_is_always_reached(made: Make, rule: str, rows: int, minimum: int, data: st.DataObject) -> None:
    parties = data.draw(st.integers(1, rows))
    partition = make_partition(f"{rule}, minimum={minimum})", made(np.zeros(rows, int), 1), parties, 0)
    assert sizes(partition).min() >= min(minimum, rows // parties)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30).filter(lambda w: sum(w) > 1e-3), st.integers(0, 10**6))
def test_whole_numbers_within_one_of_the_proportions(weights: list[float], total: int) -> None:
    shares = np.array(weights) / sum(weights) * total
    found = apportion(np.array(weights), total)
    assert found.sum() == total
    assert np.abs(found - shares).max() < 1 + 1e-6


@settings(deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=20), st.data())
def test_raising_keeps_the_sum(given_sizes: list[int], data: st.DataObject) -> None:
    before = np.array(given_sizes)
    minimum = data.draw(st.integers(0, int(before.sum()) // len(before)))
    after = raise_to(before, minimum)
    assert after.sum() == before.sum()
    assert after.min() >= minimum
    assert (after[before < minimum] == minimum).all()
