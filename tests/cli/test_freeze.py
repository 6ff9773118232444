"""A table that is frozen in a file: the same rows, read in the same way, and nothing is overwritten."""

from pathlib import Path

import pytest

from tests.databases import make_sqlite
from unalike.data import load_dataset

KINDS = ("a", 'b, "c"', "  d")
ROWS = ", ".join(
    f"({n}, {n % 40}, '{KINDS[n % 3]}', {n % 7 / 4}, {n if n % 9 else 'null'}, x'00', {n % 2})" for n in range(90)
)


@pytest.fixture
def table(tmp_path):
    address = make_sqlite(
        tmp_path / "clinic.db",
        "create table t (id, age, kind, dose, gaps, photo, outcome)",
        f"insert into t values {ROWS}",
    )
    options = "key=id, label=outcome, missing=indicate, ignore=[photo, age], test=0.3"
    return f"sql:{address}(query='select * from t order by random()', {options})"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_frozen_table_has_the_same_rows(unalike, table, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    answer = unalike("data", table, "--export", f"rows.{ending}")
    assert answer.code == 0, answer.err
    assert f"rows.{ending}: 90 rows, 5 columns" in answer.out
    told = answer.out.split("In place of the table:")[1].strip()
    assert told.startswith(f"{ending}:rows.{ending}(")
    assert "photo" not in told
    frozen = load_dataset(told)
    assert frozen.digest == load_dataset(table).digest
    assert frozen.features == load_dataset(table).features


@pytest.mark.parametrize(
    ("data", "path", "why"),
    [
        ("TABLE", "there.csv", "nothing is overwritten"),
        ("TABLE", "nowhere/rows.csv", "there is no folder nowhere"),
        ("digits", "rows.csv", "digits is not one table"),
    ],
)
def test_what_cannot_be_frozen_is_one_line(unalike, table, data, path, why):
    Path("there.csv").write_text("mine")
    answer = unalike("data", table if data == "TABLE" else data, "--export", path)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert why in answer.err
    assert Path("there.csv").read_text() == "mine"


def test_the_tables_of_natural_parties_have_no_key(unalike, table):
    answer = unalike("data", table.replace("test=0.3", "party=kind"), "--export", "parties")
    assert answer.code == 0, answer.err
    heads = {path.read_text().splitlines()[0] for path in Path("parties").iterdir()}
    assert heads == {"age,dose,gaps,outcome"}
