"""A query of a PostgreSQL server: a cursor that can only select, in a read-only transaction that never commits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unalike.data.sql.address import SECONDS, Address, seconds
from unalike.data.sql.answer import PIECE, Answer, Heading, as_it_is, decimal, moment, refused, truth
from unalike.errors import UserError

if TYPE_CHECKING:
    import psycopg

_CONNECT_SECONDS = 10
_WRITE = {
    **dict.fromkeys(("int2", "int4", "int8", "float4", "float8", "date", "timestamp"), as_it_is),
    "numeric": decimal,
    "bool": truth,
    "timestamptz": moment,
}
_UNUSED = ("json", "jsonb", "bytea", "uuid", "time", "timetz", "interval")
"""Types that are not used, and need not be taken apart either."""
_TEXTS = ("S", "E")
"""The server's categories of types that are texts: strings, and lists of words of the user's own."""
_SETTINGS = """
    select set_config('statement_timeout', %s, true), set_config('TimeZone', 'UTC', true),
           set_config('DateStyle', 'ISO, YMD', true), set_config('extra_float_digits', '1', true)
"""


@contextmanager
def ask(address: Address, query: str) -> Iterator[Answer]:
    """What the query answers, all of it from one moment; the server itself refuses all but a SELECT."""
    try:
        import psycopg
    except ImportError:
        raise UserError("PostgreSQL needs psycopg. Install it: pip install 'unalike[postgres]'.") from None
    limit = seconds()
    try:
        connection = _connect(address)
    except psycopg.Error as error:
        raise _not_connected(address, error) from None
    try:
        connection.execute(_SETTINGS, (str(max(1, int(limit * 1000))),))
        with connection.cursor(name="unalike") as cursor:  # which is DECLARE ... CURSOR FOR the query
            _read_as_texts(cursor)
            cursor.execute(query.encode())
            yield Answer(_headings(connection, cursor), iter(lambda: cursor.fetchmany(PIECE), []))
    except psycopg.errors.QueryCanceled:
        raise UserError(f"{address.shown}: the query took over {limit:g} s. Set {SECONDS} to more.") from None
    except (psycopg.Error, UnicodeError) as error:
        raise refused(address, error) from None
    finally:
        connection.close()  # nothing is ever committed


def _connect(address: Address) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection whose one transaction is read-only, and sees the rows as they are at its begin."""
    import psycopg

    options: dict[str, Any] = dict(address.options)
    connection = psycopg.connect(
        **options, connect_timeout=_CONNECT_SECONDS, application_name="unalike", client_encoding="utf8"
    )
    connection.read_only = True
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    return connection


def _not_connected(address: Address, error: Exception) -> UserError:
    """The error for a server that is not there, or does not let us in."""
    reason = " ".join(str(error).split())[:300].rstrip(".?")
    remedy = "Is the address right, and the server running?"
    if "password" in reason:
        remedy = "Put the password into ~/.pgpass, PGPASSWORD or a service file."
    return UserError(f"{address.shown}: {reason}. {remedy}")


def _read_as_texts(cursor: Any) -> None:
    """Have values as the server writes them: every digit of a number, no date that Python does not know."""
    from psycopg.types.string import TextLoader

    for name in (*_WRITE, *_UNUSED):
        cursor.adapters.register_loader(name, TextLoader)


def _headings(connection: Any, cursor: Any) -> list[Heading]:
    """The columns with their types; a list of words of the user's own is a text, too."""
    columns = cursor.description or ()
    kinds = [column.type_code for column in columns]
    asked = "select oid::bigint, typname, typcategory::text from pg_catalog.pg_type where oid = any(%s::oid[])"
    known = {number: (name, category) for number, name, category in connection.execute(asked, (kinds,))}
    found = []
    for column in columns:
        name, category = known.get(column.type_code, ("an unknown type", ""))
        shown = name if column.type_display.isdigit() else column.type_display
        found.append(Heading(column.name, shown, as_it_is if category in _TEXTS else _WRITE.get(name)))
    return found
