"""Where a database is: the text of its address, checked, and without anything secret in it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from unalike.errors import UserError, unknown

FORMS = "sqlite:FILE, duckdb:FILE, postgresql://user@host:port/database or service:NAME"
SECRET = (
    "A password cannot stand in the text of a data set, which is kept in records and seen in process lists. "
    "Put it into ~/.pgpass or the file that PGPASSFILE names, into PGPASSWORD, or into a service file "
    "(service:NAME)."
)
SECONDS = "UNALIKE_SQL_SECONDS"
_SECONDS = 600.0
_OPTIONS = (
    *("host", "hostaddr", "port", "user", "dbname", "service", "passfile", "channel_binding", "gssencmode"),
    *("krbsrvname", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "target_session_attrs"),
)
"""What an address may say: nothing that is secret, and nothing that changes rows."""


@dataclass(frozen=True)
class Address:
    """A database: of what kind, its file, or how its server is reached; and a text to show."""

    kind: str
    shown: str
    path: Path = Path()
    options: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """A short name for the data set that is read from it."""
        options = dict(self.options)
        return self.path.stem or options.get("dbname") or options.get("service") or options.get("user") or "sql"


def read_address(text: str) -> Address:
    """The database that a text such as ``sqlite:clinic.db`` names; a password in it is refused."""
    kind, colon, rest = text.partition(":")
    if not colon or not rest:
        raise UserError(f"sql needs the address of a database: {FORMS}.")
    if kind in ("sqlite", "duckdb"):
        return Address(kind, text, Path(rest).expanduser())
    if kind == "service":
        if not all(character.isalnum() or character in "-_." for character in rest):
            raise UserError("The name of a service has letters, digits, - and _ only. Use service:NAME.")
        return Address("postgresql", text, options=(("service", rest),))
    if kind in ("postgresql", "postgres"):
        return Address("postgresql", text, options=_server(text))
    raise unknown("kind of database", kind, ("duckdb", "postgresql", "service", "sqlite"))


def _server(text: str) -> tuple[tuple[str, str], ...]:
    """How the server is reached: user, host, port, database and further options of libpq."""
    if "password=" in unquote(text).lower().replace(" ", ""):  # also in libpq's other way to write an address
        raise UserError(SECRET)
    if not text.partition(":")[2].startswith("//"):
        raise UserError("This is not the address of a server. Use postgresql://user@host:port/database.")
    try:
        parts = urlsplit(text)
        found = {"user": parts.username, "host": parts.hostname, "port": str(parts.port or "")}
    except ValueError:
        raise UserError("This is not the address of a server. Use postgresql://user@host:port/database.") from None
    if parts.password is not None or "@" in parts.path + parts.query + parts.fragment or text.count("@") > 1:
        raise UserError(SECRET)  # also one with signs in it that end the part of an address where it stands
    found["dbname"] = parts.path.removeprefix("/")
    given = {name: unquote(value) for name, value in found.items() if value}
    if ":" in given.get("user", ""):
        raise UserError(SECRET)
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if "password" in name.lower() or "secret" in name.lower():
            raise UserError(SECRET)
        if name not in _OPTIONS:
            raise unknown("option of a database's address", name, _OPTIONS)
        given[name] = value
    return tuple(given.items())


def seconds() -> float:
    """How long a query may take: ``UNALIKE_SQL_SECONDS``, or ten minutes."""
    text = os.environ.get(SECONDS, "")
    try:
        found = float(text) if text else _SECONDS
    except ValueError:
        found = -1.0
    if not 0 < found < 1e6:
        raise UserError(f"{SECONDS} must be a number of seconds above 0, got {text[:40]!r}. Use {_SECONDS:g}.")
    return found
