"""Four hospitals that are databases: four roles of a real PostgreSQL server, each of which may read one schema."""

import csv
import random
import secrets
import shutil
from pathlib import Path

import pytest

from tests.databases import OWNER, SECRET, postgres
from tests.federation.inside import FOUR
from tests.federation.real import Federation, until
from unalike.cli.main import call

pytestmark = [
    pytest.mark.federation,
    pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at processes in /proc"),
]


class Hospitals(Federation):
    """A federation whose sites have no files, but a role of a database, and its password in a file of libpq's."""

    def __init__(self, path, server, *options):
        super().__init__(path, *options, rows=60, hospitals=FOUR)
        self.database = server
        self.secrets = {name: secrets.token_hex(12) for name in FOUR}
        self.sorted = path / "sorted"  # the same tables, in the order of the key, for comparison
        self.sorted.mkdir()
        for name in FOUR:
            shutil.move(self.site(name) / "patients.csv", self.sorted / f"{name}.csv")
            fill(server, name, self.sorted / f"{name}.csv", self.secrets[name])
            self.passwords(name).write_text(f"127.0.0.1:{server.port}:*:{name}:{self.secrets[name]}\n")
            self.passwords(name).chmod(0o600)

    def passwords(self, name):
        return self.site(name) / "pgpass"

    def table(self, name, schema=None):
        query = f"select * from {schema or name}.patients"
        return f"sql:{self.database.url(name)}(query='{query}', key=id)"

    def join(self, name):
        args = ["federation", "join", "invitation", "--data", self.table(name), "--yes"]
        return self.start(name, *args, cwd=self.site(name), PGPASSFILE=str(self.passwords(name)))


def fill(server, name, table, password):
    """A schema of the hospital's own, with typed columns and rows in any order, and a role that may read it."""
    head, *rows = csv.reader(table.read_text().splitlines())
    types = ["numeric(6, 2)" if column == "oldpeak" else "integer" for column in head[:-1]]
    columns = ", ".join(f"{column} {kind}" for column, kind in zip(head[:-1], types, strict=True))
    numbered = list(enumerate(rows))
    random.Random(name).shuffle(numbered)
    values = ", ".join(
        f"({number}, {', '.join(value or 'null' for value in row[:-1])}, '{row[-1]}')" for number, row in numbered
    )
    server.run(
        f"create schema {name}",
        f"create table {name}.patients (id integer primary key, {columns}, outcome text)",
        f"insert into {name}.patients values {values}",
        f"create role {name} login password '{password}'",
        f"grant usage on schema {name} to {name}",
        f"grant select on {name}.patients to {name}",
    )


def processes():
    """The command lines of all processes."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield entry.read_bytes()
        except OSError:
            continue


def files(folder):
    """The content of all files in a folder, but for those that passwords belong into."""
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and path.name != "pgpass"
    }


def test_four_hospitals_that_are_databases(tmp_path, capfd, monkeypatch):
    with postgres() as server:
        hospitals = Hospitals(tmp_path, server, "--rounds", "3", "--model", "mlp(8)")
        hidden = [secret.encode() for secret in (*hospitals.secrets.values(), SECRET)]
        try:
            hospitals.begin()
            assert call(["federation", "run", str(hospitals.server)]) == 0
            seen = b"\n".join(processes())
            for name in FOUR:
                until(lambda name=name: "Training is over" in hospitals.said(name), lambda: hospitals.said("va"))
        finally:
            hospitals.close()
        assert b"sql:postgresql://va@" in seen  # the sites were among them
        assert not [secret for secret in hidden if secret in seen]

        # The same rows as CSV files in one process: the last bit of every weight is the same.
        capfd.readouterr()
        assert call(["federation", "rehearse", str(hospitals.server), "--tables", str(hospitals.sorted)]) == 0
        assert f"server_sha256 {hospitals.result['server_sha256']}" in capfd.readouterr().out

        # A role sees no other hospital's schema, with one line.
        monkeypatch.setenv("PGPASSFILE", str(hospitals.passwords("va")))
        assert call(["data", hospitals.table("va", schema="hungarian")]) == 2
        told = capfd.readouterr().err
        assert "permission denied for schema hungarian" in told
        assert told.count("\n") == 1

        # The model is used on the database, and on a file that its rows were frozen in.
        site, frozen = hospitals.site("va") / "invitation", tmp_path / "va.csv"
        assert call(["data", hospitals.table("va"), "--export", str(frozen)]) == 0
        for number, data in enumerate((hospitals.table("va"), f"csv:{frozen}")):
            assert call(["predict", str(site), "--data", data, "-o", str(tmp_path / f"{number}.csv")]) == 0
        keyed, bare = ((tmp_path / f"{number}.csv").read_text().splitlines() for number in range(2))
        assert [line.partition(",")[2] for line in keyed] == bare
        assert [line.partition(",")[0] for line in keyed] == ["id", *map(str, range(len(bare) - 1))]

        found = files(tmp_path) | files(server.folder)
        assert any(
            b"sql:postgresql://va@" in content for content in found.values()
        )  # consent.json names the table
        assert [path for path, content in found.items() if any(secret in content for secret in hidden)] == []


def test_a_password_on_the_command_line_is_kept_nowhere(tmp_path, capfd):
    secret = secrets.token_hex(12)
    hospitals = Federation(tmp_path, rows=40)
    site = hospitals.site("va") / "invitation"
    for data in (
        f"sql:postgresql://{OWNER}:{secret}@127.0.0.1:1/postgres(query='select 1 as x')",
        f"sql:postgresql://{OWNER}@127.0.0.1:1/postgres(query='select 1 as x', password={secret})",
        f"sql:postgresql://{OWNER}:{secret}@127.0.0.1:1/postgres(query='select",
    ):
        capfd.readouterr()
        assert call(["federation", "join", str(site), "--data", data, "--yes"]) == 2
        assert secret not in "".join(capfd.readouterr())
        assert call(["run", "--dataset", data, "--runs", str(tmp_path / "runs")]) == 2
        assert secret not in "".join(capfd.readouterr())
    assert not [path for path, content in files(tmp_path).items() if secret.encode() in content]
