"""A table of the user's own that is in a database, ``sql:URL``: one SELECT, read-only, in an order of its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from unalike.data.columns import Column, Inferred
from unalike.data.dataset import DATASETS, Dataset, register_dataset
from unalike.data.declared import declarations, declare
from unalike.data.digest import table_digest
from unalike.data.roles import Missing, Roles, check_test
from unalike.data.sql import duckdb, postgres, sqlite
from unalike.data.sql.address import SECRET, Address, read_address
from unalike.data.sql.answer import Answer
from unalike.data.sql.rows import read_rows
from unalike.data.table import coded, inferred
from unalike.errors import UserError
from unalike.tallies import Kind

_ASK: dict[str, Callable[[Address, str], AbstractContextManager[Answer]]] = {
    "duckdb": duckdb.ask,
    "postgresql": postgres.ask,
    "sqlite": sqlite.ask,
}


@register_dataset("sql")
class SQL:
    """Your own database, sql:URL(query='select ...', label=outcome): PostgreSQL, SQLite or DuckDB, read-only.

    The address is ``sqlite:FILE``, ``duckdb:FILE``, ``postgresql://user@host:port/database`` or ``service:NAME``:
    a name in libpq's service file. A password is never a part of it: PostgreSQL's own places for one are ~/.pgpass
    (or the file that PGPASSFILE names), PGPASSWORD and the service file. ``query`` is one SELECT, or the path of a
    file with one that ends in .sql; the database itself refuses anything else.

    A database gives rows in any order, and the test rows depend on it: so they are sorted by the columns ``key``,
    which are not used otherwise, and then by all columns from the left; numbers by their size, texts by their
    letters. The SHA-256 of the sorted rows is part of a run's key: other rows are another run. They are read once
    in a process. A study needs rows that stay: ``unalike data "sql:..." --export patients.parquet`` freezes them.

    Decimals keep all digits, truth values are binary, dates and times are days since 1970 in UTC, texts follow the
    rules of ``csv``; null is a missing value. Bytes, JSON, arrays, UUIDs and the like are refused until they are
    named in ``ignore`` or left out of the query. The other parameters mean what they mean for ``csv``.
    """

    url: str
    query: str
    key: tuple[str, ...] = ()
    label: str = ""
    party: str = ""
    test: float = 0.2
    missing: Missing = "error"
    ignore: tuple[str, ...] = ()
    task: Kind = "classification"
    types: str = ""
    categories: tuple[str, ...] = ()

    refused: ClassVar[dict[str, str]] = dict.fromkeys(("password", "passwd", "pwd"), SECRET)

    def __post_init__(self) -> None:
        read_address(self.url)
        check_test("sql", self.test)
        declarations(self.types, self.categories)

    def fingerprint(self) -> str:
        """The SHA-256 of the sorted rows."""
        return _read(read_address(self.url), self._select(), self.key).digest

    def columns(self) -> list[Inferred]:
        """What was inferred of every column."""
        return [
            one._replace(type="identifier") if one.column in self.key else one for one in inferred(self.table())
        ]

    def table(self) -> list[Column]:
        """The columns of the table, as they are, of the kinds that were said."""
        return declare(
            _read(read_address(self.url), self._select(), self.key).columns, self.types, self.categories
        )

    def load(self) -> Dataset:
        """Read and code the table."""
        roles = Roles.choose(self.table(), self.label, self.party, self.ignore)
        return coded(read_address(self.url).name, roles, self.test, self.missing, self.task)

    def _select(self) -> str:
        """The query itself, out of its file where it is in one."""
        if not self.query.strip().endswith(".sql"):
            return self.query
        path = Path(self.query.strip()).expanduser()
        try:
            return path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise UserError(f"Cannot read the query {path}: {reason}. Check the path.") from None


def check_frozen(dataset: str) -> None:
    """Refuse a database for a study: its rows may change while many processes read them, for days perhaps."""
    loader = DATASETS.build(dataset)
    if isinstance(loader, SQL):
        raise UserError(
            "The rows of a study must stay, and those of a database may change. Freeze them, and use the file: "
            f'unalike data "{DATASETS.told(loader)}" --export patients.parquet'
        )


def check_no_database(dataset: str) -> None:
    """Refuse a database that a record names: somebody else may have written it, and would be told a password."""
    if isinstance(DATASETS.build(dataset), SQL):
        raise UserError("they are in a database, which is not asked because a record names it.")


class _Table:
    """The rows that were read, and their hash."""

    def __init__(self, columns: list[Column]) -> None:
        self.columns, self.digest = columns, table_digest(columns)


@lru_cache(maxsize=4)
def _read(address: Address, query: str, key: tuple[str, ...]) -> _Table:
    """What a query answers. It is asked once in a process: a run's key and its rows must be of the same moment."""
    if not query.strip():
        raise UserError(
            "The query is empty. Write query='select * from patients', or name a file that ends in .sql."
        )
    with _ASK[address.kind](address, query) as answer:
        return _Table(read_rows(answer, key, address.shown))
