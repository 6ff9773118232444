"""Periods of time: one for each party, or seasons through which the data drift."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unalike.data import Dataset, load_dataset
from unalike.partition import as_seen, make_partition

Make = Callable[..., Dataset]


def test_each_party_has_a_period_of_its_own(made: Make) -> None:
    dataset = made(np.zeros(103, int), 1)
    partition = make_partition("temporal(by=row)", dataset, 4, 0)
    assert [rows.tolist() for rows in partition.rows] == [
        part.tolist() for part in np.array_split(np.arange(103), 4)
    ]
    assert partition.seasons is None
    heart = load_dataset("heart")
    ages = [heart.x[rows, 0] for rows in make_partition("temporal(by=age)", heart, 5, 0).rows]
    assert all(before.max() <= after.min() for before, after in pairwise(ages))


@settings(deadline=None)
@given(
    seasons=st.integers(2, 6),
    parties=st.integers(1, 8),
    by=st.sampled_from(["row", "label", "'0'"]),
    data=st.data(),
)
def test_each_party_has_an_even_share_of_each_season(
    made: Make, seasons: int, parties: int, by: str, data: st.DataObject
) -> None:
    rows = data.draw(st.integers(seasons * parties, 200))
    dataset = made(np.arange(rows) % 3, 3)
    partition = make_partition(f"temporal(drift, {seasons}, by={by}, every=7)", dataset, parties, 1)
    assert partition.seasons is not None
    assert partition.rounds_per_season == 7
    counts = np.array([np.bincount(part, minlength=seasons) for part in partition.seasons])
    assert counts.shape == (parties, seasons)
    assert counts.min() >= 1
    assert (counts.max(axis=0) - counts.min(axis=0)).max() <= 1
    assert np.ptp(counts.sum(axis=0)) <= 1
    assert np.ptp(counts.sum(axis=1)) <= 1
    if by != "label":  # the only column of these data is the number of the row
        for part, season in zip(partition.rows, partition.seasons, strict=True):
            assert (np.diff(season) >= 0).all()
            assert (np.diff(part) > 0).all()


@pytest.mark.parametrize("classes", [2, 10])
def test_labels_drift(made: Make, classes: int) -> None:
    dataset = made(np.repeat(np.arange(classes), 2000 // classes), classes)
    partition = make_partition("temporal(drift)", dataset, 5, 0)
    assert partition.seasons is not None
    season = np.empty(dataset.size, int)
    for rows, part in zip(partition.rows, partition.seasons, strict=True):
        season[rows] = part
    table = np.array(
        [np.bincount(dataset.y[season == k], minlength=classes) / (season == k).sum() for k in range(4)]
    )
    distance = np.abs(table[:, None] - table[None]).sum(axis=2) / 2  # in total variation
    assert distance[0, 3] > 0.6
    assert distance[0, 1] < distance[0, 2] < distance[0, 3]  # step by step, not at random
    # Within a season the parties are alike.
    within = np.array([np.bincount(dataset.y[rows], minlength=classes) for rows in partition.rows])
    assert stats.chi2_contingency(within).pvalue > 1e-3


def test_other_seeds_let_other_labels_come_first(made: Make) -> None:
    dataset = made(np.repeat(np.arange(4), 50), 4)
    first = [make_partition("temporal", dataset, 4, seed).label_counts(dataset)[0].argmax() for seed in range(40)]
    assert set(first) == {0, 1, 2, 3}


def test_seasons_stay_with_their_rows_when_distortions_are_carried_out() -> None:
    heart = load_dataset("heart")
    partition = make_partition("temporal(drift, by=age)+feature-noise(0.1)", heart, 3, 0)
    _, seen = as_seen(heart, partition)
    assert partition.seasons is not None
    assert seen.seasons is not None
    for season, rows, after in zip(partition.seasons, partition.rows, seen.rows, strict=True):
        assert len(rows) == len(after) == len(season)
    assert all(np.array_equal(a, b) for a, b in zip(partition.seasons, seen.seasons, strict=True))
