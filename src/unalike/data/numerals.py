"""Ways in which a text can be a number: plain, with a decimal comma, or as a date."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

SHARE_OF_NUMBERS = 0.95  # from this share on texts are numbers, and an odd one among them is a mistake
_COMMA = re.compile(r"[+-]?[0-9]+(?:,[0-9]+)?(?:[eE][+-]?[0-9]+)?")
# 1,234 or 1.234.567,89: digits in threes, which 1,234 may be or may not
_THREES = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:(?:,[0-9]{3})+(?:\.[0-9]+)?|(?:\.[0-9]{3})+(?:,[0-9]+)?)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
# 31.12.2024, 12/31/2024, 2024/12/31: which of them is the month depends on the country
_OTHER_DATE = re.compile(r"(?:\d{1,2}([./-])\d{1,2}\1\d{4}|\d{4}([./])\d{1,2}\2\d{1,2})(?:[T ,].*)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Reading(NamedTuple):
    """A way to read texts as numbers: what they are, the number of a text (None if it is not one)."""

    kind: Literal["number", "date"]
    read: Callable[[str], float | None]


def number(text: str) -> float | None:
    """The number that ``text`` is, in digits 0 to 9, or None: Python takes digits of any script, and 1_000."""
    try:
        return None if "_" in text or not text.isascii() else float(text)
    except ValueError:
        return None


def comma_number(text: str) -> float | None:
    """The number that ``text`` is with a decimal comma, as 3,14; or None."""
    return float(text.replace(",", ".")) if _COMMA.fullmatch(text) else None


def days(text: str) -> float | None:
    """The days from 1970-01-01 to an ISO date or time such as 2024-12-31 or 2024-12-31T23:59+01:00; or None.

    A time without a zone is taken as UTC.
    """
    if not _DATE.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
        since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    except ValueError:  # there is no 30 February
        return None
    return since / timedelta(days=1)


def number_as(point: str, group: str) -> Callable[[str], float | None]:
    """How to read numbers with this decimal sign, and perhaps this one between thousands; another text is None."""
    mark = re.escape(group)
    threes = f"[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+|" if group else ""
    form = re.compile(rf"[+-]?(?:{threes}[0-9]+)?(?:{re.escape(point)}[0-9]+)?(?:[eE][+-]?[0-9]+)?")

    def read(text: str) -> float | None:
        if not form.fullmatch(text) or not any(map(str.isdigit, text.partition("e")[0])):
            return None
        return number((text.replace(group, "") if group else text).replace(point, "."))

    return read


def date_as(form: str) -> Callable[[str], float | None]:
    """How to read dates in this form of ``strptime``: days since 1970-01-01; another text is None."""

    def read(text: str) -> float | None:
        try:
            moment = datetime.strptime(text, form)
            return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) / timedelta(days=1)
        except (ValueError, OverflowError):
            return None

    return read


PLAIN = Reading("number", number)
WAYS = (PLAIN, Reading("number", comma_number), Reading("date", days))


def plain_number(text: str) -> str:
    """A number in one way of writing: 1 for 1.0; another text as it is."""
    value = number(text)
    if value is None:
        return text
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def in_threes(text: str) -> bool:
    """Whether ``text`` is digits in groups of three, such as 1,234: its number depends on the country."""
    return _THREES.fullmatch(text) is not None


def any_number(text: str) -> float | None:
    """Not None where ``text`` looks like a number in some country's way of writing it; do not use its value."""
    return 0.0 if in_threes(text) else number(text) if comma_number(text) is None else comma_number(text)


def other_date(text: str) -> float | None:
    """Not None where ``text`` looks like a date that is not in the ISO way; it has no number."""
    return 0.0 if _OTHER_DATE.fullmatch(text) else None


def mostly_numbers(texts: Collection[str]) -> bool:
    """Whether (nearly) all texts are numbers or dates, all of them written in the same way."""
    numbers = (sum(way.read(text) is not None for text in texts) for way in WAYS)
    return max(numbers) >= SHARE_OF_NUMBERS * len(texts)
