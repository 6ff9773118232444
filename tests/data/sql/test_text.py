"""The text of a database's table: the same in flags, TOML files, records and lists; and who may not use one."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.databases import make_sqlite
from unalike.data import DATASETS
from unalike.data.sql import SQL
from unalike.errors import UserError
from unalike.runs.spec import RunSpec
from unalike.studies.plan import make

QUERIES = st.text("aZ09 _'\"\\\n\t,;:=()[]{}#%-*/äß€", min_size=1, max_size=30)


@settings(max_examples=200)
@given(QUERIES, st.lists(st.text("ab 'é,", min_size=1, max_size=4), max_size=3))
def test_the_canonical_text_means_the_same(query, key):
    table = SQL("postgresql://va@db.example:5432/clinic", query, key=tuple(key))
    assert DATASETS.build(DATASETS.describe(table)) == table
    assert DATASETS.build(DATASETS.told(table)) == table


@pytest.mark.parametrize(
    "query",
    [
        "select a, b as outcome from t where a > 1 and (b in ('x', 'y') or b is null)",
        'select "a", "b" as outcome\nfrom t -- "it\'s" # all\n;',
    ],
)
def test_a_query_survives_a_record(query, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = ", ".join(f"({n}, '{'xy'[n % 2]}')" for n in range(40))
    make_sqlite("clinic.db", "create table t (a, b)", f"insert into t values {values}")
    spec = RunSpec.from_mapping({"dataset": {"name": "sql", "url": "sqlite:clinic.db", "query": query}})
    (tmp_path / "spec.toml").write_text(spec.to_toml())
    assert RunSpec.from_toml(tmp_path / "spec.toml") == spec
    assert spec.same_run(spec.to_toml())
    assert RunSpec(dataset=spec.dataset).key == spec.key
    assert DATASETS.build(spec.dataset).query == query


def test_a_study_asks_for_rows_that_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_sqlite("clinic.db", "create table t (a, b)", "insert into t values (1, 2)")
    with pytest.raises(UserError, match="Freeze them") as error:
        make({"dataset": "sql:sqlite:clinic.db(query='select * from t', label=b)"})
    command = "unalike data \"sql(url='sqlite:clinic.db', query='select * from t', label='b')\" --export"
    assert command in str(error.value)


@pytest.mark.parametrize("text", ["query=select.sql", "query='select.sql'", 'query="select.sql"'])
def test_two_words_with_a_dot_need_no_quotes(text):
    assert DATASETS.build(f"sql:sqlite:clinic.db({text})").query == "select.sql"


@pytest.mark.parametrize("text", ["query=a.b.c()", "query=f().sql", "query='a'.sql"])
def test_other_things_with_a_dot_are_no_words(text):
    with pytest.raises(UserError, match="Cannot read"):
        DATASETS.build(f"sql:sqlite:clinic.db({text})")


@pytest.mark.parametrize(
    ("address", "package", "extra"),
    [("duckdb:clinic.duckdb", "duckdb", "duckdb"), ("service:clinic", "psycopg", "postgres")],
)
def test_what_is_not_installed_is_named(address, package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"needs? {package}\. Install it: pip install 'unalike\[{extra}\]'"):
        DATASETS.build(f"sql:{address}(query='select 1 as x')").table()
