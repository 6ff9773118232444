"""Tables of a real PostgreSQL server: every type, one moment, and nothing that a query could do but select."""

from contextlib import suppress

import pytest

from tests.databases import OWNER, SECRET, postgres
from unalike.data import DATASETS, load_dataset
from unalike.data.columns import KEY
from unalike.data.table import read_table
from unalike.errors import UserError

pytestmark = pytest.mark.federation
SERIES = "from generate_series(1, {}) n"
MORE = "insert into patients values (999, 1, true)"
TYPES = (
    "create type mood as enum ('well', 'ill')",
    "create domain dose as numeric(6, 2)",
    """create table types (
        id int primary key, whole bigint, exact numeric, cents dose, approximate float8, single real,
        truth boolean, born date, local timestamp, zoned timestamptz, words text, few varchar(9), filled char(3),
        felt mood, bytes bytea, list int[], document jsonb, number uuid, clock time, price money)""",
    """insert into types values (2, 9007199254740993, 1.50, 2.5, 0.1, 0.1, true, '1970-01-02', '2024-12-31 10:00',
        '2024-12-31 10:00:00.25+02', 'x', 'y', 'z', 'ill', 'a', '{1}', '{}', gen_random_uuid(), '10:00', 3)""",
    """insert into types (id, exact, approximate, truth, words) values
        (10, 123456789012345678901234567890.10, 'NaN', false, 'NULL')""",
)


@pytest.fixture(scope="module")
def server():
    with postgres() as running:
        running.run(*TYPES)
        running.run(
            "create role reader login password 'readers-secret'",
            f"create table patients as select n as id, n % 41 as age, n % 3 = 0 as outcome {SERIES.format(300)}",
            f"create function grow() returns int language sql as '{MORE}; select 1'",
            "grant select on types, patients to reader",
            "grant insert on patients to reader",
        )
        yield running


@pytest.fixture(autouse=True)
def _password(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "readers-secret")


def text(server, query, role="reader", **more):
    options = ", ".join(f"{name}={value}" for name, value in {"query": repr(query), **more}.items())
    return f"sql:{server.url(role)}({options})"


def test_every_type_is_written_in_one_way(server):
    table = read_table(text(server, "select * from types", key="id"))
    assert {column.name: list(column.cells) for column in table if column.unusable in ("", KEY)} == {
        "id": ["2", "10"],
        "whole": ["9007199254740993", ""],
        "exact": ["1.5", "123456789012345678901234567890.1"],
        "cents": ["2.5", ""],
        "approximate": ["0.1", "NaN"],
        "single": ["0.1", ""],
        "truth": ["true", "false"],
        "born": ["1970-01-02", ""],
        "local": ["2024-12-31 10:00:00", ""],
        "zoned": ["2024-12-31 08:00:00.25+00:00", ""],
        "words": ["x", "NULL"],
        "few": ["y", ""],
        "filled": ["z  ", ""],
        "felt": ["ill", ""],
    }
    refused = {column.name: column.unusable for column in table if column.unusable not in ("", KEY)}
    assert refused == {
        "bytes": "bytea",
        "list": "int4[]",
        "document": "jsonb",
        "number": "uuid",
        "clock": "time",
        "price": "money",
    }
    with pytest.raises(UserError, match="column bytes: bytea cannot be used"):
        load_dataset(text(server, "select id, bytes, truth from types"))


def test_dates_are_days_whatever_zone_the_server_has(server, monkeypatch):
    moment = "'2024-12-31 23:30:00-05'::timestamptz + n * interval '1 day'"
    query = f"select {moment} as t, n % 2 as y {SERIES.format(30)}"
    found = []
    for zone in ("UTC", "Asia/Tokyo"):
        monkeypatch.setenv("PGTZ", zone)
        monkeypatch.setenv("PGDATESTYLE", "German")
        found.append(read_table(text(server, f"{query} -- {zone}"))[0])
    assert found[0].kind == "date"
    assert found[0].cells[0] == "2025-01-02 04:30:00+00:00"
    assert found[0].cells == found[1].cells


def test_infinite_dates_are_told_by_row(server):
    day = "case when n = 7 then 'infinity' else '2024-01-01'::date + n end"
    query = f"select {day} as d, n % 2 as y {SERIES.format(60)}"
    with pytest.raises(UserError, match="column d: 'infinity' in row 60 is not a date"):
        load_dataset(text(server, query, label="y"))


