"""Addresses of databases: what they name, and that a password is never a part of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.data import DATASETS
from unalike.data.sql.address import read_address, seconds
from unalike.errors import UserError, shown

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("text", "kind", "name", "options"),
    [
        ("sqlite:data/clinic.db", "sqlite", "clinic", {}),
        ("duckdb:clinic.duckdb", "duckdb", "clinic", {}),
        ("service:va", "postgresql", "va", {"service": "va"}),
        (
            "postgresql://va@db.example:5433/clinic",
            "postgresql",
            "clinic",
            {"user": "va", "host": "db.example", "port": "5433", "dbname": "clinic"},
        ),
        (
            "postgres:///clinic?host=/run/postgresql&sslmode=require",
            "postgresql",
            "clinic",
            {"dbname": "clinic", "host": "/run/postgresql", "sslmode": "require"},
        ),
    ],
)
def test_an_address_says_where_a_database_is(text, kind, name, options):
    found = read_address(text)
    assert (found.kind, found.name, dict(found.options)) == (kind, name, options)


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://va:{SECRET}@db.example/clinic",
        f"postgresql://va:{SECRET}/x@db.example/clinic",
        f"postgresql://va:12/{SECRET}@db.example/clinic",
        f"postgresql://va:1?{SECRET}@db.example/clinic",
        f"postgresql://va:1#{SECRET}@db.example/clinic",
        f"postgresql://va:a@{SECRET}@db.example/clinic",
        f"postgresql://va@db.example/clinic?password={SECRET}",
        f"postgresql://va@db.example/clinic?sslpassword={SECRET}",
        f"postgresql://va@db.example/clinic?oauth_client_secret={SECRET}",
        f"postgresql://va@db.example/clinic?sslmode=require;password={SECRET}",
        f"postgresql://va%3A{SECRET}@db.example/clinic",
        f"postgresql:host=db.example user=va password = {SECRET}",
        f"postgresql://db.example/user=va%20password%3D{SECRET}",
    ],
)
def test_a_password_in_an_address_is_refused_with_the_remedy_and_not_said_again(text):
    with pytest.raises(UserError) as error:
        DATASETS.build(f"sql({text!r}, query='select 1')")
    assert SECRET not in str(error.value)
    assert "not the address of a server" in str(error.value) or "~/.pgpass" in str(error.value)


def test_a_password_as_a_parameter_is_refused_with_the_remedy():
    with pytest.raises(UserError, match=r"~/\.pgpass") as error:
        DATASETS.build(f"sql:service:va(query='select 1', password={SECRET})")
    assert SECRET not in str(error.value)


@given(st.text(st.characters(codec="ascii", exclude_characters="\n"), max_size=20), st.sampled_from("()'\" ,=\\"))
def test_whatever_cannot_be_read_is_said_without_its_password(rest, sign):
    text = f"sql:postgresql://va:{SECRET}@db.example/clinic({rest}{sign}"
    with pytest.raises(UserError) as error:
        DATASETS.build(text)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://va:{SECRET}@host/db",
        f"a?password={SECRET}&b",
        f"password='{SECRET}'",
        f"PASSWORD = {SECRET} x",
    ],
)
def test_a_message_shows_no_password(text):
    assert SECRET not in shown(text)
    assert shown(text) != shown("")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("clinic.db", "needs the address"),
        ("sqlite:", "needs the address"),
        ("mysql://va@host/clinic", "Unknown kind of database 'mysql'"),
        ("postgresql://va@host:port/clinic", "not the address of a server"),
        ("postgresql://va@host/clinic?options=-crole", "Unknown option"),
        ("service:a b", "letters, digits"),
    ],
)
def test_what_is_no_address_is_one_line(text, why):
    with pytest.raises(UserError, match=why) as error:
        read_address(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf", "nan"])
def test_a_time_limit_is_a_number_of_seconds(text, monkeypatch):
    monkeypatch.setenv("UNALIKE_SQL_SECONDS", text)
    with pytest.raises(UserError, match="number of seconds"):
        seconds()
