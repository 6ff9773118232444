"""The picture of a partition: the right panels, the right numbers, nothing outside the page."""

from __future__ import annotations

import itertools
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from scipy import sparse

from unalike.data import Dataset, load_dataset
from unalike.measure import label_skew
from unalike.partition import make_partition, seen_by, seen_label_counts
from unalike.report.feature_panels import _most_different, _shares
from unalike.report.image_panels import column_owners, spread
from unalike.report.partition_picture import Portrait, footnote, partition_picture


def portrait(data, text, parties=None):
    partition = make_partition(text, data, parties, 0)
    counts = seen_label_counts(data, partition)
    return Portrait(data, partition, 0, counts, label_skew(counts))


def texts(figure):
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def colour_images(labels=10, rows=120):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (rows, 3, 8, 12)).astype(np.uint8), np.arange(rows) % labels
    names = tuple(f"a long name {k}" for k in range(labels))
    scale = np.array([50, 60, 70], np.float32).reshape(3, 1, 1)
    return Dataset("colours", x, y, x[:9], y[:9], names, shift=scale * 2, scale=scale)


def sparse_table():
    x, y = sparse.csr_matrix(np.eye(40, dtype=np.float32)), np.arange(40) % 2
    return Dataset("sparse", x, y, x, y, ("a", "b"))


CASES = [
    ("digits", "label-dirichlet(0.1)+feature-noise(0.1)", 10, "Images as 8 of the parties see them"),
    ("digits", "label-dirichlet(0.1)", 100, "Labels (darker: more rows)"),
    ("digits", "iid+label-noise(0.5)", 3, "Images as the parties see them (red: label changed)"),
    ("heart", "natural", None, "Features that differ most ("),
    ("heart", "label-dirichlet(0.5)+feature-shift(shift, 1)", 40, "Features that differ most ("),
    ("fcube", "natural", None, "Where the rows lie"),
    ("heart", "vertical(3, 0.2)", None, "Who has which attributes"),
    ("digits", "vertical(2)", None, "Which part of each image a party has"),
    ("digits", "iid", 1, "Who has which labels"),
]


@pytest.mark.parametrize(("name", "text", "parties", "title"), CASES)
def test_panels_are_within_the_page(name, text, parties, title):
    shown = portrait(load_dataset(name), text, parties)
    figure = partition_picture(shown)
    written = texts(figure)
    assert any(line.startswith(title) for line in written)
    assert f"{shown.partition.recipe}, seed 0" in written
    assert footnote(shown) in written
    figure.savefig(BytesIO(), format="png", dpi=40)
    page = figure.bbox
    for axes in figure.axes:
        if axes.name == "3d":
            continue
        box = axes.get_tightbbox()
        assert box.x0 >= -1
        assert box.x1 <= page.x1 + 1
        assert box.y0 >= -1
        assert box.y1 <= page.y1 + 1


def test_titles_do_not_overlap():
    for name, text, parties, _ in CASES:
        figure = partition_picture(portrait(load_dataset(name), text, parties))
        figure.savefig(BytesIO(), format="png", dpi=40)
        titles = [axes._left_title.get_window_extent() for axes in figure.axes if axes._left_title.get_text()]
        ordered = sorted(titles, key=lambda box: box.x0)
        assert all(a.x1 < b.x0 for a, b in itertools.pairwise(ordered)), (name, text)


def test_counts_and_sizes_are_those_of_the_partition():
    shown = portrait(load_dataset("digits"), "label-dirichlet(0.3)", 4)
    written = texts(partition_picture(shown))
    for number in (*shown.counts.ravel(), *shown.counts.sum(axis=1)):
        assert f"{number:,}" in written


def test_images_are_as_the_party_sees_them():
    data = colour_images()
    shown = portrait(data, "feature-shift(rotation, 180)", 2)
    figure = partition_picture(shown)
    images = figure.axes[2].images
    assert len(images) == 16
    x, y = seen_by(data, shown.partition, 1)
    chosen = np.argsort(y, kind="stable")[spread(len(y), 8)]  # in order of label
    for image, row in zip(images[8:], chosen, strict=True):
        drawn = image.get_array()
        seen = np.moveaxis(x[row] * data.scale + data.shift, 0, -1)
        np.testing.assert_allclose(drawn, seen / data.x.max(), atol=1e-5)
        stored = np.moveaxis(data.x[shown.partition.rows[1][row]], 0, -1)
        np.testing.assert_allclose(drawn[::-1, ::-1] * data.x.max(), stored, atol=0.01)


def test_long_names_are_slanted():
    figure = partition_picture(portrait(colour_images(), "iid", 3))
    assert all(label.get_rotation() == 38 for label in figure.axes[0].get_xticklabels())


