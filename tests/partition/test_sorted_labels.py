"""Splits of the rows sorted by label: shards and similarity."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unalike.data import Dataset
from unalike.partition import Partition, make_partition

Make = Callable[..., Dataset]


def sizes(partition: Partition) -> list[int]:
    return [len(rows) for rows in partition.rows]


def test_shards_of_mcmahan(made: Make) -> None:
    # 200 shards of 300 rows, 2 for each of 100 clients: each has at most two labels, where labels have 6000 rows.
    dataset = made(np.random.default_rng(0).permutation(np.repeat(np.arange(10), 6000)), 10)
    partition = make_partition("shards", dataset, 100, 0)
    counts = partition.label_counts(dataset)
    assert set(sizes(partition)) == {600}
    assert set(np.unique(counts)) == {0, 300, 600}
    assert 0.02 < ((counts > 0).sum(axis=1) == 1).mean() < 0.25  # 19/199 expected: both shards are of one label


@settings(deadline=None)
@given(rows=st.integers(10, 300), parties=st.integers(1, 10), n=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_shards_are_equal_and_each_party_has_n(made: Make, rows: int, parties: int, n: int, seed: int) -> None:
    if parties * n > rows:
        return
    dataset = made(np.arange(rows), rows)  # each row is a label: a party's rows show its shards
    partition = make_partition(f"shards({n})", dataset, parties, seed)
    cuts = [0]
    for shard in range(parties * n):
        cuts.append(cuts[-1] + rows // (parties * n) + (shard < rows % (parties * n)))
    shard_of = np.searchsorted(cuts, np.arange(rows), side="right") - 1
    for party in partition.rows:
        held, counts = np.unique(shard_of[party], return_counts=True)
        assert len(held) == n
        np.testing.assert_array_equal(counts, np.diff(cuts)[held])


def test_any_party_may_have_any_shard(made: Make) -> None:
    dataset = made(np.repeat(np.arange(4), 10), 4)
    held = np.array([make_partition("shards(1)", dataset, 4, s).label_counts(dataset)[0] for s in range(400)])
    assert stats.chisquare((held > 0).sum(axis=0)).pvalue > 1e-3


def test_similarity_zero_is_sorted(made: Make) -> None:
    labels = np.random.default_rng(0).integers(0, 7, 503)
    partition = make_partition("similarity(0)", made(labels, 7), 10, 0)
    held = [labels[rows] for rows in partition.rows]
    assert all(before.max() <= after.min() for before, after in pairwise(held))
    assert max(sizes(partition)) - min(sizes(partition)) <= 1


def test_similarity_hundred_is_iid(made: Make) -> None:
    dataset = made(np.repeat(np.arange(4), 300), 4)
    for rule in ("iid", "similarity(100)"):
        values = [
            stats.chi2_contingency(make_partition(rule, dataset, 5, seed).label_counts(dataset)).pvalue
            for seed in range(300)
        ]
        assert stats.kstest(values, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("s", [10, 50, 80])
def test_similarity_percent_of_the_rows_are_alike(made: Make, s: int) -> None:
    dataset = made(np.repeat(np.arange(10), 1000), 10)
    counts = make_partition(f"similarity({s})", dataset, 10, 0).label_counts(dataset)
    # Far from the diagonal: the sorted part's cuts may be a few rows beside the labels' ends.
    others = counts[np.abs(np.subtract.outer(np.arange(10), np.arange(10))) > 1]
    np.testing.assert_allclose(others.mean(), 1000 * s / 100 / 10, rtol=0.05)  # the IID part, spread over all
    assert (counts.sum(axis=1) == 1000).all()


@settings(deadline=None)
@given(rows=st.integers(1, 200), s=st.floats(0, 100), data=st.data())
def test_similar_parties_are_of_equal_size(made: Make, rows: int, s: float, data: st.DataObject) -> None:
    parties = data.draw(st.integers(1, rows))
    found = sizes(make_partition(f"similarity({s})", made(np.zeros(rows, int), 1), parties, 0))
    assert max(found) - min(found) <= 1
