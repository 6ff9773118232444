"""``unalike predict``: a table in, a line for every row out; every mistake is one line."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.databases import make_sqlite
from tests.federation.inside import World
from tests.federation.test_using import lines, trained, with_invitations, write
from unalike.cli.main import call
from unalike.cli.plugin import load_plugin
from unalike.data.table import read_table
from unalike.federation.using import site_predictor


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("world"), model="mlp(6)")


@pytest.fixture
def site(world):
    return str(world.path / "sites" / "va")


@pytest.fixture
def own(world):
    """The site's own table, beside which nothing is written."""
    return f"csv:{world.path / 'tables' / 'va.csv'}"


def refused(answer, *texts):
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("Error: ")
    assert len(answer.err.splitlines()) == 1
    for text in texts:
        assert text in answer.err


def test_a_line_for_every_row_in_order(unalike, world, site, own):
    answer = unalike("predict", site, "--data", own, "-o", "predictions.csv")
    assert answer.code == 0, answer.err
    with Path("predictions.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head == ["predicted", "disease", "healthy"]
    expected = site_predictor(Path(site)).predict(read_table(own))
    assert len(rows) == len(lines(world, "va")[1])
    assert [row[0] for row in rows] == [expected.classes[k] for k in expected.answers]
    numbers = np.array([[float(cell) for cell in row[1:]] for row in rows])
    assert np.array_equal(numbers, expected.probabilities)
    assert np.allclose(numbers.sum(axis=1), 1)
    assert [path.name for path in Path().iterdir()] == ["predictions.csv"]


def test_scores_are_shown_where_there_are_labels(unalike, world, site, own):
    answer = unalike("predict", site, "--data", own, "-o", "a.csv")
    accuracy = site_predictor(Path(site)).predict(read_table(own)).figures["accuracy"]
    assert f"{100 * accuracy:.1f}%" in next(
        line for line in answer.out.splitlines() if line.startswith("accuracy")
    )
    head, rows = lines(world, "va")
    bare = write(Path("bare.csv"), head[:-1], [row[:-1] for row in rows])
    without = unalike("predict", site, "--data", bare, "-o", "b.csv")
    assert "accuracy" not in without.out
    assert Path("a.csv").read_text() == Path("b.csv").read_text()


@pytest.mark.parametrize("where", [[], ["-o", "-"]])
def test_predictions_on_the_screen_and_scores_beside_them(unalike, site, own, where):
    answer = unalike("predict", site, "--data", own, *where)
    unalike("predict", site, "--data", own, "-o", "a.csv")
    assert answer.out == Path("a.csv").read_text()
    assert "accuracy" in answer.err


def test_json(unalike, site, own):
    found = unalike("predict", site, "--data", own, "--json").json
    assert found["rows"] == len(found["predictions"]) == sum(found["predicted"].values())
    first = found["predictions"][0]
    assert max(first["probabilities"], key=first["probabilities"].get) == first["predicted"]
    assert found["figures"]["score"] == "accuracy"
    assert found["output"] is None
    kept = unalike("predict", site, "--data", own, "--json", "-o", "a.csv").json
    assert kept["output"] == "a.csv"
    assert "predictions" not in kept
    assert kept["figures"] == found["figures"]


def test_nothing_is_overwritten(unalike, site, own):
    Path("a.csv").write_text("mine")
    refused(unalike("predict", site, "--data", own, "-o", "a.csv"), "a.csv exists, and nothing is overwritten")
    assert Path("a.csv").read_text() == "mine"


def narrow(path, count, missing):
    """A federation after its training, whose tables have the first columns of the patients', and the label."""
    made = World.make(path, train={"rounds": 1})
    for table in (path / "tables").iterdir():
        head, rows = lines(made, table.stem)
        write(table, [*head[:count], "outcome"], [[*row[:count], row[-1]] for row in rows])
    made.plan = replace(made.plan, missing=missing)
    made.plan.write(made.path / "server")
    for node, name in enumerate(made.plan.parties, 11):
        made.start(node, name)
    made.serve()
    return with_invitations(made)


def test_a_table_of_one_column(unalike, tmp_path):
    made = narrow(tmp_path / "w", 1, "error")
    site, own = str(made.path / "sites" / "va"), f"csv:{made.path / 'tables' / 'va.csv'}"
    ages = write(Path("ages.csv"), ["age"], [row[:1] for row in lines(made, "va")[1]])
    assert unalike("predict", site, "--data", ages).out == unalike("predict", site, "--data", own).out != ""


def test_parquet(unalike, world, site, own):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv as reader
    from pyarrow import parquet

    strings = reader.ConvertOptions(column_types=dict.fromkeys(lines(world, "va")[0], pyarrow.string()))
    parquet.write_table(reader.read_csv(own.removeprefix("csv:"), convert_options=strings), "new.parquet")
    assert (
        unalike("predict", site, "--data", "new.parquet").out == unalike("predict", site, "--data", own).out != ""
    )


def test_a_query_has_its_key_beside_every_prediction(unalike, world, site, own):
    """Its rows are in the key's order, which need not be the database's."""
    head, rows = lines(world, "va")
    columns = ", ".join(f'"{name}"' for name in ("predicted", *head))
    keyed_rows = [(f"p{number:03}", *row) for number, row in enumerate(rows)]
    values = ", ".join(f"({', '.join(map(repr, row))})" for row in reversed(keyed_rows))
    make_sqlite("clinic.db", f"create table t ({columns})", f"insert into t values {values}")
    data = "sql:sqlite:clinic.db(query='select * from t', key=predicted)"
    assert unalike("predict", site, "--data", data, "-o", "keyed.csv").code == 0
    assert unalike("predict", site, "--data", own, "-o", "bare.csv").code == 0
    keyed, bare = (list(csv.reader(Path(f"{name}.csv").read_text().splitlines())) for name in ("keyed", "bare"))
    assert keyed[0] == ["predicted", "predicted_", *bare[0][1:]]
    assert [row[0] for row in keyed[1:]] == [f"p{n:03}" for n in range(len(rows))]
    assert [row[1:] for row in keyed[1:]] == bare[1:]
    found = unalike("predict", site, "--data", data, "--json").json
    assert found["keys"] == {"predicted": [row[0] for row in keyed[1:]]}
    assert found["predictions"][0]["predicted"] == keyed[1][1]


def test_rows_that_the_plan_drops_have_an_empty_line(unalike, tmp_path):
    made = narrow(tmp_path / "w", 3, "drop")
    head, rows = lines(made, "va")
    data = write(Path("new.csv"), head, [rows[0], ["", *rows[1][1:]], rows[2]])
    answer = unalike("predict", str(made.path / "sites" / "va"), "--data", data)
    out = answer.out.splitlines()
    assert len(out) == 4
    assert out[2] == ",,"
    whole = write(Path("whole.csv"), head, [rows[0], rows[2]])
    others = unalike("predict", str(made.path / "sites" / "va"), "--data", whole).out.splitlines()
    assert [out[1], out[3]] == others[1:]
    assert "No prediction for 1 of 3 rows: they have a missing value" in answer.err
    found = unalike("predict", str(made.path / "sites" / "va"), "--data", data, "--json").json
    assert found["predictions"][1] is None
    assert found["figures"]["rows"] == 2


def changed(world, **cells):
    """The first rows of a table with other cells in the second row."""
    head, rows = lines(world, "va")
    return write(Path("new.csv"), head, [rows[0], [cells.get(n, c) for n, c in zip(head, rows[1], strict=True)]])


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ({"age": "old"}, "new.csv: column age: 'old' in line 3 is not a number"),
        (
            {"age": ""},
            "new.csv: column age: the value in line 3 is missing. Nothing was missing there in training",
        ),
        ({"outcome": "maybe"}, "the label 'maybe' in line 3 is none of the classes (disease, healthy)"),
    ],
)
def test_a_table_that_does_not_fit(unalike, world, site, cells, told):
    refused(unalike("predict", site, "--data", changed(world, **cells), "-o", "a.csv"), told)
    assert not Path("a.csv").exists()


