"""What is measured of a data set: labels as seen, columns of tables, projections of all else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.measure import dimension_names, party_features, party_labels
from unalike.measure.extract import MOST_COLUMNS, PROJECTED, project, project_tokens
from unalike.partition import make_partition, seen_by, seen_label_counts
from unalike.partition.distorted import prepared


def test_labels_are_those_that_parties_see():
    data = load_dataset("heart")
    made = make_partition("iid+label-noise(0.5)", data, 3, 0)
    found = party_labels(data, made)
    np.testing.assert_array_equal([[own[name] for name in data.classes] for own in found.values()],
                                  seen_label_counts(data, made))  # fmt: skip


def test_columns_of_a_table():
    data = load_dataset("heart")
    made = make_partition("natural", data, None, 0)
    found = party_features(data, made)
    np.testing.assert_array_equal(found["va"], prepared(data.x[made.rows[made.names.index("va")]], data))
    assert dimension_names(data) == data.features


def test_images_are_projected_as_parties_see_them():
    data = load_dataset("digits")
    made = make_partition("iid+feature-noise(1)", data, 3, 0)
    found = party_features(data, made)
    np.testing.assert_allclose(found["party 2"], project(seen_by(data, made, 2)[0]))
    assert found["party 2"].shape == (len(made.rows[2]), PROJECTED)
    assert len(dimension_names(data)) == PROJECTED


def test_the_projection_keeps_lengths_on_average_and_never_changes():
    rows = np.random.default_rng(0).normal(size=(500, 3, 20, 20))
    found = project(rows)
    np.testing.assert_allclose(found.std(), 1, atol=0.1)
    np.testing.assert_allclose(found[:7], project(rows[:7]), atol=1e-12)


def test_sparse_rows_and_tokens():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(30, 200)) * (rng.random((30, 200)) < 0.1)
    np.testing.assert_allclose(project(sparse.csr_matrix(dense)), project(dense))
    tokens = rng.integers(0, 50, (30, 8))
    counts = np.stack([np.bincount(row, minlength=50) for row in tokens])
    np.testing.assert_allclose(project_tokens(tokens), project(counts) * np.sqrt(50 / 8))
    # a party whose words are fewer projects them alike
    np.testing.assert_allclose(project_tokens(tokens[:1]), project_tokens(tokens)[:1])
    x, y = sparse.csr_matrix(dense), np.arange(30) % 2
    data = Dataset("sparse", x, y, x, y, ("a", "b"))
    assert party_features(data, make_partition("iid", data, 3, 0))["party 0"].shape == (10, PROJECTED)


def test_wide_tables_are_projected():
    x, y = np.random.default_rng(0).normal(size=(30, MOST_COLUMNS + 1)), np.arange(30) % 2
    data = Dataset("wide", x, y, x, y, ("a", "b"))
    assert party_features(data, make_partition("iid", data, 3, 0))["party 0"].shape == (10, PROJECTED)
    narrow = replace(data, x=x[:, :-1], x_test=x[:, :-1])
    assert party_features(narrow, make_partition("iid", narrow, 3, 0))["party 0"].shape == (10, MOST_COLUMNS)
    assert dimension_names(narrow)[-1] == f"column {MOST_COLUMNS - 1}"


def test_an_extractor_of_ones_own(monkeypatch):
    data = load_dataset("digits")
    made = make_partition("iid", data, 3, 0)
    monkeypatch.setattr("unalike.measure.extract._CHUNK", 100)  # several calls for each party

    def brightness(rows):
        assert rows.dtype == np.float32
        return rows.reshape(len(rows), -1).mean(axis=1, keepdims=True)

    found = party_features(data, made, brightness)
    np.testing.assert_allclose(found["party 1"], brightness(prepared(data.x[made.rows[1]], data)))
    assert dimension_names(data, brightness) == ()
    with pytest.raises(UserError, match=r"The extractor gave the shape \(100,\) for 100 rows of party 0"):
        party_features(data, made, lambda rows: np.zeros(len(rows)))


def test_parties_with_other_columns_have_nothing_in_common():
    data = load_dataset("heart")
    for measured in (party_labels, party_features):
        with pytest.raises(UserError, match="no common variable"):
            measured(data, make_partition("vertical(3)", data, None, 0))
