"""Label skew: the law of the proportions, and a minimum that is always reached."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unalike.data import Dataset
from unalike.errors import UserError
from unalike.partition import make_partition
from unalike.partition.label_dirichlet import fill_equally
from unalike.partition.sharing import cut_tops, draw_dirichlet

Make = Callable[..., Dataset]


@pytest.mark.parametrize("beta", [1e-3, 0.05, 0.5, 1.0, 30.0, 1e3])
def test_draws_have_the_dirichlet_mean_and_variance(beta: float) -> None:
    parties, draws = 5, 40_000
    shares = draw_dirichlet(beta, (draws, parties), np.random.default_rng(0))
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    variance = (parties - 1) / (parties**2 * (parties * beta + 1))
    assert np.abs(shares.mean(axis=0) - 1 / parties).max() < 5 * np.sqrt(variance / draws)
    np.testing.assert_allclose(shares.var(axis=0), variance, rtol=0.05)


@pytest.mark.parametrize("beta", [0.05, 0.5, 2.0])
def test_each_share_is_beta_distributed(beta: float) -> None:
    shares = draw_dirichlet(beta, (4000, 4), np.random.default_rng(1))[:, 2]
    assert stats.kstest(shares, stats.beta(beta, 3 * beta).cdf).pvalue > 1e-3


@pytest.mark.parametrize("beta", [5e-324, 1e-300, 1e-3, 1e6, 1e308])
def test_extreme_beta_gives_proportions(beta: float) -> None:
    shares = draw_dirichlet(beta, (500, 3), np.random.default_rng(0))
    assert np.isfinite(shares).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    if beta <= 1e-300:  # a label has one party, each as likely
        assert (shares.max(axis=1) == 1).all()
        assert np.abs(shares.mean(axis=0) - 1 / 3).max() < 0.1
    if beta >= 1e6:
        np.testing.assert_allclose(shares, 1 / 3, atol=0.01)


def test_partitions_have_the_dirichlet_mean_and_variance(made: Make) -> None:
    # Enough rows, so that rounding to whole rows and a minimum of one row change next to nothing.
    parties, beta, rows, seeds = 4, 0.5, 1000, 800
    dataset = made(np.repeat([0, 1], rows), 2)
    text = f"label-dirichlet({beta}, minimum=1)"
    counts = [make_partition(text, dataset, parties, seed).label_counts(dataset) for seed in range(seeds)]
    shares = np.array(counts) / rows
    variance = (parties - 1) / (parties**2 * (parties * beta + 1))
    assert np.abs(shares.mean(axis=0) - 1 / parties).max() < 5 * np.sqrt(variance / seeds)
    np.testing.assert_allclose(shares.var(axis=0).mean(), variance, rtol=0.06)
    # Two labels' proportions are drawn independently.
    assert abs(np.corrcoef(shares[:, 0, 0], shares[:, 0, 1])[0, 1]) < 5 / np.sqrt(seeds)


@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_partitions_have_the_dirichlet_law(made: Make, beta: float) -> None:
    dataset = made(np.repeat([0, 1], 4000), 2)
    text = f"label-dirichlet({beta}, minimum=1)"
    shares = [make_partition(text, dataset, 3, seed).label_counts(dataset)[:, 1] / 4000 for seed in range(300)]
    law = stats.beta(beta, 2 * beta)
    for party in np.array(shares).T:
        assert stats.kstest(party, law.cdf).pvalue > 1e-3
        tenths = np.histogram(party, law.ppf(np.linspace(0, 1, 11)))[0]
        assert stats.chisquare(tenths).pvalue > 1e-3


def test_balanced_parties_have_the_dirichlet_law(made: Make) -> None:
    # With many parties a label has not run out for the first of them: a small party follows its draw.
    dataset = made(np.repeat(np.arange(4), 10_000), 4)
    counts = make_partition("label-dirichlet(0.7, balanced=true)", dataset, 400, 1).label_counts(dataset)
    assert set(counts.sum(axis=1)) == {100}
    assert stats.kstest(counts[:, 2] / 100 + 0.005, stats.beta(0.7, 2.1).cdf).pvalue > 1e-3


@given(
    exponent=st.floats(-3, 3), rows=st.integers(1, 300), classes=st.integers(1, 9), seed=st.integers(0, 2**32),
    data=st.data(),
)  # fmt: skip
def test_balanced_parties_are_of_equal_size(
    made: Make, exponent: float, rows: int, classes: int, seed: int, data: st.DataObject
) -> None:
    parties = data.draw(st.integers(1, rows))
    labels = np.minimum(np.random.default_rng(seed).geometric(0.4, rows) - 1, classes - 1)  # unequal labels
    partition = make_partition(
        f"label-dirichlet({10**exponent}, balanced=true)", made(labels, classes), parties, seed
    )
    sizes = [len(party) for party in partition.rows]
    assert sum(sizes) == rows
    assert max(sizes) - min(sizes) <= 1


def test_balanced_means_are_those_of_the_labels(made: Make) -> None:
    dataset = made(np.repeat([0, 1, 2], [3000, 900, 100]), 3)
    counts = make_partition("label-dirichlet(10000, balanced=true)", dataset, 4, 0).label_counts(dataset)
    np.testing.assert_allclose(
        counts, np.tile([750, 225, 25], (4, 1)), atol=25
    )  # equal thirds would use up label 2


def test_parties_take_others_when_a_label_has_run_out() -> None:
    only_first = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.9, 0.1, 0.0]])
    assert fill_equally(np.array([4, 3, 2]), only_first).tolist() == [[3, 0, 0], [1, 1, 1], [0, 2, 1]]


def test_rows_of_a_label_are_dealt_at_random(made: Make) -> None:
    dataset = made(np.zeros(40, int), 1)
    places = [make_partition("label-dirichlet(1)", dataset, 2, seed).rows[0].mean() for seed in range(400)]
    assert abs(np.mean(places) - 19.5) < 1


@given(
    exponent=st.floats(-3, 3),
    minimum=st.integers(1, 40),
    rows=st.integers(1, 400),
    classes=st.integers(1, 10),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_minimum_is_always_reached(
    made: Make, exponent: float, minimum: int, rows: int, classes: int, seed: int, data: st.DataObject
) -> None:
    parties = data.draw(st.integers(1, rows))
    dataset = made(np.random.default_rng(seed).integers(0, classes, rows), classes)
    partition = make_partition(f"label-dirichlet({10**exponent}, {minimum})", dataset, parties, seed)
    assert sorted(np.concatenate(partition.rows)) == list(range(rows))
    assert min(len(party) for party in partition.rows) >= min(minimum, rows // parties)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=30), st.data())
def test_only_the_largest_give(sizes: list[int], data: st.DataObject) -> None:
    before = np.array(sizes)
    total = data.draw(st.integers(0, int(before.sum())))
    given_rows = cut_tops(before, total)
    after = before - given_rows
    assert given_rows.sum() == total
    assert given_rows.min() >= 0
    assert after.min() >= 0
    if total:  # the givers end level, to within one row, and nobody else is above them
        assert after.max() - after[given_rows > 0].min() <= 1


def test_repair_leaves_large_enough_parties_as_drawn(made: Make) -> None:
    dataset = made(np.random.default_rng(0).integers(0, 10, 5000), 10)
    drawn = make_partition("label-dirichlet(0.3, minimum=1)", dataset, 10, 4)
    filled = make_partition("label-dirichlet(0.3, minimum=300)", dataset, 10, 4)
    sizes = np.array([len(rows) for rows in drawn.rows])
    assert sizes.min() < 300  # else this test shows nothing
    for before, after in zip(drawn.rows, filled.rows, strict=True):
        if len(before) <= 300:
            assert set(before) <= set(after)
            assert len(after) == 300
        else:
            assert set(after) <= set(before)
    assert any(np.array_equal(a, b) for a, b in zip(drawn.rows, filled.rows, strict=True))


def test_smaller_beta_is_more_skew(made: Make) -> None:
    dataset = made(np.repeat(np.arange(10), 200), 10)
    held = []
    for beta in (100, 1, 0.1, 0.01):
        counts = make_partition(f"label-dirichlet({beta}, 1)", dataset, 10, 0).label_counts(dataset)
        held.append(counts.max(axis=0).mean() / 200)  # the largest share of a label in one party
    assert held == sorted(held)
    assert held[0] < 0.2
    assert held[-1] > 0.9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label-dirichlet(0)", r"label-dirichlet's beta must be > 0, got 0\.0\. Use 0\.5"),
        ("label-dirichlet(-1)", r"label-dirichlet's beta must be > 0, got -1\.0\."),
        ("label-dirichlet(1, minimum=0)", r"label-dirichlet's minimum must be >= 1, got 0\. Use 1"),
        ("label-dirichlet", r"label-dirichlet needs beta"),
    ],
)
def test_wrong_parameters(made: Make, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_partition(text, made(np.zeros(30, int), 1), 2, 0)


@pytest.mark.parametrize(
    ("rows", "parties", "beta", "limit"), [(60_000, 500, 0.05, 1), (1_000_000, 10_000, 0.3, 5)]
)
def test_many_parties_are_quick(made: Make, rows: int, parties: int, beta: float, limit: float) -> None:
    dataset = made(np.random.default_rng(0).integers(0, 10, rows), 10)
    start = time.process_time()
    partition = make_partition(f"label-dirichlet({beta})", dataset, parties, 0)
    assert time.process_time() - start < limit
    assert min(len(party) for party in partition.rows) >= 10