def test_a_gap_as_zeros(unalike, world, site):
    data = changed(world, age="")
    assert unalike("predict", site, "--data", data, "--unknown", "zeros").code == 0
    refused(unalike("predict", site, "--data", data, "--unknown", "zero"), "Did you mean 'zeros'?")


def test_a_missing_column_file_or_row(unalike, world, site):
    head, rows = lines(world, "va")
    lacking = write(Path("new.csv"), head[1:], [row[1:] for row in rows])
    refused(unalike("predict", site, "--data", lacking), "column age: the model needs it")
    refused(unalike("predict", site, "--data", "csv:none.csv"), "There is no file none.csv")
    refused(unalike("predict", site, "--data", write(Path("empty.csv"), head, [])), "no rows")


def test_folders_that_are_no_sites(unalike, world, own):
    refused(unalike("predict", str(world.path / "server"), "--data", own), "is the server's folder")
    refused(unalike("predict", "nowhere", "--data", own), "No run in runs has a name that begins with 'nowhere'")
    refused(unalike("predict", ".", "--data", own), "is no invitation")
    refused(unalike("predict", "a" * 5000, "--data", own), "is too long for a file")


@pytest.mark.parametrize("name", ["a.txt", "nowhere/a.csv", "."])
def test_where_output_cannot_go(unalike, site, own, name):
    refused(unalike("predict", site, "--data", own, "-o", name), "-o")


