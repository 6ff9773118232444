"""How a budget becomes trials and rungs: never more than it, the same for every algorithm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.errors import UserError
from unalike.studies.tuning.rungs import Rung, allow, cost, make_rungs, most_rungs

counts = st.integers(1, 60)
rounds = st.integers(1, 200)
seeds = st.integers(1, 4)
every = st.sampled_from([1, 1, 2, 5, 10, 300])


def test_a_third_goes_on_three_times_as_far():
    assert make_rungs(9, 54, 3) == (Rung(6, 9), Rung(18, 3), Rung(54, 1))
    assert cost(make_rungs(9, 54, 3), seeds=2) == 2 * (9 * 6 + 3 * 12 + 1 * 36)
    assert make_rungs(2, 50, 3) == (Rung(6, 2), Rung(17, 1), Rung(50, 1))
    assert make_rungs(5, 50, 1) == (Rung(50, 5),)


def test_rungs_are_where_runs_are_evaluated():
    assert [rung.round for rung in make_rungs(9, 54, 3, every=10)] == [10, 20, 54]
    assert make_rungs(9, 54, 3, every=100) == (Rung(54, 9),)


@given(counts, rounds, seeds, every)
def test_rungs_grow_and_trials_shrink(trials, length, number, step):
    for count in range(1, most_rungs(length) + 1):
        made = make_rungs(trials, length, count, step)
        assert made[-1].round == length
        assert made[0].trials == trials
        assert [rung.round for rung in made] == sorted({rung.round for rung in made})
        assert [rung.trials for rung in made] == sorted((rung.trials for rung in made), reverse=True)
        assert made[0].round >= 1
        assert cost(made, number) >= number * length


@given(st.none() | counts, st.none() | st.integers(1, 5000), rounds, seeds, every, st.integers(1, 50))
def test_nobody_spends_more_than_the_budget(trials, budget, length, number, step, size):
    try:
        allowed = allow(trials, budget, length, number, step)
    except UserError:
        assert budget is not None
        return
    assert budget is None or allowed.budget == budget
    assert trials is None or allowed.trials == trials
    for points in (float("inf"), size, 0):  # a smaller space has fewer trials, never a larger bill
        made = allowed.rungs(points, length, number, step)
        assert cost(made, number) <= allowed.budget
        assert (made[0].trials if made else 0) == min(allowed.trials, points)


@given(st.integers(1, 3000), rounds, seeds)
def test_a_budget_alone_buys_as_many_trials_as_fit(budget, length, number):
    if budget < length * number:
        with pytest.raises(UserError, match="not enough for one trial"):
            allow(None, budget, length, number)
        return
    allowed = allow(None, budget, length, number)
    usual = min(3, most_rungs(length))
    assert cost(make_rungs(allowed.trials, length, usual), number) <= budget
    assert cost(make_rungs(allowed.trials + 1, length, usual), number) > budget


def test_money_left_makes_rungs_longer():
    assert len(allow(9, 10_000, 50, 3).rungs(float("inf"), 50, 3)) == 1
    assert len(allow(9, 800, 50, 3).rungs(float("inf"), 50, 3)) == 2
    assert len(allow(9, 400, 50, 3).rungs(float("inf"), 50, 3)) == 3


def test_too_many_trials_for_a_budget_are_refused_with_what_they_need():
    with pytest.raises(UserError, match=r"need a budget of (\d+) rounds, got 100") as caught:
        allow(9, 100, 50, 3)
    needed = int(str(caught.value).split("budget of ")[1].split()[0])
    assert allow(9, needed, 50, 3).trials == 9


@pytest.mark.parametrize(("trials", "budget"), [(0, None), (None, 0), (-3, 10)])
def test_numbers_below_one_are_refused(trials, budget):
    with pytest.raises(UserError, match="at least 1"):
        allow(trials, budget, 10, 1)
