"""``unalike export`` and ``unalike predict`` of a run: from a table to predictions, every mistake in one line."""

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from unalike.runs.deploy import load

TABLE = "csv:patients.csv(label=outcome, party=hospital)"


def patients(path, rows, seed, numbers=False):
    rng = np.random.default_rng(seed)
    lines = [["hospital", "age", "sex", "outcome"]]
    for _ in range(rows):
        age, sex = rng.normal(55, 9), rng.choice(["male", "female"])
        outcome = (
            f"{3 * age + rng.normal():.2f}" if numbers else ["well", "sick"][int(age + 9 * (sex == "male") > 60)]
        )
        lines.append([rng.choice(["a", "b"]), f"{age:.1f}", sex, outcome])
    with Path(path).open("w", newline="") as file:
        csv.writer(file).writerows(lines)


@pytest.fixture
def key(unalike):
    patients("patients.csv", 120, 1)
    patients("new.csv", 9, 2)
    answer = unalike("run", "--dataset", TABLE, "--partition", "natural", "--rounds", "2", "--quiet")
    assert answer.code == 0, answer.err
    (folder,) = (path for path in Path("runs").iterdir() if path.is_dir())
    return folder.name.rsplit("-", 1)[-1]


def refused(answer, *texts):
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1, answer.err
    for text in texts:
        assert text in answer.err


def test_from_a_table_to_predictions(unalike, key):
    Path("patients.csv").unlink()  # the data of the training are not needed
    answer = unalike("predict", key[:5], "--data", "csv:new.csv", "-o", "out.csv")
    assert answer.code == 0, answer.err
    with Path("out.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["predicted", "sick", "well"]
    assert [row[0] for row in rows] == load(key, "runs").predict("csv:new.csv").tolist()
    assert "accuracy" in answer.out  # the new table has the label, too
    folder = unalike("predict", str(next(Path("runs").glob(f"*{key}"))), "--data", "csv:new.csv")
    assert folder.out == Path("out.csv").read_text()


def test_which_and_party(unalike, key):
    results = {
        (which, party): unalike("predict", key, "--data", "csv:new.csv", "--which", which, "--party", party).out
        for which in ("final", "selected")
        for party in ("a", "0")
    }
    assert results["final", "a"] == results["final", "0"] != ""
    refused(unalike("predict", key, "--data", "csv:new.csv", "--which", "best"), "Unknown model 'best'")
    refused(unalike("predict", key, "--data", "csv:new.csv", "--party", "c"), "from 0 to 1, or one of a, b")


def test_numbers(unalike):
    patients("houses.csv", 120, 1, numbers=True)
    table = "csv:houses.csv(label=outcome, party=hospital, task=regression)"
    assert unalike("run", "--dataset", table, "--rounds", "2", "--parties", "3", "--quiet").code == 0
    (folder,) = (path for path in Path("runs").iterdir() if path.is_dir())
    answer = unalike("predict", str(folder), "--data", "csv:houses.csv", "-o", "out.csv")
    assert answer.code == 0, answer.err
    head, *rows = Path("out.csv").read_text().splitlines()
    assert head == "predicted"
    assert np.array_equal(np.array(rows, float), load(folder).predict("csv:houses.csv"))
    assert "rmse" in answer.out
    assert "from " in answer.out
    shown = unalike("predict", str(folder), "--data", "csv:houses.csv", "--json").json
    assert shown["predictions"][0] == {"predicted": float(rows[0])}


def test_rows_of_an_array(unalike):
    assert unalike("run", "--dataset", "digits", "--rounds", "1", "--epochs", "1", "--quiet").code == 0
    (folder,) = (path for path in Path("runs").iterdir() if path.is_dir())
    result = load(folder)
    rows = np.zeros((3, *result.model.nets[0](result.model.shift.new_zeros(1, 64))[0].shape[:0], 64))
    np.save("rows.npy", rows.reshape(3, *json.loads((folder / "model.json").read_text())["shape"]))
    answer = unalike("predict", str(folder), "--data", "rows.npy")
    assert len(answer.out.splitlines()) == 4, answer.err
    refused(unalike("predict", str(folder), "--data", "csv:new.csv"), "--data rows.npy")
    Path("broken.npy").write_bytes(b"no array")
    refused(unalike("predict", str(folder), "--data", "broken.npy"), "Cannot read the array broken.npy")
    np.save("objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    refused(unalike("predict", str(folder), "--data", "objects.npy"), "Cannot read the array objects.npy")


def test_export_and_predict_from_what_was_exported(unalike, key):
    answer = unalike("export", key, "--to", "safetensors", "-o", "model")
    assert answer.code == 0, answer.err
    assert "model/weights.safetensors" in answer.out
    assert unalike("export", key, "--to", "card", "-o", "model").code == 0
    whole = unalike("predict", key, "--data", "csv:new.csv").out
    assert unalike("predict", "model", "--data", "csv:new.csv").out == whole != ""
    assert unalike("export", "model", "--to", "torch", "-o", "again").code == 0
    found = unalike("export", key, "--to", "torch", "--json").json
    assert found == {"files": [f"{load(key, 'runs').spec.key}/model.pt2"]}
    refused(unalike("export", "model", "--to", "card"), "a model without the figures of its run")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--to", "xgboost"], "xgboost is for trees"),
        (["--to", "onyx"], "Did you mean 'onnx'"),
        (["--to", "torch", "--which", "best"], "Unknown model 'best'"),
        (["--to", "torch", "--party", "nobody"], "There is no party 'nobody'"),
    ],
)
def test_mistakes(unalike, key, words, told):
    refused(unalike("export", key, *words), told)
    assert not Path(load(key, "runs").spec.key).exists()


def test_runs_that_are_not_there(unalike):
    refused(unalike("export", "nowhere", "--to", "onnx"), "No run in runs has a name that begins with 'nowhere'")
    Path("runs/heart-fedavg-0123").mkdir(parents=True)
    Path("runs/heart-fedavg-0123/spec.toml").write_text("")
    refused(unalike("export", "0123", "--to", "onnx"), "not the folder of a finished run")
    refused(unalike("predict", "0123", "--data", "csv:new.csv"), "has no model.json")


def test_the_next_command_reads_tables_that_are_written_alike(unalike):
    rows = [
        f"{n / 7:.2f};{n % 28 + 1:02d}.03.2024;{('gesund', 'krank')[n % 2]}".replace(".", ",", 1)
        for n in range(60)
    ]
    Path("t.csv").write_text("\n".join(["Größe;am;y", *rows]), "latin-1")
    data = "csv:t.csv(delimiter=;, encoding=latin-1, dates='%d.%m.%Y')"
    answer = unalike("run", "--dataset", data, "--parties", "2", "--rounds", "1")
    assert answer.out.splitlines()[0].startswith("fedavg on csv(t.csv, delimiter=;, ")
    (line,) = (line for line in answer.out.splitlines() if " predict " in line)
    command = [word.replace("new.csv", "t.csv") for word in shlex.split(line)[1:]]
    assert unalike(*command).code == 0
    assert len(Path("predictions.csv").read_text().splitlines()) == 61
