"""Preferences: a permutation without fixed points for each party, applied to as many rows as said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.data import Dataset
from unalike.errors import UserError
from unalike.partition import make_partition, seen_by
from unalike.partition.label_preference import _derangement

Make = Callable[..., Dataset]


@given(size=st.integers(2, 40), seed=st.integers(0, 2**40))
def test_no_label_keeps_its_place(size: int, seed: int) -> None:
    permutation = _derangement(size, np.random.default_rng(seed))
    assert sorted(permutation) == list(range(size))
    assert (permutation != np.arange(size)).all()


def test_every_derangement_is_as_likely() -> None:
    rng = np.random.default_rng(0)
    times = Counter(tuple(_derangement(4, rng)) for _ in range(9000))
    assert len(times) == 9
    assert all(abs(count - 1000) < 5 * np.sqrt(1000) for count in times.values())


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_rows_are_permuted_with_probability_p(made: Make, p: float) -> None:
    data = made(np.arange(16_000) % 8, 8)
    partition = make_partition(f"label-preference({p})", data, 4, 2)
    (preferences,) = partition.distortions
    kept: Any = preferences
    permutations = set()
    for party, rows in enumerate(partition.rows):
        seen, was = seen_by(data, partition, party)[1], data.y[rows]
        changed = seen != was
        assert abs(changed.mean() - p) <= 5 * np.sqrt(p * (1 - p) / len(rows))
        permutation = kept.permutation(party)
        np.testing.assert_array_equal(seen[changed], permutation[was[changed]])
        permutations.add(tuple(permutation))
    assert len(permutations) == 4  # of 14,833 derangements


def test_a_share_of_the_parties(made: Make) -> None:
    data = made(np.arange(400) % 2, 2)
    partition = make_partition("label-preference(1, share=0.3)", data, 10, 0)
    swapped = [(seen_by(data, partition, k)[1] != data.y[rows]) for k, rows in enumerate(partition.rows)]
    assert sum(party.all() for party in swapped) == 3
    assert sum(not party.any() for party in swapped) == 7
    chosen = {make_partition("label-preference(1, 0.3)", data, 10, s).distortions[0].parties for s in range(5)}  # type: ignore[attr-defined]
    assert len(chosen) > 1


@pytest.mark.parametrize("p", [0.3, 1.0])
def test_groups_are_of_one_mind(made: Make, p: float) -> None:
    data = made(np.arange(9_000) % 10, 10)
    partition = make_partition(f"label-preference({p}, groups=3)", data, 9, 0)
    (preferences,) = partition.distortions
    kept: Any = preferences
    permutations = [tuple(kept.permutation(party)) for party in range(9)]
    assert permutations[0] == tuple(range(10))
    assert all(permutations[party] == permutations[party % 3] for party in range(9))
    assert len(set(permutations)) == 3
    changed = []
    for party, rows in enumerate(partition.rows):
        seen, was = seen_by(data, partition, party)[1], data.y[rows]
        changed.append(seen != was)
        np.testing.assert_array_equal(seen[changed[-1]], np.array(permutations[party])[was[changed[-1]]])
        assert abs(changed[-1].mean() - p * bool(party % 3)) <= 5 * np.sqrt(p * (1 - p) / len(rows))
    assert p == 1 or (changed[1] != changed[4]).any()  # which rows is each party's own chance


def test_groups_and_a_share_exclude_each_other(made: Make) -> None:
    data = made(np.arange(9) % 3, 3)
    with pytest.raises(UserError, match=r"groups and its share both say .* got 2 and 0.5. Leave one of them out"):
        make_partition("label-preference(1, share=0.5, groups=2)", data, 2, 0)
    with pytest.raises(UserError, match=r"label-preference's groups must be >= 0, got -1"):
        make_partition("label-preference(1, groups=-1)", data, 2, 0)


@pytest.mark.parametrize(("text", "name"), [("2", "p"), ("-0.5", "p"), ("0.5, share=1.1", "share")])
def test_wrong_numbers(made: Make, text: str, name: str) -> None:
    with pytest.raises(UserError, match=rf"label-preference's {name} must be from 0 to 1"):
        make_partition(f"label-preference({text})", made(np.arange(9) % 2, 2), 2, 0)


def test_a_single_label(made: Make) -> None:
    with pytest.raises(UserError, match="has one label only"):
        make_partition("label-preference(0.1)", made(np.zeros(9, int), 1), 2, 0)
