"""Tables in DuckDB files: all digits of every type, and neither other files nor downloads nor settings."""

import pytest

from tests.databases import make_duckdb
from unalike.data import DATASETS
from unalike.data.table import read_table
from unalike.errors import UserError

pytest.importorskip("duckdb")
TYPES = """
    create table t as select * from (values
        (1::int, 1.50::decimal(6, 2), 0.1::double, true, date '2024-12-31', timestamp '2024-12-31 10:00:00.5',
         timestamptz '2024-12-31 10:00:00+02', 'x', 170141183460469231731687303715884105727::hugeint),
        (2, 10, 'nan', false, null, null, null, null, null)
    ) as v (i, d, f, b, day, local, zoned, s, huge)
"""


def text(address, query="select * from t", **more):
    options = ", ".join(f"{name}={value}" for name, value in {"query": repr(query), **more}.items())
    return f"sql:{address}({options})"


def test_every_type_is_written_in_one_way(tmp_path):
    address = make_duckdb(tmp_path / "a.duckdb", TYPES)
    found = {column.name: list(column.cells) for column in read_table(text(address))}
    assert found == {
        "i": ["1", "2"],
        "d": ["1.5", "10"],
        "f": ["0.1", "nan"],
        "b": ["true", "false"],
        "day": ["2024-12-31", ""],
        "local": ["2024-12-31 10:00:00.5", ""],
        "zoned": ["2024-12-31 08:00:00+00:00", ""],
        "s": ["x", ""],
        "huge": ["170141183460469231731687303715884105727", ""],
    }
    kinds = {one.column: one.type for one in DATASETS.build(text(address)).columns()}
    assert kinds["b"] == "binary"


@pytest.mark.parametrize("kind", ["blob", "uuid", "integer[]", "json", "time", "struct(a int)"])
def test_types_that_are_no_values_are_refused_by_name(tmp_path, kind):
    address = make_duckdb(
        tmp_path / "a.duckdb", f"create table t (odd {kind}, n int, y int)", "insert into t values (null, 1, 2)"
    )
    odd = read_table(text(address))[0]
    assert kind.split("(")[0].upper() in odd.unusable.upper()


INJECTED = [
    "insert into t select * from t",
    "with d as (delete from t returning *) select * from d",
    "create temp table z as select 1",
    "attach 'other.duckdb'",
    "copy t to 'copy.csv'",
    "export database 'copy'",
    "select * from 'other.csv'",
    "select * from read_csv('other.csv')",
    "select * from read_text('/etc/hostname')",
    "select * from glob('*')",
    "install httpfs",
    "load httpfs",
    "pragma version",
    "call pragma_version()",
    "set lock_configuration = false",
    "set enable_external_access = true; select * from 'other.csv'",
    "select 1 as x; drop table t",
    "commit; insert into t select * from t",
    "select * from t) ; drop table t; select * from (select 1",
    "select * from query('copy t to ''copy.csv''')",
    "select * from secrets",
    "",
]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """A folder with a database, and others beside it that its queries must not see."""
    folder = tmp_path_factory.mktemp("clinic")
    make_duckdb(folder / "a.duckdb", TYPES)
    make_duckdb(folder / "other.duckdb", "create table secrets (x int)")
    (folder / "other.csv").write_text("a,b\n1,2\n")
    return folder


@pytest.mark.parametrize("query", INJECTED)
def test_a_query_may_only_select(clinic, query, monkeypatch):
    monkeypatch.chdir(clinic)
    files = sorted(clinic.iterdir())
    before = (clinic / "a.duckdb").read_bytes()
    with pytest.raises(UserError) as error:
        read_table(text("duckdb:a.duckdb", query))
    assert "\n" not in str(error.value)
    assert (clinic / "a.duckdb").read_bytes() == before
    assert sorted(clinic.iterdir()) == files


def test_what_cannot_be_opened_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torn.duckdb").write_bytes(b"no database" * 500)
    for address, why in (
        ("duckdb:torn.duckdb", "torn.duckdb"),
        ("duckdb::memory:", "no file"),
        ("duckdb:md:x", "no file"),
    ):
        with pytest.raises(UserError, match=why) as error:
            read_table(text(address))
        assert "\n" not in str(error.value)


def test_a_query_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    address = make_duckdb(tmp_path / "a.duckdb", TYPES)
    monkeypatch.setenv("UNALIKE_SQL_SECONDS", "0.1")
    endless = "select count(*) as n from range(10000000) a, range(10000000) b where a.range * b.range = 7"
    with pytest.raises(UserError, match="UNALIKE_SQL_SECONDS"):
        read_table(text(address, endless))
