"""The picture of a measurement: the right panels and numbers, all on the page, nothing on top of another."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from unalike.data import Dataset, load_dataset
from unalike.measure import dimension_names, measure, party_features, party_labels
from unalike.partition import make_partition
from unalike.report.distribution_panels import MOST_DIMENSIONS, MOST_PARTIES, chosen_dimensions, chosen_parties
from unalike.report.measure_picture import footnote, measure_picture


def measured(data, text, parties, of, degree=None):
    made = make_partition(text, data, parties, 0)
    if of == "labels":
        return measure(party_labels(data, made), protect="none", degree=degree)
    return measure(party_features(data, made), of=of, protect="none", names=dimension_names(data))


def long_names(labels=11, rows=330):
    y = np.arange(rows) % labels
    x = np.random.default_rng(0).normal(size=(rows, 5))
    return Dataset("long", x, y, x, y, tuple(f"a rather long name {k}" for k in range(labels)))


CASES = [
    ("digits", "label-dirichlet(0.1)", 10, "labels", None, "Shares of labels: 8 of 10 parties"),
    ("digits", "label-dirichlet(0.1)", 10, "labels", "cdf", "Shares of labels and their CDF: 8 of 10 parties"),
    ("digits", "label-dirichlet(0.1)", 100, "labels", None, "Shares of labels: 8 of 100 parties"),
    ("heart", "natural", None, "features", None, "CDFs of features: the 12 of 32 that differ most"),
    ("digits", "feature-noise(0.5)", 10, "features", None, "CDFs of features: all of them"),
    ("long", "label-dirichlet(0.5)", 3, "labels", None, "Shares of labels: each party"),
    ("long", "label-dirichlet(0.5)", 3, "labels", "cdf", "Shares of labels and their CDF: each party"),
]


def texts(figure):
    from matplotlib.text import Text

    hidden = {  # matplotlib also makes the ticks next to those in view
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        for label in (tick.label1, tick.label2)
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    found = figure.findobj(Text)
    return [text for text in found if text.get_text().strip() and text.get_visible() and text not in hidden]


@pytest.mark.parametrize(("name", "text", "parties", "of", "degree", "heading"), CASES)
def test_everything_is_on_the_page_and_nothing_overlaps(name, text, parties, of, degree, heading):
    data = long_names() if name == "long" else load_dataset(name)
    found = measured(data, text, parties, of, degree)
    figure = measure_picture(found, data.name, "a recipe, seed 0")
    figure.draw_without_rendering()
    written = [text.get_text() for text in texts(figure)]
    assert heading in written
    assert f"{data.name}: how unlike are the {of} of {len(found.published)} parties?" in written
    assert footnote(found) in written
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    for one, box in boxes:
        inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
        assert inside, one
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        across, down = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert not (across > 2 and down > 2), (one, other)


@pytest.mark.parametrize(("degree", "metric"), [(None, "total_variation"), ("cdf", "kolmogorov_smirnov")])
def test_bars_are_the_degrees(degree, metric):
    found = measured(load_dataset("digits"), "label-dirichlet(0.1)", 6, "labels", degree)
    axes = measure_picture(found, "digits", "uneven").axes[0]
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == [getattr(one.degrees.mean, metric) for one in found.kept]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [one.party for one in found.published]


def test_what_is_dark_adds_up_to_total_variation():
    found = measured(load_dataset("digits"), "label-dirichlet(0.1)", 6, "labels")
    panels = measure_picture(found, "digits", "uneven").axes[1:]
    assert len(panels) == 6
    for axes, kept in zip(panels, found.kept, strict=True):
        shares, more = axes.containers
        assert sum(bar.get_height() for bar in shares) == pytest.approx(1)
        assert sum(bar.get_height() for bar in more) == pytest.approx(kept.degrees.mean.total_variation)


def test_curves_are_the_cdfs():
    found = measured(load_dataset("fcube"), "natural", None, "features")
    axes = measure_picture(found, "fcube", "natural").axes[2]  # the overview, x1, x2
    for line, kept in zip(axes.lines, found.kept, strict=False):
        np.testing.assert_array_equal(line.get_ydata()[1:], kept.cdf.values[1])
    np.testing.assert_array_equal(axes.lines[-1].get_ydata()[1:], found.everyone.values[1])


def test_of_many_parties_the_most_and_the_least_unlike_are_shown():
    found = measured(load_dataset("digits"), "label-dirichlet(0.1)", 20, "labels")
    degrees = {one.party: one.degrees.mean.total_variation for one in found.kept}
    shown = [degrees[kept.party] for kept in chosen_parties(found)]
    assert len(shown) == MOST_PARTIES
    assert (shown[0], shown[-1]) == (max(degrees.values()), min(degrees.values()))
    assert shown == sorted(shown, reverse=True)


def test_of_many_features_those_that_differ_most_are_shown():
    found = measured(load_dataset("heart"), "natural", None, "features")
    shown = chosen_dimensions(found)
    assert len(shown) == MOST_DIMENSIONS
    assert found.names.index("ca_missing") in shown
