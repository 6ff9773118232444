import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unalike.ranking.advice import ENOUGH
from unalike.ranking.standing import DRAW, p_value, standings


def test_by_hand():
    fedavg, a, b = standings([{"a": 10.0, "b": -10.0}, {"a": 0.0, "b": 20.0}, {"a": 5.0, "b": -5.0}])
    assert [one.algorithm for one in (fedavg, a, b)] == ["fedavg", "a", "b"]
    assert (a.comparisons, a.better, a.worse, a.median_gain, a.worst_gain) == (3, 2, 0, 5.0, 0.0)
    assert (b.comparisons, b.better, b.worse, b.median_gain, b.worst_gain) == (3, 1, 2, -5.0, -10.0)
    assert a.chance == pytest.approx((2 + 0.5 + 1) / 5)
    assert b.chance == pytest.approx((1 + 1) / 5)
    assert fedavg.chance == 0.5
    assert (a.p, b.p) == (1 / 4, 5 / 8)  # both up, of 4 ways; a rank sum of 3 or more, of 8 ways


def test_many_wins_weigh_more_than_one():
    found = standings([{"often": 1.0}] * 5 + [{"once": 9.0}])
    assert [one.algorithm for one in found] == ["often", "fedavg", "once"]


def test_as_many_losses_as_wins_are_no_reason_to_leave_fedavg():
    """NIID-Bench's FedProx under label skew, but for its draws: 5 better, 6 worse."""
    gains = [-6.3, -2.4, -1.2, -0.9, -0.6, -0.3, 0.5, 0.9, 1.8, 2.1, 22.1]
    assert [one.algorithm for one in standings([{"fedprox": gain} for gain in gains])] == ["fedavg", "fedprox"]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6])
def test_five_comparisons_are_the_fewest_that_show_a_difference(count):
    first = standings([{"a": 10.0 + k} for k in range(count)])[0]
    assert first.algorithm == ("a" if count >= ENOUGH else "fedavg")
    assert p_value([10.0] * count) == 0.5**count


sizes = st.lists(st.sampled_from([-5.0, -2.0, -0.3, 0.1, 0.0, 0.3, 2.0, 2.0, 7.5]), max_size=9)


@given(sizes)
def test_p_is_the_share_of_all_signs_that_do_as_well(gains):
    """By listing all ways to turn gains into losses, which is what the test assumes to be as likely."""
    some = [gain for gain in gains if abs(gain) > DRAW + 1e-9]
    ranks = stats.rankdata(np.abs(some))
    reached = ranks[np.array(some) > 0].sum() if some else 0.0
    ways = [np.dot(ranks, signs) for signs in itertools.product((0, 1), repeat=len(some))]
    assert p_value(gains) == pytest.approx(np.mean(np.array(ways) >= reached - 1e-9))


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=40, unique=True), st.randoms(use_true_random=False))
def test_p_is_scipys_where_no_two_are_equal(sizes, random):
    gains = [random.choice((-1, 1)) * size for size in sizes]
    assert p_value(gains) == pytest.approx(stats.wilcoxon(gains, alternative="greater", method="exact").pvalue)


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
