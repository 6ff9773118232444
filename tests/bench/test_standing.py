import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.bench.standing import standings


def test_by_hand():
    rows = [
        {"fedavg": 50.0, "a": 60.0, "b": 40.0},
        {"fedavg": 50.0, "a": 50.0, "b": 70.0},
        {"fedavg": 50.0, "a": 55.0, "b": 45.0},
    ]
    a, fedavg, b = standings(rows)
    assert [one.algorithm for one in (a, fedavg, b)] == ["a", "fedavg", "b"]
    assert a.mean_rank == pytest.approx((1 + 2.5 + 1) / 3)  # a draw for the second place
    assert (a.best, a.better, a.worse, a.median_gain, a.worst_gain) == (2, 2, 0, 5.0, 0.0)
    assert (b.best, b.better, b.worse, b.median_gain, b.worst_gain) == (1, 1, 2, -5.0, -10.0)
    assert a.chance == pytest.approx((2 + 0.5 + 1) / 5)
    assert fedavg.chance == 0.5


def test_without_a_reference_there_is_no_gain():
    (one, _) = standings([{"a": 1.0, "b": 2.0}])
    assert (one.algorithm, one.median_gain, one.chance) == ("b", None, 0.5)


def test_nothing():
    assert standings([]) == []


@given(
    st.lists(
        st.fixed_dictionaries({name: st.floats(0, 100) for name in ("fedavg", "a", "b", "c")}),
        min_size=1,
        max_size=8,
    )
)
def test_ranks_add_up_and_a_constant_shift_changes_nothing(rows):
    found = standings(rows)
    assert sum(one.mean_rank for one in found) == pytest.approx(1 + 2 + 3 + 4)
    assert all(0 < one.chance < 1 for one in found)
    assert sum(one.best for one in found) >= len(rows)
