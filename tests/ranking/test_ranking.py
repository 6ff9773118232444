"""Against scipy's Friedman test, Demsar's published values, and what ranks must always satisfy."""

import math
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import friedmanchisquare

from unalike.errors import UserError
from unalike.ranking.ranking import cliques, critical_difference, friedman, rank, ranks, studentised

TABLES = st.integers(2, 6).flatmap(
    lambda k: st.lists(st.lists(st.integers(0, 5), min_size=k, max_size=k), min_size=2, max_size=12)
)


def settings(table):
    return [{f"a{j}": float(value) for j, value in enumerate(row)} for row in table]


def test_equals_share_their_ranks_and_failed_ones_come_last():
    assert ranks({"a": 90.0, "b": 80.0, "c": 90.0}) == {"a": 1.5, "b": 3.0, "c": 1.5}
    assert ranks({"a": None, "b": 0.0, "c": math.nan}) == {"a": 2.5, "b": 1.0, "c": 2.5}
    assert ranks({"a": 0.1 + 0.2, "b": 0.3}) == {"a": 1.5, "b": 1.5}  # rounding makes no winner


@given(TABLES)
def test_ranks_of_a_setting_add_up(table):
    k = len(table[0])
    for row in settings(table):
        assert sum(ranks(row).values()) == pytest.approx(k * (k + 1) / 2)


@given(TABLES.filter(lambda table: len(table[0]) > 2 and any(len(set(row)) > 1 for row in table)))
def test_friedman_is_scipys(table):
    found = rank(settings(table))
    reference = friedmanchisquare(*np.array(table, float).T)
    assert found.chi2 == pytest.approx(reference.statistic, abs=1e-9)
    assert found.chi2_p == pytest.approx(reference.pvalue, abs=1e-9)


def test_demsars_own_example():
    """Demsar 2006, section 3.2.2: 14 data sets, 4 algorithms with these mean ranks."""
    mean = [3.143, 2.000, 2.893, 1.964]
    n, k = 14, 4
    chi2 = 12 * n / (k * (k + 1)) * (sum(m**2 for m in mean) - k * (k + 1) ** 2 / 4)
    assert chi2 == pytest.approx(9.28, abs=0.02)
    assert (n - 1) * chi2 / (n * (k - 1) - chi2) == pytest.approx(3.69, abs=0.02)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.01)
    assert critical_difference(4, 14, 0.10) == pytest.approx(1.12, abs=0.01)


def test_iman_and_davenport():
    """F from chi2 by its definition, where there are no ties."""
    table = [[1.0, 2.0, 3.0], [2.0, 1.0, 3.0], [1.0, 3.0, 2.0], [1.0, 2.0, 3.0]]
    chi2, _, f, p = friedman(table)
    assert chi2 == pytest.approx(4.5)
    assert f == pytest.approx(3 * 4.5 / (4 * 2 - 4.5))
    assert p == pytest.approx((1 + 2 * f / 6) ** -3)  # F(2, 6) in closed form


def test_settings_that_all_agree():
    found = rank(settings([[3, 2, 1]] * 5))
    assert found.f == math.inf
    assert found.differ is True
    assert list(found.mean_ranks) == ["a0", "a1", "a2"]


@pytest.mark.parametrize("row", [[1.0, 2.0], [1.0, 2.0, 3.0], [1.5, 1.5, 3.0], [1.0, 3.0, 3.0, 3.0]])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_chance_that_random_orders_all_agree(row, count):
    """By counting: the first order is free, each further one must be the same."""
    orders = set(permutations(row))
    agree = sum(len(set(each)) == 1 for each in product(orders, repeat=count))
    *_, f, p = friedman([row] * count)
    assert f == math.inf
    assert p == pytest.approx(agree / len(orders) ** count)


def test_two_settings_that_agree_do_not_tell_three_algorithms_apart():
    assert rank(settings([[3, 2, 1]] * 2)).differ is False


def test_demsars_table_of_q():
    """Demsar 2006, Table 5 (a)."""
    at_5 = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]
    at_10 = [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920]
    assert [studentised(k) for k in range(2, 11)] == pytest.approx(at_5, abs=1.5e-3)
    assert [studentised(k, 0.1) for k in range(2, 11)] == pytest.approx(at_10, abs=1.5e-3)


def test_cliques_are_the_largest_groups():
    mean = {"a": 1.0, "b": 2.0, "c": 2.9, "d": 6.0}
    assert cliques(mean, 1.5) == (("a", "b"), ("b", "c"))
    assert cliques(mean, 1.9) == (("a", "b", "c"),)
    assert cliques(mean, 0.5) == ()
    assert cliques({"a": 1.0, "b": 1.0}, 0.0) == (("a", "b"),)


@given(st.lists(st.floats(1, 10), min_size=2, max_size=9), st.floats(0.1, 5))
def test_cliques_join_exactly_those_within_the_difference(values, difference):
    mean = {f"a{j}": value for j, value in enumerate(values)}
    found = cliques(mean, difference)
    for one in mean:
        for other in mean:
            gap = abs(mean[one] - mean[other])
            if one < other and abs(gap - difference) > 1e-6:
                assert any(one in group and other in group for group in found) == (gap < difference)
    for group in found:
        assert not any(set(group) < set(other) for other in found)


@pytest.mark.parametrize(
    ("table", "word"),
    [
        ([], "two algorithms"),
        ([[1.0]], "two algorithms"),
        ([[1, 2]], "2 settings"),
        ([[1, 1]] * 4, "all are equal"),
    ],
)
def test_where_nothing_can_be_concluded_it_says_so(table, word):
    found = rank(settings(table))
    assert "Nothing can be concluded" in found.doubt
    assert word in found.doubt
    assert (found.f_p, found.critical_difference, found.differ, found.cliques) == (None, None, None, ())


def test_few_settings_are_called_few():
    assert "few" in rank(settings([[1, 2], [2, 1], [1, 3]])).doubt
    assert rank(settings([[1, 2], [2, 1]] * 5)).doubt == ""


def test_equals_all_win():
    assert rank(settings([[2, 2, 1], [1, 0, 0]])).wins == {"a0": 2, "a1": 1, "a2": 0}


def test_where_all_failed_nobody_wins():
    assert rank([{"a": None, "b": math.nan}, {"a": None, "b": 1.0}]).wins == {"b": 1, "a": 0}


@pytest.mark.parametrize("alpha", [0.0, 0.6, -1.0, math.nan])
def test_a_level_that_is_none(alpha):
    with pytest.raises(UserError, match="alpha must be"):
        rank(settings([[1, 2], [2, 1]]), alpha)


def test_incomplete_settings_are_a_mistake_of_the_caller():
    with pytest.raises(ValueError):
        rank([{"a": 1.0, "b": 2.0}, {"a": 1.0}])
