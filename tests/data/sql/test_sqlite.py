"""Tables in SQLite files: the type of every value, an order of their own, and nothing but reading."""

import random
import sqlite3

import numpy as np
import pytest

from tests.databases import make_sqlite
from unalike.data import DATASETS, load_dataset
from unalike.data.table import read_table
from unalike.errors import UserError

ROWS = [
    (number, 40 + number % 30, number / 8, ("a", "b", "c")[number % 3], "yes" if number % 7 < 3 else "no")
    for number in range(120)
]
TABLE = "create table patients (id integer primary key, age, dose real, kind text, outcome text)"


def fill(path, rows=ROWS):
    address = make_sqlite(path, TABLE)
    with sqlite3.connect(path) as connection:
        connection.executemany("insert into patients values (?, ?, ?, ?, ?)", rows)
    connection.close()
    return address


def text(address, query="select * from patients", **more):
    options = ", ".join(f"{name}={value}" for name, value in {"query": repr(query), **more}.items())
    return f"sql:{address}({options})"


def cells(table):
    return {column.name: list(column.cells) for column in table}


def test_values_become_texts_by_their_own_types(tmp_path):
    address = make_sqlite(
        tmp_path / "a.db",
        "create table t (n, x)",
        "insert into t values (1, 'one'), (2.5, null), ('three', 4), (null, 1e300), (9007199254740993, '')",
    )
    found = cells(read_table(text(address, "select * from t")))
    assert sorted(zip(found["n"], found["x"], strict=True)) == [
        ("", "1e+300"),
        ("1", "one"),
        ("2.5", ""),
        ("9007199254740993", ""),
        ("three", "4"),
    ]


def test_bytes_are_refused_by_name_until_they_are_ignored(tmp_path):
    address = make_sqlite(
        tmp_path / "a.db",
        "create table t (id, photo, y)",
        *(f"insert into t values ({n}, {'null' if n % 2 else chr(39) + chr(39)}, {n % 2})" for n in range(30)),
        "insert into t values (30, x'ff', 1)",
    )
    with pytest.raises(UserError, match="column photo: BLOB cannot be used"):
        load_dataset(text(address, "select * from t", label="y"))
    assert load_dataset(text(address, "select * from t", label="y", ignore="photo")).features == ("id",)


@pytest.mark.parametrize("key", ["()", "id"])
def test_the_order_of_the_rows_is_not_the_databases(tmp_path, key):
    shuffled = random.Random(3).sample(ROWS, len(ROWS))
    first = text(fill(tmp_path / "first.db"), "select * from patients", key=key, label="outcome")
    second = text(
        fill(tmp_path / "second.db", shuffled),
        "select * from patients order by dose desc",
        key=key,
        label="outcome",
    )
    one, two = load_dataset(first), load_dataset(second)
    assert one.digest == two.digest
    assert DATASETS.build(first).fingerprint() == DATASETS.build(second).fingerprint()
    changed = text(fill(tmp_path / "third.db", [*ROWS[:-1], (*ROWS[-1][:-1], "maybe")]), key=key, label="outcome")
    assert DATASETS.build(changed).fingerprint() != DATASETS.build(first).fingerprint()


def test_a_key_sorts_by_size_and_is_not_learnt_from(tmp_path):
    address = fill(tmp_path / "a.db")
    found = cells(read_table(text(address, "select age, id, outcome from patients order by random()", key="id")))
    assert found["id"] == [str(number) for number in range(120)]
    assert (
        load_dataset(text(address, key="id", label="outcome")).features
        == load_dataset(text(address, "select age, dose, kind, outcome from patients", label="outcome")).features
    )
    shown = {one.column: one.type for one in DATASETS.build(text(address, key="id")).columns()}
    assert shown["id"] == "identifier"


def test_a_key_of_texts_and_of_several_columns(tmp_path):
    address = make_sqlite(
        tmp_path / "a.db",
        "create table t (a, b, c)",
        "insert into t values ('b', 10, 1), ('b', 9, 2), ('B', 1, 3)",
    )
    found = cells(read_table(text(address, "select * from t", key="[a, b]")))
    assert found["c"] == ["3", "2", "1"]


INJECTED = [
    "insert into patients values (999, 1, 1, 'a', 'no')",
    "with d as (select 1) delete from patients",
    "delete from patients returning *",
    "create temp table z as select 1",
    "drop table patients",
    "attach 'other.db' as other",
    "select 1; insert into patients values (999, 1, 1, 'a', 'no')",
    "commit; insert into patients values (999, 1, 1, 'a', 'no')",
    "pragma writable_schema = on",
    "pragma journal_mode = wal",
    "select * from pragma_table_info('patients')",
    "select load_extension('other.so')",
    "vacuum into 'copy.db'",
    "begin immediate",
    "",
    "   ",
    "-- nothing",
]


