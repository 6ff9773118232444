"""What a query answers, piece by piece: the columns with their types, and values as the texts of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import NamedTuple

from unalike.data.sql.address import SECONDS, Address, seconds
from unalike.errors import UserError

PIECE = 50_000
"""Rows that are fetched at once."""
BLOB = b""
"""What stands for bytes, which are not read, in a database whose values have types of their own."""
Row = Sequence[str | bytes | None]


class Heading(NamedTuple):
    """A column of an answer: its name, its type there, and how one of its texts is written in one way.

    Without a way to write them, the values of the column are not used.
    """

    name: str
    type: str
    write: Callable[[str], str] | None


class Answer(NamedTuple):
    """The columns of an answer, and its rows in pieces."""

    headings: list[Heading]
    pieces: Iterator[Sequence[Row]]


def as_it_is(text: str) -> str:
    """A text, of which there is one way to write it."""
    return text


def decimal(text: str) -> str:
    """An exact decimal without zeros at its end: 1.50 and 1.5 are the same number."""
    return text.rstrip("0").removesuffix(".") if "." in text and "e" not in text.lower() else text


def truth(text: str) -> str:
    """A truth value in a word."""
    return {"t": "true", "f": "false"}.get(text, text)


def moment(text: str) -> str:
    """A time in UTC, in ISO's way of writing."""
    return f"{text}:00" if text.endswith("+00") else text


def refused(address: Address, error: BaseException) -> UserError:
    """The error for what a database refuses: its own first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    reason = lines[0][:300].rstrip(".")
    return UserError(f"{address.shown}: {reason}. Check the address and the query, which may only select.")


@contextmanager
def within_time(
    interrupt: Callable[[], object], errors: type[Exception] | tuple[type[Exception], ...], address: Address
) -> Iterator[None]:
    """Interrupt a database in this process when its query takes too long; its errors become a user's."""
    limit, late = seconds(), False

    def stop() -> None:
        nonlocal late
        late = True
        interrupt()

    timer = Timer(limit, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    except errors as error:
        if late:
            raise UserError(f"{address.shown}: the query took over {limit:g} s. Set {SECONDS} to more.") from None
        raise refused(address, error) from None
    finally:
        timer.cancel()