INJECTED = [
    MORE,
    f"with d as ({MORE} returning *) select * from d",
    "with d as (delete from patients returning *) select * from d",
    "create temp table z as select 1 as x",
    "select 1 as x into z",
    f"commit; {MORE}",
    f"select 1 as x; {MORE}",
    "select 1 as x; commit",
    "copy patients to program 'touch /tmp/injected'",
    "copy (select 1) to '/tmp/injected'",
    "set transaction read write",
    "select set_config('transaction_read_only', 'off', true)",
    "select grow() as x, set_config('transaction_read_only', 'off', true) as y",
    "select grow() as x",
    "select * from patients for update",
    f"do $$ begin {MORE}; end $$",
    "begin",
    "",
]


@pytest.mark.parametrize("role", ["reader", OWNER])
def test_a_query_may_only_select(server, role, monkeypatch):
    """Also of a role that could do anything."""
    if role == OWNER:
        monkeypatch.setenv("PGPASSWORD", SECRET)
    for query in INJECTED:
        with pytest.raises(UserError) as error:
            read_table(text(server, query, role))
        assert "\n" not in str(error.value), query
    assert server.run("select count(*) from patients") == [(300,)]
    assert server.run("select count(*) from pg_class where relname = 'z'") == [(0,)]


def test_what_a_function_does_in_the_database_is_undone(server, monkeypatch):
    """Version 15 lets a read-only transaction make a large object."""
    monkeypatch.setenv("PGPASSWORD", SECRET)
    before = server.run("select count(*) from pg_largeobject_metadata")
    with suppress(UserError):  # newer servers refuse it
        read_table(text(server, "select lo_create(0)::int as x", OWNER))
    assert server.run("select count(*) from pg_largeobject_metadata") == before


def test_all_rows_are_of_one_moment(server, monkeypatch):
    """The second piece is fetched after another session has changed the table."""
    from unalike.data.sql import postgres as driver

    monkeypatch.setattr(driver, "PIECE", 100)
    seen = []

    def changed(connection, cursor, known=driver._headings):
        seen.append(server.run("update patients set age = 1000 where id = 300", "select 1"))
        return known(connection, cursor)

    monkeypatch.setattr(driver, "_headings", changed)
    table = read_table(text(server, "select * from patients", key="id"))
    server.run("update patients set age = 300 % 41 where id = 300")
    assert seen
    assert (len(table[1].cells), table[1].cells[-1]) == (300, str(300 % 41))


@pytest.mark.parametrize(
    ("query", "password", "why"),
    [
        ("select * from nowhere", "readers-secret", 'relation "nowhere" does not exist'),
        ("select * from pg_authid", "readers-secret", "permission denied"),
        ("select 1", "readers-secret", "without a name"),
        ("select 1 as x, 2 as x", "readers-secret", "2 columns 'x'"),
        ("select 1 as x where false", "readers-secret", "no rows"),
        ("select 1 as x", "another-secret", r"password authentication failed.*\.pgpass"),
        ("select 1 as x", None, r"password.*\.pgpass"),
    ],
)
def test_what_the_server_refuses_is_one_line_without_the_password(server, query, password, why, monkeypatch):
    if password is None:
        monkeypatch.delenv("PGPASSWORD")
        monkeypatch.setenv("PGPASSFILE", "/nowhere")
    else:
        monkeypatch.setenv("PGPASSWORD", password)
    with pytest.raises(UserError, match=why) as error:
        read_table(text(server, query))
    assert "\n" not in str(error.value)
    assert "-secret" not in str(error.value)


def test_a_server_that_is_not_there(server):
    with pytest.raises(UserError, match=r"127\.0\.0\.1.*server running"):
        read_table("sql:postgresql://reader@127.0.0.1:1/postgres(query='select 1 as x')")


def test_a_query_that_takes_too_long_is_ended(server, monkeypatch):
    monkeypatch.setenv("UNALIKE_SQL_SECONDS", "0.2")
    with pytest.raises(UserError, match=r"took over 0\.2 s"):
        read_table(text(server, "select pg_sleep(20)::text as x"))


def test_a_service_names_server_user_and_password(server, tmp_path, monkeypatch):
    monkeypatch.delenv("PGPASSWORD")
    service = (
        f"[clinic]\nhost=127.0.0.1\nport={server.port}\nuser=reader\ndbname=postgres\npassword=readers-secret\n"
    )
    (tmp_path / "services.conf").write_text(service)
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services.conf"))
    loader = DATASETS.build("sql:service:clinic(query='select * from patients', key=id)")
    assert loader.load().features == ("age",)
    assert "readers-secret" not in DATASETS.describe(loader) + repr(loader)
    with pytest.raises(UserError, match='service "nothing" not found'):
        read_table("sql:service:nothing(query='select 1 as x')")
