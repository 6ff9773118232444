"""Tables of several sites in a folder: natural parties, coded as real sites agree."""

import csv
import json

import numpy as np
import pytest

from unalike.cli.main import call
from unalike.data import DATASETS
from unalike.data.folder import NotFound
from unalike.data.sites import Sites, read_schema
from unalike.data.table import read_table
from unalike.errors import UserError


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(3)
    for n, name in enumerate(("amiens", "basel", "chur")):
        rows = [
            (rng.normal(n), rng.choice(["u", "v", name]), "ill" if rng.random() < 0.5 else "well")
            for _ in range(30 + 10 * n)
        ]
        write(tmp_path / f"{name}.csv", [("x", "c", "y"), *rows])
    return tmp_path


def test_each_file_is_a_party_and_nothing_is_lost(folder):
    data = Sites(str(folder), "y").load()
    assert data.group_names == ("amiens", "basel", "chur")
    assert len(data.y) + len(data.y_test) == 30 + 40 + 50
    assert data.features == ("x", "c_amiens", "c_basel", "c_chur", "c_u", "c_v")
    for n, size in enumerate((30, 40, 50)):
        assert (data.group == n).sum() + (data.group_test == n).sum() == size
        others = [i for i in range(3) if i != n]
        assert not data.x[data.group == n][:, 1:4][:, others].any()  # its own name is in its own rows alone


def test_a_schema_that_was_agreed_before(folder):
    data = DATASETS.build(f"sites:{folder}(label=y)")
    schema = data._schema({name: read_table(str(path)) for name, path in data.tables().items()})
    path = folder / "schema.json"
    path.write_text(json.dumps(schema.to_dict()))
    again = Sites(str(folder), "y", schema=str(path))
    assert np.array_equal(again.load().x, data.load().x)
    assert again.fingerprint() != data.fingerprint()
    (folder / "chur.csv").unlink()
    assert "c_chur" in again.load().features
    assert "c_chur" not in data.load().features


def test_a_changed_table_changes_the_fingerprint(folder):
    before = Sites(str(folder), "y").fingerprint()
    with (folder / "chur.csv").open("a") as file:
        file.write("1,u,ill\n")
    assert Sites(str(folder), "y").fingerprint() != before
    assert Sites().fingerprint() == ""


def test_mistakes_are_one_line_each(folder, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(NotFound, match="There are no tables in"):
        Sites(str(empty), "y").load()
    with pytest.raises(UserError, match=r"amiens: .*outcome"):
        Sites(str(folder), "outcome").load()
    write(folder / "dole.csv", [("x", "c", "y"), ("1", "u", "ill"), ("2", "", "well")])
    with pytest.raises(UserError, match="dole: column c: the value in line 3 is missing"):
        Sites(str(folder), "y").load()
    write(folder / "dole.csv", [("x", "c", "y"), ("1", "u", "ill"), ("2", "v", "well")])
    with pytest.raises(UserError, match="dole has too few rows for a test set: 2"):
        Sites(str(folder), "y").load()
    write(folder / "dole.parquet", [("x",)])
    with pytest.raises(UserError, match="have the same name"):
        Sites(str(folder), "y").load()


@pytest.mark.parametrize("content", ["", "[]", "{}", "5", '{"label": 1}', "[" * 100_000, "\udcff"])
def test_a_damaged_schema_is_one_line(content, tmp_path):
    path = tmp_path / "schema.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match="Cannot read the schema"):
        read_schema(path)


def test_parquet(folder):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    before = Sites(str(folder), "y").load()
    rows = list(csv.DictReader((folder / "basel.csv").open()))
    made = {
        "x": [float(row["x"]) for row in rows],
        "c": [row["c"] for row in rows],
        "y": [row["y"] for row in rows],
    }
    parquet.write_table(pyarrow.table(made), folder / "basel.parquet")
    (folder / "basel.csv").unlink()
    assert np.array_equal(Sites(str(folder), "y").load().x, before.x)


def test_from_the_command_line(folder, monkeypatch):
    monkeypatch.chdir(folder)
    arguments = ["run", "--dataset", f"sites:{folder}(label=y)", "--partition", "natural", "--rounds", "1"]
    assert call([*arguments, "--epochs", "1", "--runs", str(folder / "runs")]) == 0
    result = json.loads(next((folder / "runs").rglob("result.json")).read_text())
    assert result["rounds"] == 1
