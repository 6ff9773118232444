"""A query of an SQLite file: opened read-only, and asked nothing but to select."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import quote

from unalike.data.files import check_file, unreadable
from unalike.data.sql.address import Address
from unalike.data.sql.answer import BLOB, PIECE, Answer, Heading, Row, as_it_is, within_time

_FUNCTIONS = ("load_extension", "fts3_tokenizer")
"""Functions that do more than compute a value."""


@contextmanager
def ask(address: Address, query: str) -> Iterator[Answer]:
    """What the query answers; SQLite itself refuses all that is not reading this file's own tables."""
    import sqlite3  # some builds of Python lack it

    check_file(address.path)
    if not address.path.exists():
        raise unreadable(address.path, FileNotFoundError())
    uri = f"file:{quote(str(address.path.absolute()))}?mode=ro"
    try:
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
    except sqlite3.Error as error:
        raise unreadable(address.path, error) from None
    wrong = (sqlite3.Error, sqlite3.Warning, UnicodeError)
    with closing(connection), within_time(connection.interrupt, wrong, address):
        connection.set_authorizer(_authorise)
        cursor = connection.execute(query)
        headings = [Heading(str(column[0]), "", as_it_is) for column in cursor.description or ()]
        pieces = iter(lambda: cursor.fetchmany(PIECE), [])
        yield Answer(headings, ([_texts(row) for row in piece] for piece in pieces))


def _authorise(action: int, first: str | None, second: str | None, *_: object) -> int:
    """Whether SQLite may do a thing: select, read its own tables, and compute."""
    import sqlite3

    fine = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
    fine = fine or (action == sqlite3.SQLITE_FUNCTION and second not in _FUNCTIONS)
    return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY


def _texts(row: tuple[object, ...]) -> Row:
    """The values of a row, each of its own type, as texts."""
    return [
        value if value is None or isinstance(value, str) else BLOB if isinstance(value, bytes) else repr(value)
        for value in row
    ]