def test_the_names_of_long_labels_stay_below_the_titles():
    data = replace(load_dataset("heart"), classes=("far longer names than", "most labels can have"))
    figure = partition_picture(portrait(data, "natural", None))
    figure.savefig(BytesIO(), format="png", dpi=40)
    titles = [axes._left_title.get_window_extent() for axes in figure.axes if axes._left_title.get_text()]
    names = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert max(name.y1 for name in names) <= min(title.y0 for title in titles)


def test_seasons():
    data = load_dataset("digits")
    shown = portrait(data, "temporal(drift, seasons=3)", 4)
    figure = partition_picture(shown)
    written = texts(figure)
    assert {"season 0", "season 1", "season 2"} <= set(written)
    (mesh,) = figure.axes[2].collections
    assert mesh.get_array().shape == (3, 10)
    season, rows = np.concatenate(shown.partition.seasons), np.concatenate(shown.partition.rows)
    counts = np.stack([np.bincount(data.y[rows[season == k]], minlength=10) for k in range(3)])
    np.testing.assert_allclose(mesh.get_array(), counts / counts.sum(axis=1, keepdims=True))


def test_sparse_rows_have_labels_and_sizes_only():
    figure = partition_picture(portrait(sparse_table(), "iid", 3))
    assert len(figure.axes) == 2


def test_owned_and_shared_columns():
    partition = make_partition("vertical(3, 0.2)", load_dataset("heart"), None, 0)
    owners = column_owners(partition, 32)
    assert set(owners) == {1, 3}


def test_spread_has_both_ends():
    assert spread(100, 8)[0] == 0
    assert spread(100, 8)[-1] == 99
    assert spread(3, 8) == [0, 1, 2]
    assert spread(1, 8) == [0]


def test_the_most_different_features_come_first_one_of_each_attribute():
    rng = np.random.default_rng(0)
    alike = [rng.normal(size=400), rng.normal(size=400)]
    apart = [rng.normal(size=400), rng.normal(size=400) + 3]
    coded = [np.zeros(400), np.ones(400)]
    found = [_shares(alike), _shares(coded), _shares(apart), _shares([np.zeros(5), np.zeros(5)])]
    assert _most_different(found, np.array([0, 1, 1, 2]))[:2] == [1, 0]
    assert _most_different(found, np.array([0, 1, 2, 3])) == [1, 2, 0, 3]
    assert found[1].difference == 0.5


def test_the_same_picture_each_time():
    first, again = (BytesIO(), BytesIO())
    for file in (first, again):
        partition_picture(portrait(load_dataset("heart"), "natural")).savefig(file, format="png", dpi=50)
    assert first.getvalue() == again.getvalue()


def reach_of(figure, title):
    """From where to where the panel of that feature goes."""
    return next(one for one in figure.axes if any(text.get_text() == title for text in one.texts)).get_xlim()


AGES = np.repeat(np.arange(30.0, 80.0), 4)


def write_ages(path):
    lines = [f"{age:g},{'old' if age > 50 else 'young'},{150 + age % 7}" for age in AGES]
    path.write_text("\n".join(["years,outcome,height", *lines]))
    return path


@pytest.mark.parametrize("partition", ["label-count(1)", "label-count(1)+feature-noise(0.1)"])
def test_features_are_drawn_in_the_units_of_the_table(tmp_path, partition):
    table = write_ages(tmp_path / "ages.csv")
    shown = portrait(load_dataset(f"csv({str(table)!r}, label=outcome)"), partition, 2)
    low, high = reach_of(partition_picture(shown), "years")
    assert 10 <= low <= 35
    assert 70 <= high <= 100


def test_sites_and_hospitals_have_units_too(tmp_path):
    (tmp_path / "sites").mkdir()
    for name in ("east", "west"):
        write_ages(tmp_path / "sites" / f"{name}.csv")
    sites = load_dataset(f"sites({str(tmp_path / 'sites')!r}, label=outcome)")
    years = sites.units.read(sites.x)[:, sites.features.index("years")]
    assert set(np.round(years, 3)) <= set(AGES)
    heart = load_dataset("heart")
    age = heart.units.read(heart.x)[:, heart.features.index("age")]
    assert np.allclose(age, np.round(age), atol=1e-4)  # whole years
    assert (age.min(), age.max()) == pytest.approx((28, 77), abs=1)
    vessels = heart.units.read(heart.x)[:, heart.features.index("ca")]
    assert {0.0, 1.0, 2.0, 3.0} <= set(vessels)  # just so: a tick would show what float32 left of nought
