"""Databases for tests: files of SQLite and DuckDB, and a real PostgreSQL server of the test's own."""

import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.federation.real import free_port

OWNER, SECRET = "owner", "owners-own-secret"


def make_sqlite(path, *statements):
    """An SQLite file in which the statements were run; its address."""
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return f"sqlite:{path}"


def make_duckdb(path, *statements):
    """A DuckDB file in which the statements were run; its address."""
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return f"duckdb:{path}"


def programs():
    """Where the programs of the newest PostgreSQL server here are; None without one."""
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    path = max(found, key=lambda path: float(path.parts[-3]), default=None) or shutil.which("initdb")
    return Path(path).parent if path else None


@dataclass
class Server:
    """A server that is running: its port on the loopback address, and the folder that it is in."""

    port: int
    folder: Path

    def url(self, role, database="postgres"):
        return f"postgresql://{role}@127.0.0.1:{self.port}/{database}"

    def run(self, *statements):
        """Run statements as the owner of everything; what the last one answers."""
        import psycopg

        with psycopg.connect(self.url(OWNER), password=SECRET, autocommit=True) as connection:
            *before, last = statements
            for statement in before:
                connection.execute(statement)
            answer = connection.execute(last)
            return answer.fetchall() if answer.description else []


def _user():
    """Whom to run a server as: root may not."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    pytest.skip("root may not run PostgreSQL, and there is no other user")


@contextmanager
def postgres():
    """A PostgreSQL server that asks everybody for a password, gone again at the end."""
    pytest.importorskip("psycopg")
    place, user = programs(), _user()
    if place is None:
        pytest.skip("there is no PostgreSQL server here")
    folder = Path(tempfile.mkdtemp(prefix="unalike-postgres-"))
    port, environment = free_port(), {"PATH": os.environ["PATH"], "LC_ALL": "C"}

    def call(program, *words):
        done = subprocess.run(
            [place / program, "-D", folder / "data", *words],
            **user,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=program == "initdb",
            text=True,
        )
        assert done.returncode == 0, (program, done.stdout, done.stderr)

    try:
        (folder / "secret").write_text(SECRET)
        if user:
            for path in (folder, folder / "secret"):
                os.chown(path, user["user"], user["group"])
        call("initdb", "-U", OWNER, "--auth=scram-sha-256", "--pwfile=secret", "-E", "UTF8", "--no-sync")
        (folder / "secret").unlink()
        quick = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories= -c fsync=off"
        call("pg_ctl", "-w", "-s", "-l", "log", "-o", quick, "start")
        try:
            yield Server(port, folder)
        finally:
            call("pg_ctl", "-w", "-s", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
