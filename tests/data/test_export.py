"""Every natural party's own table as a CSV file, and back."""

import csv

import numpy as np
import pytest

from unalike.cli.main import call
from unalike.data import DATASETS, load_dataset, loaded
from unalike.data.export import party_tables, safe_names
from unalike.data.table import read_table


@pytest.fixture
def export(tmp_path, monkeypatch, capsys):
    """The exit code of an export, and what it says."""
    monkeypatch.chdir(tmp_path)

    def answer(text):
        code = call(["data", text, "--export", "out"])
        return code, capsys.readouterr().err

    return answer


def test_a_table_is_cut_by_its_parties_and_keeps_its_texts(export, tmp_path):
    rows = [[f"{n},5", ("x;y", 'a "b"', "")[n % 3], f" w/{n % 2}", n % 5, "ab"[n % 2]] for n in range(30)]
    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=";").writerows([["a", "b", "ward", "c", "y"], *rows])
    text = "csv:t.csv(party=ward, delimiter=;, missing=indicate)"
    assert export(text)[0] == 0
    for number, name in enumerate(("w_0", "w_1")):
        found = read_table(str(tmp_path / "out" / f"{name}.csv"))
        assert [column.name for column in found] == ["a", "b", "c", "y"]
        own = [row for row in rows if row[2] == f" w/{number}"]
        assert [column.cells for column in found] == [[str(row[k]) for row in own] for k in (0, 1, 3, 4)]
    code, said = export(text)
    assert code == 2
    assert "exists, and nothing is overwritten" in said


@pytest.mark.parametrize("text", ["synthetic(parties=3)", "heart(missing=drop)"])
def test_numbers_come_back_as_they_were(export, tmp_path, text):
    """Back as the tables of sites: each row of each party, to the bit where nothing is standardised."""
    data = load_dataset(text)
    assert export(text)[0] == 0
    if text.startswith("heart"):  # its tables have texts and gaps
        back = load_dataset(f"sites:{tmp_path / 'out'}(label=outcome, missing=indicate)")
        assert set(data.group_names) <= set(back.group_names)
        assert len(back.y) + len(back.y_test) == 920
        return
    for number, name in enumerate(data.group_names):
        columns = read_table(str(tmp_path / "out" / f"{safe_names([name])[0]}.csv"))
        x = np.stack([column.numbers() for column in columns[:-1]], axis=1).astype(data.x.dtype)
        own = np.concatenate([data.x[data.group == number], data.x_test[data.group_test == number]])
        assert np.array_equal(x, own)
        answers = np.concatenate([data.y[data.group == number], data.y_test[data.group_test == number]])
        assert columns[-1].cells == [data.classes[k] for k in answers]


def test_the_tables_of_sites_are_their_own(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("x,y\n" + "".join(f"{n},{'pq'[n % 2]}\n" for n in range(20)))
    loader = DATASETS.build(f"sites:{tmp_path}(label=y)")
    tables = list(party_tables(loader, loaded(loader), "sites"))
    assert [table.name for table in tables] == ["a", "b"]
    assert list(tables[0].rows) == [(str(n), "pq"[n % 2]) for n in range(20)]


def test_without_natural_parties(export):
    code, said = export("digits")
    assert code == 2
    assert "digits has no natural parties" in said


def test_names_of_files():
    assert safe_names(["a b", "a/b", "../x", "é", "", "a_b"]) == ["a_b", "a_b_", "x", "é", "party", "a_b__"]
