"""k labels each, and nothing seen outside one's own columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import as_seen, make_partition, seen_by
from unalike.runs.run import run


def table(columns: int, labels: int) -> Dataset:
    x = np.random.default_rng(0).normal(5, 0.1, (120, columns)).astype(np.float32)
    y = np.arange(120) % labels
    return Dataset("table", x, y, x[:2], y[:2], tuple(map(str, range(labels))))


@settings(max_examples=40)
@given(
    parties=st.integers(2, 6),
    labels=st.integers(1, 6),
    overlap=st.floats(0, 0.7),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_labels_and_columns(parties: int, labels: int, overlap: float, seed: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(-(-labels // parties), labels))
    dataset = table(24, labels)
    partition = make_partition(f"attribute-label({k}, {overlap!r})", dataset, parties, seed)
    assert sorted(np.concatenate(partition.rows)) == list(range(120))
    assert ((partition.label_counts(dataset) > 0).sum(axis=1) == k).all()
    visible = np.zeros((parties, 24), bool)
    for party, rows in enumerate(partition.rows):
        x, y = seen_by(dataset, partition, party)
        np.testing.assert_array_equal(y, dataset.y[rows])
        visible[party] = (x != 0).any(axis=0)
        np.testing.assert_array_equal(x, np.where(visible[party], dataset.x[rows], 0))
    assert set(visible.sum(axis=0)) <= {1, parties}
    assert (visible.sum(axis=0) == parties).sum() == round(overlap * 24)


def test_training_takes_it_and_the_test_rows_are_seen_whole() -> None:
    digits = load_dataset("digits")
    partition = make_partition("attribute-label(2, overlap=0.3)", digits, 5, 0)
    assert partition.columns is None  # the engine refuses splits of columns
    seen, _ = as_seen(digits, partition)
    np.testing.assert_array_equal(seen.x_test, (digits.x_test / 16).astype(np.float32))
    assert seen.shape == digits.shape


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("attribute-label(0)", "k must be >= 1 label, got 0"),
        ("attribute-label(4)", "at most the 3 labels"),
        ("attribute-label(2, 1)", "overlap must be from 0 to below 1"),
        ("attribute-label(2, 0.9)", "each of 3 parties an attribute of its own, but table has 5, of which 4"),
    ],
)
def test_wrong_splits(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_partition(text, table(5, 3), 3, 0)


def test_sparse_rows_are_refused() -> None:
    x, y = sparse.csr_matrix(np.eye(6, dtype=np.float32)), np.arange(6) % 2
    with pytest.raises(UserError, match="changes features, which sparse rows"):
        make_partition("attribute-label(1)", Dataset("s", x, y, x, y, ("a", "b")), 2, 0)


def test_it_can_be_trained_and_hides_more_than_labels_alone() -> None:
    digits = load_dataset("digits")
    settings = {"model": "mlp(32)", "rounds": 10, "lr": 0.1, "batch_size": 32, "seed": 0, "evaluate_every": 10}
    found = [
        run(data=digits, partition=text, parties=4, algorithm="fedavg", **settings).figures["accuracy"]
        for text in ("label-count(3)", "attribute-label(3, overlap=0.25)", "attribute-label(3)")
    ]
    assert found[0] > found[1] + 0.1 > found[2] + 0.2
    assert found[1] > 0.2  # ten classes: it has learnt something nevertheless
