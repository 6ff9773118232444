"""Thresholds in the table's own units: few digits, and the same side for every number that the table may have."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unalike.data.dataset import Units
from unalike.trees.columns import Columns

MOST = float(np.finfo(np.float32).max)


def coded(value, shift, scale):
    return np.float32((np.float64(value) - shift) / scale)


def threshold(number, shift=0.0, scale=1.0):
    columns = Columns.of(("a", "b"), 2, Units(np.array([9.0, shift]), np.array([3.0, scale])))
    return float(columns.thresholds(np.array([1]), np.array([number], np.float32))[0])


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (53.52, 9.42), (-1e6, 0.001), (0.0, 1e-9), (1.5, 1e12)])
@pytest.mark.parametrize("value", [45, -3, 0, 12.5, 0.25, 130, 999])
def test_a_number_that_people_wrote_is_found_again(value, shift, scale):
    if abs(value - shift) / scale > 1e6 or abs(shift) > 1e5:
        pytest.skip("single precision has no digits for it")
    assert threshold(coded(value, shift, scale), shift, scale) == pytest.approx(
        value, rel=1e-6 * max(1, scale / 10)
    )


def test_a_table_of_whole_years_gets_whole_years():
    years = np.arange(18, 91)
    shift, scale = float(years.mean()), float(years.std())
    assert [threshold(coded(year, shift, scale), shift, scale) for year in years] == years.tolist()


@given(
    st.floats(-1e6, 1e6), st.floats(-1e4, 1e4), st.floats(1e-3, 1e3), st.lists(st.integers(-40, 40), min_size=1)
)
@example(0.7, 0.0, 1.0, [0])
@example(0.3, 0.0, 1.0, [0])
def test_numbers_of_many_digits_stay_on_their_side(value, shift, scale, steps):
    """Also those that single precision hardly tells from the threshold."""
    cut = coded(value, shift, scale)
    found = threshold(cut, shift, scale)
    short = float(f"{found:.3e}") == found
    for step in steps:
        near = float(value)
        for _ in range(abs(step)):
            near = float(np.nextafter(np.float32(near), np.float32(np.copysign(np.inf, step))))
        if short and coded(near, shift, scale) == cut:
            continue  # the number with few digits is taken for the one that was meant
        if coded(near, shift, scale) == np.nextafter(cut, np.float32(-np.inf)):
            continue  # less than a thousandth of the last digit below it
        assert (near < found) == (coded(near, shift, scale) < cut)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_where_nothing_was_coded_it_is_the_threshold_in_single_precision(number):
    found = threshold(number)
    assert np.float32(found) == np.float32(number)
    assert not np.float32(number) < found or found <= number


def test_where_only_missing_numbers_go_right_it_is_the_greatest_of_single_precision():
    assert threshold(MOST) == MOST
    assert threshold(MOST, 50.0, 7.0) == threshold(MOST, 50.0, 1e-3) == MOST


def test_a_missing_number_goes_where_its_coding_goes():
    cuts, told = np.array([-0.5, 0.0, 0.5], np.float32), np.array([1, 1, 0], np.uint8)
    units = Units(np.zeros(2), np.ones(2))
    assert Columns.of((), 2, units, gaps=False).missing_left(cuts, told).tolist() == [False, False, True]
    assert Columns.of((), 2, units, gaps=True).missing_left(cuts, told).tolist() == [True, True, False]


def test_columns_without_names_are_numbered():
    assert Columns.of((), 3).names == ("x0", "x1", "x2")
    assert Columns.of(("a", "b", "c"), 3).names == ("a", "b", "c")
