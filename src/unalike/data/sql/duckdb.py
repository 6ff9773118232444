"""A query of a DuckDB file: opened read-only, with no other file, no download and no setting within reach."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from unalike.data.files import check_file, unreadable
from unalike.data.sql.address import Address
from unalike.data.sql.answer import PIECE, Answer, Heading, as_it_is, decimal, moment, refused, within_time
from unalike.errors import UserError

_LOCKED: dict[str, Any] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
_PLAIN = (
    "BOOLEAN",
    "VARCHAR",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_S",
    "TIMESTAMP_MS",
    "TIMESTAMP_NS",
    "FLOAT",
    "DOUBLE",
)
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
        # It is one whole SELECT, so it can stand in brackets: there its values are asked for as texts.
        inner = f"(\n{query.strip().rstrip(';')}\n)"
        types = connection.execute(f"DESCRIBE SELECT * FROM {inner}").fetchall()
        headings = [_heading(name, type) for name, type, *_ in types]
        connection.execute(f"SELECT {', '.join(map(_text, headings))} FROM {inner}")
        yield Answer(headings, iter(lambda: connection.fetchmany(PIECE), []))


def _heading(name: str, type: str) -> Heading:
    write = decimal if type.startswith("DECIMAL(") else as_it_is if type.startswith("ENUM(") else _WRITE.get(type)
    return Heading(name, type, write)


def _text(heading: Heading) -> str:
    """The values of a column as texts, in SQL; of one that is not used, nothing."""
    name = heading.name.replace('"', '""')
    return f'"{name}"::VARCHAR' if heading.write else "NULL"
