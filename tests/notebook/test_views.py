"""What a notebook shows of results: whole, without script, escaped, and to be read on white and on black."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.made import record
from unalike.notebook.chart import COLOURS, DASHES, Trace, chart, steps
from unalike.notebook.comparison import _compared
from unalike.notebook.views import as_html
from unalike.runs.scales import Spread


def of(*records):
    return as_html(_compared(list(records)))


def text_of(html):
    return "".join(ElementTree.fromstring(html).itertext())


def test_a_table_and_a_curve():
    html = of(*(record(name, seed, 0.8) for name in ("fedavg", "scaffold") for seed in (0, 1)))
    tree = ElementTree.fromstring(html)
    assert len(list(tree.iter("tr"))) == 3
    assert len(list(tree.iter("polyline"))) == 4  # two curves, and a sample of each in the table
    assert "80.0±0.0" in text_of(html)
    assert "Worst party" in text_of(html)


def test_one_run_has_no_colours_to_tell_apart():
    tree = ElementTree.fromstring(of(record()))
    assert len(list(tree.iter("polyline"))) == 1
    assert "One seed tells nothing about noise." in "".join(tree.itertext())


@pytest.mark.parametrize("field", ["algorithm", "dataset", "partition", "model", "channel"])
def test_whatever_comes_from_a_folder_is_escaped(field):
    attack = '<img src=x onerror="alert(1)"></style><script>alert(2)</script>'
    html = of(record(**{field: attack}), record(**{field: "other"}))
    tree = ElementTree.fromstring(html)
    assert not {"img", "script"} & {each.tag for each in tree.iter()}
    assert attack in "".join(tree.itertext())


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_of_a_training_that_ran_away_what_can_be_drawn_is(bad):
    one = record()
    rows = tuple({**row, "accuracy": bad if row["round"] > 2 else row["accuracy"]} for row in one.rounds)
    tree = ElementTree.fromstring(of(replace(one, rounds=rows)))
    assert len(next(tree.iter("polyline")).get("points").split()) == 2
    lost = tuple({**row, "accuracy": bad} for row in one.rounds)
    assert "<polyline" not in of(replace(one, rounds=lost))
    assert (
        len(list(ElementTree.fromstring(of(replace(one, rounds=lost), record("scaffold"))).iter("polyline"))) == 3
    )


def test_there_is_no_script_no_link_and_nothing_from_elsewhere():
    html = of(record(), record("scaffold"))
    assert not re.search(r"<script|http|@import|url\(|\son\w+=", html)


def test_only_as_many_curves_as_can_be_told_apart():
    html = of(*(record(lr=0.1 * (1 + number)) for number in range(len(COLOURS) + 2)))
    assert "2 further lines are not drawn" in html
    assert len(COLOURS) == len(DASHES) == len(set(zip(COLOURS, DASHES, strict=True)))


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("page", ["#ffffff", "#111111"])
def test_curves_stand_out_from_light_and_dark_pages(colour, page):
    low, high = sorted((luminance(colour), luminance(page)))
    assert (high + 0.05) / (low + 0.05) >= 3  # what WCAG asks of graphics


NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


@given(NUMBERS, NUMBERS)
def test_ticks_are_around_all_values(one, other):
    low, high = min(one, other), max(one, other)
    found = steps(low, high)
    close = 1e-6 * max(1.0, abs(low), abs(high))
    assert found[0] <= low + close
    assert found[-1] >= high - close
    assert 2 <= len(found) <= 8
    assert found == sorted(set(found))


@settings(max_examples=50)
@given(st.lists(st.lists(NUMBERS, min_size=1, max_size=30), min_size=1, max_size=4))
def test_curves_stay_in_the_picture(values):
    traces = [Trace([(number, Spread(value, 0.0, 1)) for number, value in enumerate(one, 1)]) for one in values]
    tree = ElementTree.fromstring(chart(traces, "a <figure>"))
    _, _, width, height = map(float, tree.get("viewBox").split())
    for line in tree.iter("polyline"):
        for point in line.get("points").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height
