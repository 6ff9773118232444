"""Sizes follow their law; labels do not depend on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import PARTITIONS, Partition, make_partition, save_partition, seen_by
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


SPLITS = (
    *("iid", "label-dirichlet(0.3)", "label-count(2)", "shards(2)", "similarity(10)", "natural", "copies(2)"),
    *("temporal(drift, seasons=3)", "quantity-power(0.5)", "label-dirichlet(0.5, balanced=true)"),
)
SIZES = ("quantity-dirichlet(0.5)", "quantity-power(1.0)")


@pytest.mark.parametrize("law", SIZES)
@pytest.mark.parametrize("split", SPLITS)
def test_sizes_after_a_split_keep_rows_that_the_split_gave(made: Make, split: str, law: str) -> None:
    rng = np.random.default_rng(1)
    dataset = made(rng.integers(0, 4, 600), 4, rng.integers(0, 6, 600), 6)
    parties = None if split == "natural" else 6
    for seed in range(5):
        plain, both = (make_partition(text, dataset, parties, seed) for text in (split, f"{split}+{law}"))
        assert (both.names, both.parties) == (plain.names, 6)
        for before, after in zip(plain.rows, both.rows, strict=True):
            assert len(np.unique(after)) == len(after) >= min(10, len(before))
            assert np.isin(after, before).all()
            assert (np.diff(after) > 0).all()
        assert any(len(before) == len(after) for before, after in zip(plain.rows, both.rows, strict=True))
        again = make_partition(f"{split}+{law}", dataset, parties, seed)
        assert all(map(np.array_equal, both.rows, again.rows))
        if plain.seasons and both.seasons:
            for rows, seasons, less, own in zip(plain.rows, plain.seasons, both.rows, both.seasons, strict=True):
                np.testing.assert_array_equal(own, seasons[np.searchsorted(rows, less)])


@pytest.mark.parametrize("beta", [0.8, 2.0])
def test_sizes_after_a_split_follow_their_law(made: Make, beta: float) -> None:
    """Parties of equal sizes become sizes in proportion to the draw."""
    dataset = made(np.zeros(4000, int), 1)
    text = f"iid+quantity-dirichlet({beta}, minimum=1)"
    drawn = np.array([sizes(make_partition(text, dataset, 4, seed)) for seed in range(300)])
    assert (drawn.max(axis=1) == 1000).all()
    shares = drawn / drawn.sum(axis=1, keepdims=True)
    for party in range(4):
        assert stats.kstest(shares[:, party], stats.beta(beta, 3 * beta).cdf).pvalue > 1e-3


def test_sizes_keep_the_mix_of_labels(made: Make) -> None:
    """What is kept is a random part of what the split gave: in expectation its labels are the same."""
    dataset = made(np.repeat(np.arange(3), [300, 200, 100]), 3)
    before = make_partition("label-dirichlet(0.5)", dataset, 4, 7).label_counts(dataset)
    rows = make_partition("label-dirichlet(0.5)", dataset, 4, 7)
    kept = np.zeros(before.shape)
    for draw in range(300):
        thinner = PARTITIONS.build("quantity-dirichlet(1.0, minimum=5)").parts[0]
        kept += thinner.thin(rows, np.random.default_rng(draw)).label_counts(dataset)
    mix, own = (table / table.sum(axis=1, keepdims=True) for table in (before, kept))
    np.testing.assert_allclose(own, mix, atol=0.02)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label-dirichlet(0.5)+iid", "both split the rows. Give one split"),
        ("quantity-dirichlet(0.5)+label-dirichlet(0.5)", "both split the rows"),
        ("feature-noise(0.1)+quantity-dirichlet(0.5)", "splits the rows: write it first"),
        ("iid+feature-noise(0.1)+quantity-power", "splits the rows: write it before the distortions"),
        ("iid+quantity-dirichlet(0)", "beta must be > 0"),
    ],
)
def test_sizes_that_cannot_be_are_one_line(made: Make, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_partition(text, made(np.arange(40) % 2, 2), None, 0)


def test_parties_that_need_the_same_rows_take_no_sizes() -> None:
    with pytest.raises(UserError, match=r"^All parties of vertical\(.*have the same rows. Leave sizes out"):
        make_partition("vertical(2)+quantity-power", load_dataset("heart"), None, 0)


def test_sizes_distortions_and_a_saved_file_go_together(made: Make, tmp_path: Path) -> None:
    dataset = made(np.arange(400) % 4, 4)
    text = "shards(2)+quantity-dirichlet(0.5)+feature-noise(0.1)"
    partition = make_partition(text, dataset, 5, 3)
    save_partition(tmp_path / "p.npz", partition, dataset, 3)
    again = make_partition(f"file:{tmp_path}/p.npz", dataset, None, 0)
    assert all(map(np.array_equal, partition.rows, again.rows))
    for party in range(5):
        first, second = (seen_by(dataset, one, party) for one in (partition, again))
        np.testing.assert_array_equal(first[0], second[0])
