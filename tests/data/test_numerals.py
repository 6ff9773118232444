"""Texts as numbers: plain, with a decimal comma, as a date."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.data.numerals import any_number, comma_number, days, in_threes, mostly_numbers, number


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1970-01-01", 0),
        ("1970-01-02", 1),
        ("1969-12-31T12:00", -0.5),
        ("2000-02-29 00:00:00", 11016),
        ("1970-01-01T06:00:00.000000Z", 0.25),
        ("1970-01-01T06:00:00.5+06:00", 0.5 / 86400),
        ("1970-01-01T00:00-0600", 0.25),
        ("2001-02-29", None),
        ("1970-13-01", None),
        ("1970-01-01T25:00", None),
        ("19700101", None),
        ("1970-1-1", None),
        ("01.01.1970", None),
        ("1970-01", None),
        ("1970-01-01x", None),
        ("", None),
    ],
)
def test_days(text: str, found: float | None) -> None:
    assert days(text) == found


@given(st.dates(), st.times(), st.integers(-14, 14))
def test_days_count_from_1970(day: date, time: datetime, hours: int) -> None:
    assert days(day.isoformat()) == day.toordinal() - date(1970, 1, 1).toordinal()
    zone = timezone(timedelta(hours=hours))
    moment = datetime(2024, 3, 1, time.hour, time.minute, time.second, tzinfo=zone)
    assert days(moment.isoformat()) == pytest.approx(moment.timestamp() / 86400, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "comma", "threes", "some"),
    [
        ("3,14", 3.14, False, True),
        ("-0,5", -0.5, False, True),
        ("7", 7, False, True),
        ("1,5e3", 1500, False, True),
        ("1,234", 1.234, True, True),
        ("0,234", 0.234, False, True),
        ("1,234,567", None, True, True),
        ("1,234.5", None, True, True),
        ("1.234.567,8", None, True, True),
        ("3.14", None, False, True),
        ("1,2,3", None, False, False),
        (",5", None, False, False),
        ("5,", None, False, False),
        ("a,b", None, False, False),
    ],
)
def test_commas(text: str, comma: float | None, threes: bool, some: bool) -> None:
    assert comma_number(text) == comma
    assert in_threes(text) == threes
    assert (any_number(text) is not None) == some


@pytest.mark.parametrize("text", ["\ua900", "\u0661\u0662", "1_000", "0x10", "\uff15", ""])
def test_only_plain_digits_are_numbers(text: str) -> None:
    assert number(text) is None


def test_numbers_and_mixtures() -> None:
    assert number("1_0") is None
    assert mostly_numbers(["1", "2.5"])
    assert mostly_numbers(["1,5", "2"])
    assert mostly_numbers(["2024-01-01"])
    assert not mostly_numbers(["1", "2024-01-01"])
    assert not mostly_numbers(["1.5", "1,5"])
