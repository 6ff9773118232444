"""Values of scores as people read them, checked with numbers by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.errors import UserError
from unalike.runs.scales import Spread, scale_of
from unalike.scores import SCORES

ACCURACY, RMSE, R2, CALIBRATION = (scale_of(name) for name in ("accuracy", "rmse", "r2", "calibration-error"))
VALUES = st.floats(-1e6, 1e6).map(lambda value: float(f"{value:.6g}"))


def test_a_fraction_is_told_in_percent_and_a_number_as_it_is():
    assert ACCURACY.of({"accuracy": 0.53}) == 53
    assert RMSE.of({"rmse": 53.2, "accuracy": 0.5}) == 53.2
    assert ACCURACY.text(80.04) == "80.0 %"
    assert RMSE.text(53.2) == "53.200"
    assert ACCURACY.text(Spread(80.04, 1.26, 3)) == "80.0±1.3 %"
    assert RMSE.text(Spread(53.2, 0.4, 3), unit="") == "53.200±0.400"
    assert (ACCURACY.column, RMSE.column) == ("accuracy, %", "RMSE")
    assert (ACCURACY.short(70.0), RMSE.short(53.3)) == ("70%", "53.3")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.000"), (0.5, "0.500"), (0.01234, "0.0123"), (123456.7, "123457"), (1e-30, "0.000000000")],
)
def test_a_number_keeps_the_digits_that_tell_it(value, text):
    assert RMSE.text(value) == text


@pytest.mark.parametrize("value", [None, "high", math.nan, math.inf, [1]])
def test_what_is_no_number_is_no_value(value):
    assert RMSE.of({"rmse": value}) is None
    assert RMSE.of({}) is None


def test_validation_figures_have_their_own_key():
    assert scale_of("balanced-accuracy").of({"validation_balanced_accuracy": 0.5}, "validation_") == 50


def test_which_way_is_better():
    assert ACCURACY.goodness(80) > ACCURACY.goodness(70) > ACCURACY.goodness(None)
    assert RMSE.goodness(50) > RMSE.goodness(60) > RMSE.goodness(None)
    assert (ACCURACY.best, ACCURACY.ahead, ACCURACY.bound) == ("highest", "above", "at least")
    assert (RMSE.best, RMSE.ahead, RMSE.bound) == ("lowest", "below", "at most")
    assert RMSE.goodness(math.nan) == -math.inf


@pytest.mark.parametrize("name", SCORES)
@given(VALUES)
def test_every_value_reaches_itself_and_the_round_number_that_is_easier(name, value):
    scale = scale_of(name)
    assert scale.reaches(value, value)
    easier = scale.easier(value)
    assert scale.reaches(value, easier)
    assert abs(easier - value) <= (1 if scale.is_percent else 0.01 * abs(value)) + 1e-9


def test_reaching_is_not_missed_by_rounding():
    assert ACCURACY.reaches(100 * 0.57, 57)  # which is a little less
    assert RMSE.reaches(53.2, 53.3)
    assert not RMSE.reaches(53.2, 53.1)
    assert not ACCURACY.reaches(None, 10)
    assert (ACCURACY.easier(71.99), RMSE.easier(53.27), R2.easier(-0.4321)) == (71, 53.3, -0.433)
    assert RMSE.easier(53.3) == 53.3
    assert R2.easier(0.0) == 0


@pytest.mark.parametrize(
    ("scale", "value", "reference", "gain"),
    [
        (ACCURACY, 80, 70, 10),
        (ACCURACY, None, 70, -70),
        (ACCURACY, 80, None, 80),
        (CALIBRATION, 5, 15, 10),
        (CALIBRATION, None, 15, -85),
        (RMSE, 45, 50, 10),
        (RMSE, 55, 50, -10),
        (RMSE, None, 50, -100),
        (RMSE, 50, None, 100),
        (RMSE, None, None, 0),
        (R2, 0.3, 0.0, 100),
        (R2, -0.1, -0.2, 50),
    ],
)
def test_gains(scale, value, reference, gain):
    assert scale.gain(value, reference) == pytest.approx(gain)


def test_bounds_are_told_as_values_are():
    assert ACCURACY.bounds == (0, 100)
    assert RMSE.bounds == (0, None)
    assert R2.bounds == (None, None)  # worse than the mean is below 0
    assert ACCURACY.range_words == "accuracy in percent, above 0 and up to 100"
    assert RMSE.range_words == "RMSE, above 0"
    assert R2.range_words == "R2"


def test_an_unknown_score_is_one_line():
    with pytest.raises(UserError, match=r"'rsme'\. Did you mean 'rmse'"):
        scale_of("rsme")
