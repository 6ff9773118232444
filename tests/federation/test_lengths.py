"""How long an update is beside the others'."""

import math

import pytest

from unalike.federation.lengths import Longest, longest, times_the_others


def test_the_median_is_of_the_others():
    assert times_the_others({"a": 1.0, "b": 2.0, "c": 4.0, "d": 8.0}) == {"a": 0.25, "b": 0.5, "c": 2.0, "d": 4.0}
    assert times_the_others({"a": 1.0, "b": 1000.0}) == {"a": 0.001, "b": 1000.0}


@pytest.mark.parametrize("norms", [{}, {"a": 5.0}])
def test_nobody_to_compare_with(norms):
    assert times_the_others(norms) == {}


def test_nothing_and_what_is_beyond_numbers():
    assert times_the_others({"a": 0.0, "b": 0.0}) == {"a": 1.0, "b": 1.0}
    assert times_the_others({"a": 3.0, "b": 0.0, "c": 0.0})["a"] == math.inf
    assert times_the_others({"a": None, "b": 1.0, "c": 1.0}) == {"a": math.inf, "b": 0.0, "c": 0.0}


def test_the_longest_of_all_rounds_and_exchanges():
    rows = [
        {"round": 1, "norms": [{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 3.0}]},
        {"round": 2, "norms": [{"a": 2.0, "b": 1.0}]},
        {"round": 3},
    ]
    assert longest(rows) == {"a": Longest(2.0, 2), "b": Longest(3.0, 1)}
    assert Longest(1234.5, 1).shown == "1,234"
    assert "b's update of round 1 was 3 times as long" in longest(rows)["b"].line("b")
