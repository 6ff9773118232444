"""A query of a DuckDB file: opened read-only, with no other file, no download and no setting within reach."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from unalike.data.columns import check_file, unreadable
from unalike.data.sql.address import Address
from unalike.data.sql.answer import PIECE, Answer, Heading, as_it_is, decimal, moment, refused, within_time
from unalike.errors import UserError

_LOCKED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
_PLAIN = ("BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "FLOAT", "DOUBLE")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_WRITE = {
    **dict.fromkeys((*_PLAIN, *_WHOLE, *(f"U{name}" for name in _WHOLE)), as_it_is),
    "TIMESTAMP WITH TIME ZONE": moment,
}


@contextmanager
def ask(address: Address, query: str) -> Iterator[Answer]:
    """What the query answers; DuckDB itself refuses what is beyond its own tables."""
    try:
        import duckdb
    except ImportError:
        raise UserError("DuckDB files need duckdb. Install it: pip install 'unalike[duckdb]'.") from None
    check_file(address.path)
    if not address.path.exists():
        raise unreadable(address.path, FileNotFoundError())
    try:
        connection = duckdb.connect(str(address.path.absolute()), read_only=True, config=_LOCKED)
    except duckdb.Error as error:
        raise refused(address, error) from None
    with closing(connection), within_time(connection.interrupt, duckdb.Error, address):
        connection.execute("SET TimeZone = 'UTC'; SET lock_configuration = true")
        statements = connection.extract_statements(query)
        if [statement.type.name for statement in statements] != ["SELECT"]:
            raise UserError(f"{address.shown}: the query must be one SELECT, and nothing beside it.")
        found = connection.sql(query)
        headings = [_heading(name, str(type)) for name, type in zip(found.columns, found.types, strict=True)]
        yield Answer(headings, _pieces(connection, query, headings))


def _heading(name: str, type: str) -> Heading:
    write = decimal if type.startswith("DECIMAL(") else as_it_is if type.startswith("ENUM(") else _WRITE.get(type)
    return Heading(name, type, write)


def _pieces(connection: Any, query: str, headings: list[Heading]) -> Iterator[list[tuple[str | None, ...]]]:
    """The rows in pieces, all values as DuckDB's own texts; of a column that is not used, nothing."""
    names = [heading.name.replace('"', '""') for heading in headings]
    each = [f'"{name}"::VARCHAR' if heading.write else "NULL" for name, heading in zip(names, headings, strict=True)]
    rows = connection.sql(query).project(", ".join(each))
    while piece := rows.fetchmany(PIECE):
        yield piece
