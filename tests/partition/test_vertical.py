"""Columns: none lost, the shared ones everywhere, the others in one place."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import make_partition
from unalike.partition.vertical import attributes


def table(columns: int, features: tuple[str, ...] = ()) -> Dataset:
    x, y = np.zeros((6, columns), np.float32), np.arange(6) % 2
    return Dataset("table", x, y, x[:2], y[:2], ("a", "b"), features=features)


@given(parties=st.integers(2, 6), extra=st.integers(0, 20), overlap=st.floats(0, 0.95), seed=st.integers(0, 2**40))
def test_each_column_has_one_party_or_all(parties: int, extra: int, overlap: float, seed: int) -> None:
    columns = int((parties + extra) / (1 - overlap)) + 1
    partition = make_partition(f"vertical({parties}, overlap={overlap!r})", table(columns), None, seed)
    assert partition.columns is not None
    owners = np.bincount(np.concatenate(partition.columns), minlength=columns)
    shared = round(overlap * columns)
    assert (owners == parties).sum() == shared
    assert (owners == 1).sum() == columns - shared
    sizes = [len(part) for part in partition.columns]
    assert max(sizes) - min(sizes) <= 1
    assert all((np.diff(part) > 0).all() for part in partition.columns)
    assert all(np.array_equal(rows, np.arange(6)) for rows in partition.rows)
    assert partition.shares_rows
    assert partition.label_holder == 0


def test_the_seed_decides() -> None:
    first, again, other = (make_partition("vertical(3)", table(30), None, s).columns for s in (1, 1, 2))
    assert first is not None
    assert again is not None
    assert other is not None
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_columns_of_one_attribute_stay_together() -> None:
    heart = load_dataset("heart")
    number = attributes(heart)
    assert len(set(number)) == 13
    for seed in range(5):
        partition = make_partition("vertical(3)", heart, 3, seed)
        assert partition.columns is not None
        for part in partition.columns:
            names = {heart.features[column] for column in part}
            assert ("chol" in names) == ("chol_missing" in names)
            assert len(names & {"cp_1", "cp_2", "cp_3", "cp_4"}) in (0, 4)


def test_numbered_names_are_attributes_of_their_own() -> None:
    assert attributes(table(3, ("a_1", "a_2", "a_3"))).tolist() == [0, 1, 2]
    assert attributes(table(4, ("a=x", "b", "a=y", "c_d"))).tolist() == [0, 1, 0, 2]


def test_images_are_cut_into_strips() -> None:
    x, y = np.zeros((4, 3, 5, 8), np.uint8), np.arange(4) % 2
    images = Dataset("images", x, y, x, y, ("a", "b"))
    partition = make_partition("vertical(2)", images, None, 0)
    assert partition.columns is not None
    masks = [np.zeros(x[0].size, bool) for _ in range(2)]
    for mask, columns in zip(masks, partition.columns, strict=True):
        mask[columns] = True
    left, right = (mask.reshape(3, 5, 8) for mask in masks)
    assert left[..., :4].all()
    assert not left[..., 4:].any()
    assert (left != right).all()
    shared = make_partition("vertical(2, 0.25)", images, None, 0).columns
    assert shared is not None
    found = [sorted({int(column) % 8 for column in part}) for part in shared]
    assert found == [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]]


def test_numbers_of_like_names_are_attributes_of_their_own() -> None:
    cells = load_dataset("breast-cancer")
    assert attributes(cells).tolist() == list(range(30))  # mean_radius and mean_area are two
    x = np.random.default_rng(0).integers(0, 2, (50, 4)).astype(np.float32)
    x[:, 3] = np.where(x[:, 3] > 0, np.nan, x[:, 2])
    made = Dataset("made", x, x[:, 0].astype(int), x, x[:, 0].astype(int), ("a", "b"), gaps=True)
    coded = replace(made, features=("c_1", "c_2", "n", "n_missing"))
    assert attributes(coded).tolist() == [0, 0, 1, 1]


@given(parties=st.integers(2, 4), rows=st.floats(0.4, 1.0), seed=st.integers(0, 2**40))
def test_each_party_knows_its_share_of_the_people(parties: int, rows: float, seed: int) -> None:
    data = replace_rows(table(8), 2000)
    partition = make_partition(f"vertical({parties}, rows={rows!r})", data, None, seed)
    assert [len(known) for known in partition.rows] == [round(2000 * rows)] * parties
    assert all((np.diff(known) > 0).all() for known in partition.rows)
    common = reduce(np.intersect1d, partition.rows)
    expected = 2000 * rows**parties
    assert abs(len(common) - expected) < 6 * np.sqrt(expected) + 1
    everybody = make_partition(f"vertical({parties})", data, None, seed).columns
    assert partition.columns is not None
    assert everybody is not None
    assert all(np.array_equal(a, b) for a, b in zip(partition.columns, everybody, strict=True))


def replace_rows(data: Dataset, rows: int) -> Dataset:
    return replace(data, x=np.zeros((rows, *data.shape), np.float32), y=np.arange(rows) % 2)


def test_sparse_tables_too() -> None:
    x, y = sparse.csr_matrix(np.eye(6, dtype=np.float32)), np.arange(6) % 2
    partition = make_partition("vertical(3)", Dataset("sparse", x, y, x, y, ("a", "b")), None, 0)
    assert partition.columns is not None
    assert sorted(np.concatenate(partition.columns)) == list(range(6))


@pytest.mark.parametrize(
    ("text", "parties", "message"),
    [
        ("vertical(1)", None, "n must be >= 2 parties, got 1"),
        ("vertical(2, 1.0)", None, r"overlap must be from 0 to below 1, got 1\.0"),
        ("vertical(2, -0.1)", None, "overlap must be from 0"),
        ("vertical(2, rows=0)", None, r"rows must be above 0 and at most 1, got 0\.0\. Use 0\.8"),
        ("vertical(2, rows=1.5)", None, r"rows must be above 0 and at most 1, got 1\.5"),
        ("vertical(2, rows=nan)", None, "rows must be a number, got .nan."),
        ("vertical(2, rows=0.5)", None, r"know \d of the 6 people of table together, at least 10 .* Use rows=1"),
        ("vertical(2, 0.5, disagree=1.5)", None, r"disagree must be from 0 to 1, got 1\.5\. Use 0\.1"),
        ("vertical(2, disagree=0.1)", None, r"about shared attributes, and none are\. Add overlap=0\.2"),
        ("vertical(2, 0.01, disagree=0.1)", None, r"overlap=0\.01 of 4 attributes is none\. Use more overlap"),
        ("vertical(2)", 3, r"makes 2 parties, got 3\. Leave the number out"),
        ("vertical(5)", None, "each of 5 parties an attribute of its own, but table has 4, of which 0 are shared"),
        ("vertical(3, 0.5)", None, "but table has 4, of which 2 are shared"),
    ],
)
def test_wrong_splits(text: str, parties: int | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_partition(text, table(4), parties, 0)


def test_tokens_are_refused() -> None:
    x, y = np.zeros((4, 9), np.int64), np.arange(4) % 2
    tokens = Dataset("words", x, y, x, y, ("a", "b"), kind="tokens")
    with pytest.raises(UserError, match="words has rows of tokens"):
        make_partition("vertical(2)", tokens, None, 0)
