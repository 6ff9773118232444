"""Dealing at random: even sizes, every row equally likely in every party."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unalike.data import Dataset
from unalike.partition import make_partition


def test_sizes_differ_by_one_at_most(made: Callable[..., Dataset]) -> None:
    partition = make_partition("iid", made(np.zeros(23, int), 1), 5, 0)
    assert [len(rows) for rows in partition.rows] == [5, 5, 5, 4, 4]


def test_each_row_is_equally_likely_everywhere(made: Callable[..., Dataset]) -> None:
    dataset = made(np.zeros(12, int), 1)
    times = np.zeros((12, 3))
    draws = 2000
    for seed in range(draws):
        for party, rows in enumerate(make_partition("iid", dataset, 3, seed).rows):
            times[rows, party] += 1
    assert np.abs(times / draws - 1 / 3).max() < 5 * np.sqrt(2 / 9 / draws)
