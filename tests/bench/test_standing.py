import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.bench.standing import DRAW, standings


def test_by_hand():
    a, fedavg, b = standings([{"a": 10.0, "b": -10.0}, {"a": 0.0, "b": 20.0}, {"a": 5.0, "b": -5.0}])
    assert [one.algorithm for one in (a, fedavg, b)] == ["a", "fedavg", "b"]
    assert (a.comparisons, a.better, a.worse, a.median_gain, a.worst_gain) == (3, 2, 0, 5.0, 0.0)
    assert (b.comparisons, b.better, b.worse, b.median_gain, b.worst_gain) == (3, 1, 2, -5.0, -10.0)
    assert a.chance == pytest.approx((2 + 0.5 + 1) / 5)
    assert b.chance == pytest.approx((1 + 1) / 5)
    assert fedavg.chance == 0.5


def test_many_wins_weigh_more_than_one():
    often, once, _ = standings([{"often": 1.0}] * 5 + [{"once": 9.0}])
    assert (often.algorithm, once.algorithm) == ("often", "once")


def test_fedavg_goes_before_what_is_no_better():
    assert [one.algorithm for one in standings([{"a": DRAW}, {"a": -DRAW}])] == ["fedavg", "a"]


def test_nothing():
    assert standings([]) == []


gains = st.lists(st.dictionaries(st.sampled_from("abc"), st.floats(-100, 100)), min_size=1, max_size=8)


@given(gains)
def test_chance_is_fair(rows):
    """Turning all gains round turns the chances round one half."""
    chance = {one.algorithm: one.chance for one in standings(rows)}
    turned = {one.algorithm: one.chance for one in standings([{k: -v for k, v in row.items()} for row in rows])}
    assert chance.keys() == turned.keys()
    for name, value in chance.items():
        assert 0 < value < 1
        assert value + turned[name] == pytest.approx(1)
