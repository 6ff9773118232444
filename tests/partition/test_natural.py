"""The data's own parties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import make_partition


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


@pytest.mark.parametrize("parties", [0, 3, 5])
def test_wrong_number_of_parties(parties: int) -> None:
    message = rf"^fcube has 4 natural parties, got {parties}\. Use 4 or leave the number out\.$"
    with pytest.raises(UserError, match=message):
        make_partition("natural", load_dataset("fcube"), parties, 0)


@pytest.mark.parametrize("group", [[0, 1], [0, 1, 2], [0, 1, -1]])
def test_groups_that_do_not_fit(made: Callable[..., Dataset], group: list[int]) -> None:
    dataset = made(np.zeros(3, int), 1, np.array(group), 2)
    with pytest.raises(UserError, match="groups do not fit them"):
        make_partition("natural", dataset, None, 0)


def test_a_group_without_rows(made: Callable[..., Dataset]) -> None:
    dataset = made(np.zeros(3, int), 1, np.array([0, 2, 0]), 3)
    with pytest.raises(UserError, match="leaves 'group 1' without rows"):
        make_partition("natural", dataset, None, 0)
