"""Data whose target is a number: label skew goes by tenths of it, and what changes classes is refused."""

import numpy as np
import pytest

from tests.helpers import regression_data
from unalike.errors import UserError
from unalike.partition import hold_out, load_partition, make_partition, save_partition, seen_label_counts
from unalike.partition.distorted import as_seen

SPLITS = (
    *(
        "iid",
        "natural",
        "label-dirichlet(0.3)",
        "label-dirichlet(0.3, balanced=true)",
        "label-count(3)",
        "shards(2)",
    ),
    *(
        "similarity(0.5)",
        "quantity-dirichlet(0.5)",
        "quantity-power",
        "temporal(by=label)",
        "by(column='0')",
        "fcube",
    ),
    *("attribute-label(3)", "iid+feature-noise(0.2)", "label-dirichlet(0.3)+feature-noise(0.2)"),
)


@pytest.mark.parametrize("text", SPLITS)
def test_numbers_can_be_split_in_every_way_that_splits_classes(text):
    data = regression_data()
    partition = make_partition(text, data, None if text == "natural" else 4, seed=1)
    counts = seen_label_counts(data, partition)
    assert counts.shape == (4, 10)
    assert counts.sum() == data.size
    seen, _ = as_seen(data, partition)
    np.testing.assert_array_equal(np.sort(seen.y), np.sort(data.y))
    assert seen.target == data.target


def test_label_skew_makes_targets_differ():
    data = regression_data()

    def spread(text):
        rows = make_partition(text, data, 4, seed=1).rows
        return np.std([data.y[own].mean() for own in rows])

    assert spread("shards(1)") > 3 * spread("iid")
    skewed = make_partition("label-dirichlet(0.1)", data, 4, seed=1).label_counts(data)
    assert (skewed.max(axis=0) / skewed.sum(axis=0)).mean() > 0.7  # most of a tenth is at one party


@pytest.mark.parametrize("text", ["iid+label-noise(0.2)", "iid+label-preference(0.2)"])
def test_what_changes_classes_is_refused_in_one_line(text):
    with pytest.raises(UserError, match=r"changes classes, but the task of numbers is regression\."):
        make_partition(text, regression_data(), 4, seed=1)


def test_labels_are_tenths_of_the_target():
    data = regression_data(rows=200)
    assert set(np.bincount(data.labels)) == {20}
    assert len(data.label_names) == 10
    assert all(data.y[data.labels == k].max() < data.y[data.labels == k + 1].min() for k in range(9))
    low, high = data.label_names[0].split(" to ")
    assert (float(low), float(high)) == pytest.approx((data.y.min(), np.sort(data.y)[19]), rel=1e-5)


def test_a_party_s_held_out_rows_have_all_of_the_range():
    data = regression_data(rows=200)
    rows = np.arange(200)
    parts = hold_out(rows, data.labels, 0.2, 0.2, np.random.default_rng(0))
    for part in parts:
        assert np.bincount(data.labels[part], minlength=10).min() >= 2


def test_a_saved_partition_is_of_these_targets(tmp_path):
    data = regression_data()
    save_partition(tmp_path / "split.npz", make_partition("shards(2)", data, 4, 1), data, 1)
    again = make_partition(f"file({str(tmp_path / 'split.npz')!r})", data, None, 1)
    np.testing.assert_array_equal(again.rows[0], make_partition("shards(2)", data, 4, 1).rows[0])
    assert load_partition(tmp_path / "split.npz").classes == data.label_names
    with pytest.raises(UserError, match="with other labels"):
        make_partition(f"file({str(tmp_path / 'split.npz')!r})", regression_data(seed=3), None, 1)
