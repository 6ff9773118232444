"""A party's own block of split columns: what it has, of whom, and what it has wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import (
    Partition,
    apart_rows,
    as_held,
    columns_of,
    common_rows,
    labels_of,
    load_partition,
    make_partition,
    save_partition,
)


def table(rows: int = 60, columns: int = 8, *, names: bool = False) -> Dataset:
    """Rows whose numbers are all different: from a value one sees whose it is, and which column's."""
    x = (np.arange(rows)[:, None] + np.arange(columns) / 100 + 1).astype(np.float32)
    test = x[: rows // 2] + 1000
    y = np.arange(rows) % 2
    features = tuple("abcdefghijklmnop"[:columns]) if names else ()
    return Dataset("table", x, y, test, y[: rows // 2], ("no", "yes"), features=features)


def wrong(dataset: Dataset, made: Partition, party: int, *, test: bool = False) -> np.ndarray:
    source = dataset.x_test if test else dataset.x
    assert made.columns is not None
    return columns_of(dataset, made, party, test=test) != source[:, made.columns[party]]


@given(parties=st.integers(2, 4), seed=st.integers(0, 1000), share=st.floats(0.5, 0.95))
@settings(deadline=None, max_examples=30)
def test_blocks_are_the_columns_of_the_rows_that_were_asked_for(parties: int, seed: int, share: float) -> None:
    dataset = table(400)
    made = make_partition(f"vertical({parties}, rows={share!r})", dataset, None, seed)
    common = common_rows(made)
    assert made.columns is not None
    sets = [set(rows.tolist()) for rows in made.rows]
    assert set(common.tolist()) == set.intersection(*sets)
    for party, columns in enumerate(made.columns):
        assert set(apart_rows(made, party).tolist()) == sets[party] - set(common.tolist())
        asked = np.concatenate([common[::-1], apart_rows(made, party)])
        block = columns_of(dataset, made, party, asked)
        np.testing.assert_array_equal(block, dataset.x[asked][:, columns])
        np.testing.assert_array_equal(columns_of(dataset, made, party, test=True), dataset.x_test[:, columns])


def test_types_are_those_of_the_data_set() -> None:
    images = load_dataset("digits")
    made = make_partition("vertical(2)", images, None, 0)
    block = columns_of(images, made, 0, np.arange(5))
    assert block.dtype == np.float32
    np.testing.assert_array_equal(block.reshape(5, 8, 4), images.x[:5, 0, :, :4])
    doubles = replace(table(), x=table().x.astype(np.float64), x_test=table().x_test.astype(np.float64))
    assert columns_of(doubles, make_partition("vertical(2)", doubles, None, 0), 1).dtype == np.float64


def test_some_values_of_shared_columns_are_another_persons() -> None:
    dataset = table(4000, 10)
    made = make_partition("vertical(3, overlap=0.4, disagree=0.25)", dataset, None, 3)
    assert made.columns is not None
    everyone = np.intersect1d(made.columns[0], np.intersect1d(made.columns[1], made.columns[2]))
    assert not wrong(dataset, made, 0).any()  # the label holder knows best
    found = []
    for party in (1, 2):
        shared = np.isin(made.columns[party], everyone)
        for test in (False, True):
            mistaken = wrong(dataset, made, party, test=test)
            assert not mistaken[:, ~shared].any()
            rate = mistaken[:, shared].mean(axis=0)
            assert len(rate) == 4
            sigma = np.sqrt(0.25 * 0.75 / len(mistaken))
            assert (abs(rate - 0.25) < 5 * sigma).all()
        block = columns_of(dataset, made, party)
        for place in np.flatnonzero(shared):  # still a value of this column
            assert np.isin(block[:, place], dataset.x[:, made.columns[party][place]]).all()
        found.append(wrong(dataset, made, party)[:, shared])
    assert 0.03 < (found[0] & found[1]).mean() < 0.10  # 0.0625: each party errs by itself


def test_a_value_does_not_depend_on_which_rows_are_asked_for() -> None:
    dataset = table(300)
    made = make_partition("vertical(2, overlap=0.5, disagree=0.5)", dataset, None, 0)
    rows = np.array([250, 3, 77, 3])
    np.testing.assert_array_equal(columns_of(dataset, made, 1, rows), columns_of(dataset, made, 1)[rows])
    rows = np.array([100, 7])
    whole = columns_of(dataset, made, 1, test=True)
    np.testing.assert_array_equal(columns_of(dataset, made, 1, rows, test=True), whole[rows])


def test_sparse_rows_stay_sparse_and_say_the_same() -> None:
    dense = load_dataset("digits")
    flat = dense.x.reshape(dense.size, -1).astype(np.float32)
    test = dense.x_test.reshape(len(dense.y_test), -1).astype(np.float32)
    whole = Dataset("whole", flat, dense.y, test, dense.y_test, dense.classes)
    thin = replace(whole, x=sparse.csr_matrix(flat), x_test=sparse.csr_matrix(test))
    for text in ("vertical(3, overlap=0.3, disagree=0.4, rows=0.9)", "vertical(2)"):
        made, again = (make_partition(text, data, None, 5) for data in (whole, thin))
        for party in range(made.parties):
            for test_set in (False, True):
                rows = None if test_set else common_rows(made)
                block = columns_of(thin, again, party, rows, test=test_set)
                assert sparse.issparse(block)
                expected = columns_of(whole, made, party, rows, test=test_set)
                np.testing.assert_array_equal(block.toarray(), expected)
        wide, held = as_held(thin, again)
        joined, _ = as_held(whole, made)
        assert wide.is_sparse
        np.testing.assert_array_equal(wide.x.toarray(), joined.x)
        assert held.columns is not None


def test_categories_are_wrong_as_a_whole() -> None:
    heart = load_dataset("heart")
    made = make_partition("vertical(2, overlap=0.8, disagree=0.5)", heart, None, 1)
    assert made.columns is not None
    places = [heart.features.index(f"cp_{k}") for k in (1, 2, 3, 4)]
    assert np.isin(places, made.columns[1]).all()
    block = columns_of(heart, made, 1)[:, np.searchsorted(made.columns[1], places)]
    assert (block.sum(axis=1) == 1).all()
    assert (block != heart.x[:, places]).any(axis=1).mean() > 0.2


def test_distortions_are_the_partys_own() -> None:
    dataset = table(50)
    made = make_partition("vertical(2, rows=0.8)+feature-noise(0.5)+label-noise(0.4)", dataset, None, 0)
    for party in range(2):
        rows = made.rows[party]
        block = columns_of(dataset, made, party, rows)
        assert made.columns is not None
        apart = block - dataset.x[rows][:, made.columns[party]]
        assert abs(apart.std() - np.sqrt(0.5 * (party + 1) / 2)) < 0.15
        np.testing.assert_array_equal(
            columns_of(dataset, made, party, test=True), dataset.x_test[:, made.columns[party]]
        )
    labels = labels_of(dataset, made, common_rows(made))
    assert 0 < (labels != dataset.y[common_rows(made)]).mean() < 1
    unknown = np.setdiff1d(np.arange(50), made.rows[1])[:1]
    with pytest.raises(UserError, match="party 1 does not know all of these rows"):
        columns_of(dataset, made, 1, unknown)


def test_blocks_side_by_side_where_parties_differ() -> None:
    dataset = table(80, 6, names=True)
    same = make_partition("vertical(2, overlap=0.5, rows=0.9)", dataset, None, 0)
    assert as_held(dataset, same) == (dataset, same)
    made = make_partition("vertical(2, overlap=0.5, disagree=0.3)", dataset, None, 0)
    wide, held = as_held(dataset, made)
    assert made.columns is not None
    assert held.columns is not None
    assert held.disagreement is None
    assert np.concatenate(held.columns).tolist() == list(range(sum(map(len, made.columns))))
    for party, columns in enumerate(held.columns):
        np.testing.assert_array_equal(wide.x[:, columns], columns_of(dataset, made, party))
        np.testing.assert_array_equal(wide.x_test[:, columns], columns_of(dataset, made, party, test=True))
    assert len(set(wide.features)) == len(wide.features) == wide.shape[0]
    assert sum(" at party " in name for name in wide.features) == 6
    noisy = make_partition("vertical(2, rows=0.7)+feature-noise(0.2)+label-noise(0.3)", dataset, None, 0)
    wide, held = as_held(dataset, noisy)
    assert held.columns is not None
    for party, columns in enumerate(held.columns):
        known = noisy.rows[party]
        np.testing.assert_array_equal(wide.x[known][:, columns], columns_of(dataset, noisy, party, known))
        others = np.setdiff1d(np.arange(80), known)
        assert noisy.columns is not None
        np.testing.assert_array_equal(wide.x[others][:, columns], dataset.x[others][:, noisy.columns[party]])
    np.testing.assert_array_equal(wide.y[noisy.rows[0]], labels_of(dataset, noisy, noisy.rows[0]))


def test_saved_partitions_disagree_as_before(tmp_path) -> None:
    dataset = table(100)
    made = make_partition("vertical(3, overlap=0.4, disagree=0.2, rows=0.9)", dataset, None, 4)
    path = tmp_path / "split.npz"
    save_partition(path, made, dataset, 4)
    assert load_partition(path).partition.columns is not None
    again = make_partition(f"file({str(path)!r})", dataset, None, 0)
    for party in range(3):
        np.testing.assert_array_equal(columns_of(dataset, again, party), columns_of(dataset, made, party))
        np.testing.assert_array_equal(again.rows[party], made.rows[party])


def test_rows_have_no_blocks() -> None:
    dataset = table()
    with pytest.raises(UserError, match=r"splits no columns\. Use vertical\(2\)"):
        columns_of(dataset, make_partition("iid", dataset, 2, 0), 0)