@pytest.mark.parametrize("query", INJECTED)
def test_a_query_may_only_select(tmp_path, query, monkeypatch):
    monkeypatch.chdir(tmp_path)
    address = fill(tmp_path / "a.db")
    make_sqlite(tmp_path / "other.db", "create table secrets (x)")
    before = (tmp_path / "a.db").read_bytes()
    with pytest.raises(UserError) as error:
        read_table(text(address, query))
    assert "\n" not in str(error.value)
    assert (tmp_path / "a.db").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "other.db"]


def test_the_path_of_a_file_cannot_change_how_it_is_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fill(tmp_path / "a.db")
    for path in ("a.db?mode=rwc", "new.db", "file:a.db", ":memory:"):
        with pytest.raises(UserError, match="There is no file"):
            read_table(text(f"sqlite:{path}"))
    with pytest.raises(UserError, match="is a folder"):
        read_table(text(f"sqlite:{tmp_path}"))
    odd = tmp_path / "100% of #1?.db"
    (tmp_path / "a.db").rename(odd)
    assert len(read_table(f"sql({f'sqlite:{odd}'!r}, query='select * from patients')")) == 5


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("select * from nowhere", "no such table: nowhere"),
        ("select * from patients where id < 0", "no rows"),
        ("select id, id from patients", "2 columns 'id'"),
        ("select * from patients where age = 'old", "unrecognized token"),
    ],
)
def test_a_mistake_in_a_query_is_one_line(tmp_path, query, why):
    with pytest.raises(UserError, match=why) as error:
        read_table(text(fill(tmp_path / "a.db"), query))
    assert "\n" not in str(error.value)


def test_mistakes_in_the_other_parameters(tmp_path):
    address = fill(tmp_path / "a.db")
    for options, why in (
        ({"key": "nothing"}, "Unknown key column 'nothing'"),
        ({"label": "outcom"}, "Did you mean 'outcome'"),
        ({"test": "0.9"}, "sql's test must be"),
        ({"quary": "1"}, "Did you mean 'query'"),
    ):
        with pytest.raises(UserError, match=why):
            load_dataset(text(address, **options))
    (tmp_path / "torn.db").write_bytes(b"no database, but long enough to be looked at" * 30)
    with pytest.raises(UserError, match="not a database"):
        read_table(text(f"sqlite:{tmp_path / 'torn.db'}"))


def test_a_query_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    monkeypatch.setenv("UNALIKE_SQL_SECONDS", "0.1")
    endless = "with recursive c(n) as (select 1 union all select n + 1 from c) select count(*) as n from c"
    with pytest.raises(UserError, match=r"took over 0\.1 s. Set UNALIKE_SQL_SECONDS"):
        read_table(text(fill(tmp_path / "a.db"), endless))


def test_rows_that_need_too_much_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("UNALIKE_TABLE_GB", "0.001")
    many = (
        "with recursive c(n) as (select 1 union all select n + 1 from c limit 60000) select n, n % 2 as y from c"
    )
    with pytest.raises(UserError, match="UNALIKE_TABLE_GB"):
        read_table(text(fill(tmp_path / "a.db"), many))


def test_a_query_may_be_in_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    address = fill(tmp_path / "a.db")
    (tmp_path / "patients.sql").write_text("select age, outcome -- all of them\nfrom patients;\n")
    bare = f"sql:{address}(query=patients.sql, label=outcome)"
    assert load_dataset(bare).features == ("age",)
    assert np.array_equal(load_dataset(bare).x, load_dataset(text(address, "select age, outcome from patients")).x)
    with pytest.raises(UserError, match=r"Cannot read the query nothing\.sql"):
        load_dataset(f"sql:{address}(query=nothing.sql)")


def test_a_database_is_asked_once_in_a_process(tmp_path):
    address = fill(tmp_path / "a.db")
    loader = DATASETS.build(text(address, label="outcome"))
    before = loader.fingerprint()
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("delete from patients where id < 50")
    connection.close()
    assert loader.load().size + len(loader.load().y_test) == 120  # the rows of the fingerprint, not newer ones
    assert loader.fingerprint() == before


def test_what_values_cannot_show_is_said(tmp_path):
    address = fill(tmp_path / "a.db")
    query = "select id, age, id % 3 as code, outcome from patients"
    plain = load_dataset(text(address, query, key="id", label="outcome"))
    said = load_dataset(text(address, query, key="id", label="outcome", categories="code"))
    assert plain.features == ("age", "code")
    assert said.features == ("age", "code_0", "code_1", "code_2")
    typed = load_dataset(text(address, query, key="id", label="outcome", types="'code:category age:identifier'"))
    assert typed.features == ("code_0", "code_1", "code_2")
    with pytest.raises(UserError, match="Unknown kind of column"):
        DATASETS.build(text(address, types="'age:nothing'"))


@pytest.mark.parametrize("call", ["load_extension('other.so')", "fts3_tokenizer('simple')"])
def test_functions_that_do_more_than_compute_are_not_authorised(tmp_path, call):
    """However this SQLite was built, and whatever it would say of them itself."""
    with pytest.raises(UserError, match="not authorized to use function"):
        read_table(text(fill(tmp_path / "a.db"), f"select {call} as x"))
