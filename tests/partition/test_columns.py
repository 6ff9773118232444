"""Splits by columns of a table: categories, ranges and octants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import make_partition
from unalike.partition.by import cut_evenly


@pytest.fixture(scope="module")
def heart() -> Dataset:
    return load_dataset("heart")


def table(x: np.ndarray, features: tuple[str, ...] = ()) -> Dataset:
    labels = np.zeros(len(x), int)
    return Dataset("made", x, labels, x[:1], labels[:1], ("0",), features)


def test_a_party_for_each_category(heart: Dataset) -> None:
    partition = make_partition("by(cp)", heart, None, 0)
    assert partition.names == ("cp 1", "cp 2", "cp 3", "cp 4")
    for number, rows in enumerate(partition.rows):
        assert (heart.x[rows, heart.features.index(f"cp_{number + 1}")] == 1).all()


def test_categories_are_merged_whole(heart: Dataset) -> None:
    each, merged = (make_partition("by(cp)", heart, parties, 0) for parties in (4, 2))
    assert len({name for text in merged.names for name in text.split(" + ")}) == 4
    for rows in each.rows:
        assert sum(np.isin(rows, party).all() for party in merged.rows) == 1


def test_rows_of_no_category() -> None:
    x = np.array([[1, 0], [0, 0], [0, 1], [1, 0]], np.float32)
    partition = make_partition("by(colour)", table(x, ("colour=red", "colour=blue")), None, 0)
    assert partition.names == ("colour red", "colour blue", "colour none")
    assert [rows.tolist() for rows in partition.rows] == [[0, 3], [2], [1]]


def test_a_party_for_each_of_few_numbers(heart: Dataset) -> None:
    partition = make_partition("by(sex)", heart, None, 0)
    assert partition.names == ("sex 0", "sex 1")
    assert make_partition("by(age)", heart, None, 0).parties == 10


@pytest.mark.parametrize("parties", [2, 4, 9])
def test_ranges_of_numbers(heart: Dataset, parties: int) -> None:
    partition = make_partition("by(age)", heart, parties, 0)
    held = [heart.x[rows, 0] for rows in partition.rows]
    assert all(low.max() < high.min() for low, high in zip(held, held[1:], strict=False))  # noqa: RUF007
    assert max(abs(len(rows) - heart.size / parties) for rows in partition.rows) < 40  # as many as have one age
    by_index = make_partition("by('0')", heart, parties, 5)
    assert all(np.array_equal(a, b) for a, b in zip(partition.rows, by_index.rows, strict=True))
    assert by_index.names[0].startswith("column 0 ")


def test_sparse_tables_and_ranges_that_look_alike() -> None:
    x = np.array([[0], [0], [3], [5]], np.float32)
    for rows in (x, sparse.csr_matrix(x)):
        partition = make_partition("by('0')", replace(table(x), x=rows, x_test=rows[:1]), None, 0)
        assert [part.tolist() for part in partition.rows] == [[0, 1], [2], [3]]
    near = table(1 + np.arange(4)[:, None] * 1e-9)
    assert make_partition("by('0')", near, None, 0).names == ("party 0", "party 1", "party 2", "party 3")


@settings(deadline=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.data())
def test_cuts_leave_no_part_empty_and_are_near_even(counts: list[int], data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, len(counts)))
    cuts = cut_evenly(np.array(counts), parts)
    sums = [sum(part) for part in np.split(np.array(counts), cuts)]
    assert len(sums) == parts
    assert min(sums) > 0
    if len(set(counts)) == 1:
        assert max(sums) - min(sums) <= counts[0] * 1


@pytest.mark.parametrize(
    ("rule", "parties", "message"),
    [
        ("by(agee)", None, r"^Unknown column of heart 'agee'\. Did you mean 'age'\?$"),
        ("by(thall)", None, r"Did you mean 'thal'\?"),
        ("by('99')", None, r"^heart has columns 0 to \d+, got '99'"),
        ("by(sex)", 3, r"^sex of heart has 2 value\(s\), got 3 parties\. Use at most 2\.$"),
        ("by(cp)", 5, r"^cp of heart has 4 value\(s\), got 5 parties\."),
        ("by", None, r"^by needs column"),
        ("fcube", 3, r"^fcube makes 4 parties, got 3\."),
    ],
)
def test_columns_that_cannot_be(heart: Dataset, rule: str, parties: int | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_partition(rule, heart, parties, 0)


def test_images_have_no_columns() -> None:
    images = table(np.zeros((5, 4, 4), np.float32))
    for rule in ("by('0')", "fcube", "temporal(by=time)"):
        with pytest.raises(UserError, match="needs a table, but made has no columns"):
            make_partition(rule, images, None if rule == "fcube" else 2, 0)


def test_octants_of_the_cube_are_its_natural_parties() -> None:
    cube = load_dataset("fcube")
    octants, natural = (make_partition(rule, cube, None, 0) for rule in ("fcube", "natural"))
    assert octants.names == natural.names
    assert all(np.array_equal(a, b) for a, b in zip(octants.rows, natural.rows, strict=True))


def test_octants_of_another_table() -> None:
    x = np.random.default_rng(0).normal(2, 1, (400, 5)).astype(np.float32)
    moved = replace(table(x), shift=np.full(5, 2, np.float32))  # the signs are those after the shift
    partition = make_partition("fcube", moved, 4, 0)
    for rows in partition.rows:
        signs = np.sign(x[rows, :3] - 2) * np.sign(x[rows, :1] - 2)
        assert len(np.unique(signs, axis=0)) == 1
    with pytest.raises(UserError, match=r"^made has no rows in the octants \+\+-/--\+ of its first three columns"):
        make_partition("fcube", table(np.abs(x)), None, 0)