PLUGIN = '''
from torch import nn
from unalike import Net, register_model

@register_model("mine")
class Mine:
    """A net of one's own."""
    def build(self, shape, classes):
        return Net(nn.Sequential(nn.Linear(shape[0], {width}), nn.Tanh()), nn.Linear({width}, classes))
'''


def test_a_net_of_ones_own_needs_its_plugin(unalike, tmp_path):
    Path("mine.py").write_text(PLUGIN.format(width=4))
    load_plugin(Path("mine.py"))
    made = trained(tmp_path / "w", rounds=1, model="mine")
    site, own = str(made.path / "sites" / "va"), f"csv:{made.path / 'tables' / 'va.csv'}"
    assert unalike("predict", site, "--data", own, "--plugin", "mine.py", "-o", "a.csv").code == 0
    assert len(Path("a.csv").read_text().splitlines()) == len(lines(made, "va")[1]) + 1


def test_a_plugin_of_another_process(own_process, unalike, tmp_path):
    Path("mine.py").write_text(PLUGIN.format(width=4))
    load_plugin(Path("mine.py"))
    made = trained(tmp_path / "w", rounds=1, model="mine")
    words = ["predict", str(made.path / "sites" / "va"), "--data", str(made.path / "tables" / "va.csv")]
    refused(own_process(*words), "Unknown model 'mine'")
    Path("other.py").write_text(PLUGIN.format(width=5))
    refused(own_process(*words, "--plugin", "other.py"), "Use the same --plugin file")
    assert own_process(*words, "--plugin", "mine.py").out == unalike(*words).out


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=6)))
def test_any_bytes_as_a_table_are_predicted_or_refused_by_line(world, site, capfd, garbage):
    """Bytes of all kinds, and the site's own table with some bytes replaced."""
    raw = garbage
    if isinstance(garbage, tuple):
        place, more = garbage
        whole = b"\n".join((world.path / "tables" / "va.csv").read_bytes().splitlines()[:40])
        raw = whole[:place] + more + whole[place + len(more) :]
    Path("fuzz.csv").write_bytes(raw)
    capfd.readouterr()
    code = call(["predict", site, "--data", "csv:fuzz.csv", "--json"])
    out, err = capfd.readouterr()
    if code == 0:
        assert json.loads(out)["rows"] > 0
    else:
        assert (code, out) == (2, "")
        assert {line[:7] for line in err.splitlines()} == {"Error: "}
        assert len(err.splitlines()) <= 11
