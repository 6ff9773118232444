"""The data's own parties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import make_partition

Make = Callable[..., Dataset]


def test_hospitals_are_the_parties() -> None:
    heart = load_dataset("heart")
    partition = make_partition("natural", heart, None, 0)
    assert partition.names == ("cleveland", "hungarian", "switzerland", "va")
    assert [len(rows) for rows in partition.rows] == [242, 235, 98, 160]
    assert heart.group is not None
    for party, rows in enumerate(partition.rows):
        assert (heart.group[rows] == party).all()
    again = make_partition("natural", heart, 4, 99)
    assert all(np.array_equal(a, b) for a, b in zip(partition.rows, again.rows, strict=True))


def test_hospitals_without_complete_patients_are_no_parties() -> None:
    partition = make_partition("natural", load_dataset("heart(missing=drop)"), None, 0)
    assert partition.names == ("cleveland", "hungarian", "va")


def test_data_without_groups() -> None:
    with pytest.raises(UserError, match=r"^digits has no natural parties\. Use another partition"):
        make_partition("natural", load_dataset("digits"), None, 0)


def test_more_parties_than_groups() -> None:
    message = r"^fcube has 4 natural parties, got 5\. Use at most 4 or leave the number out\.$"
    with pytest.raises(UserError, match=message):
        make_partition("natural", load_dataset("fcube"), 5, 0)
    with pytest.raises(UserError, match=r"3 natural parties of at least 150 rows, got 4\. Use at most 3"):
        make_partition("natural(150)", load_dataset("heart"), 4, 0)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32), groups=st.integers(1, 40), data=st.data())
def test_groups_are_merged_whole(made: Make, seed: int, groups: int, data: st.DataObject) -> None:
    parties = data.draw(st.integers(1, groups))
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(groups), rng.geometric(0.1, groups)))
    partition = make_partition("natural", made(np.zeros(len(group), int), 1, group, groups), parties, seed)
    held = [set(group[rows]) for rows in partition.rows]
    assert sum(map(len, held)) == groups  # none is in two parties
    sizes = [len(rows) for rows in partition.rows]
    assert sum(sizes) == len(group)
    assert max(sizes) - min(sizes) <= np.bincount(group).max()


def test_who_is_merged_with_whom_is_random(made: Make) -> None:
    dataset = made(np.zeros(6, int), 1, np.arange(6), 6)
    partners = [make_partition("natural", dataset, 3, seed).rows for seed in range(300)]
    with_first = [next(set(rows.tolist()) - {0} for rows in parts if 0 in rows).pop() for parts in partners]
    assert stats.chisquare(np.bincount(with_first)[1:]).pvalue > 1e-3


def test_names_of_merged_groups(made: Make) -> None:
    dataset = made(np.zeros(8, int), 1, np.arange(8), 8)
    assert make_partition("natural", dataset, 1, 0).names == ("party 0 (8 groups)",)
    assert all(name.count(" + ") == 1 for name in make_partition("natural", dataset, 4, 0).names)


def test_small_groups_are_left_out(made: Make) -> None:
    group = np.array([2, 0, 1, 2, 0, 2, 3])
    dataset = made(np.zeros(7, int), 1, group, 4)
    partition = make_partition("natural(minimum=2)", dataset, None, 0)
    assert partition.leaves_rows
    assert partition.names == ("group 0", "group 2")
    assert [rows.tolist() for rows in partition.rows] == [[1, 4], [0, 3, 5]]
    merged = make_partition("natural(minimum=2)", dataset, 1, 0)
    assert merged.rows[0].tolist() == [0, 1, 3, 4, 5]
    assert not make_partition("natural(minimum=1)", dataset, None, 0).leaves_rows


@pytest.mark.parametrize("group", [[0, 1, 2], [0, 1, -1]])
def test_groups_that_do_not_fit(made: Callable[..., Dataset], group: list[int]) -> None:
    dataset = made(np.zeros(3, int), 1, np.array(group), 2)
    with pytest.raises(UserError, match="groups do not fit them"):
        make_partition("natural", dataset, None, 0)


def test_a_group_without_rows(made: Callable[..., Dataset]) -> None:
    dataset = made(np.zeros(3, int), 1, np.array([0, 2, 0]), 3)
    with pytest.raises(UserError, match="leaves 'group 1' without rows"):
        make_partition("natural", dataset, None, 0)
