"""Trees on the command line: from a table to predictions, importance and files; every mistake in one line."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.test_export import TABLE, patients, refused

TREES = ("--model", "trees(depth=3, least_rows=2)", "--rounds", "3", "--partition", "natural", "--quiet")


@pytest.fixture
def trained(unalike):
    """What trains trees on a table, and says under which key."""
    patients("patients.csv", 160, 1)
    patients("new.csv", 9, 2)

    def train(algorithm):
        answer = unalike("run", "--dataset", TABLE, "--algorithm", algorithm, *TREES)
        assert answer.code == 0, answer.err
        (folder,) = Path("runs").glob(f"*-{algorithm}-*")
        return folder.name.rsplit("-", 1)[-1]

    return train


def test_from_a_table_to_trees_to_predictions_importance_and_files(unalike, trained):
    key = trained("histogram")
    Path("patients.csv").unlink()
    answer = unalike("predict", key[:6], "--data", "csv:new.csv", "-o", "out.csv")
    assert answer.code == 0, answer.err
    with Path("out.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["predicted", "sick", "well"]
    assert len(rows) == 9
    found = unalike("runs", "importance", key[:6], "-o", "importance.svg")
    assert found.code == 0, found.err
    assert found.out.split()[0] == "column"
    assert "age" in found.out
    assert Path("importance.svg").stat().st_size > 1000
    listed = unalike("runs", "importance", key[:6], "--json").json["importance"]
    assert listed[0]["column"] == "age"
    assert "Goes by: age" in unalike("runs", "show", key[:6]).out
    for format, name in (("xgboost", "xgboost.json"), ("json", "trees.json")):
        made = unalike("export", key[:6], "--to", format, "-o", "model")
        assert made.code == 0, made.err
        assert json.loads(Path("model", name).read_text())
    refused(unalike("export", key[:6], "--to", "json", "-o", "model"), "trees.json exists")
    refused(unalike("export", key[:6], "--to", "onnx", "-o", "model"), "onnx is for nets, and these are trees")


def test_trees_of_single_parties_are_named(unalike, trained):
    key = trained("local")
    refused(unalike("predict", key, "--data", "csv:new.csv"), "no one model for all parties", "--party 0")
    refused(unalike("runs", "importance", key), "no one model for all parties")
    answers = {party: unalike("predict", key, "--data", "csv:new.csv", "--party", party) for party in "ab"}
    assert all(answer.code == 0 for answer in answers.values())
    assert answers["a"].out != answers["b"].out
    assert unalike("runs", "importance", key, "--party", "a").code == 0
    made = unalike("export", key, "--to", "safetensors", "--party", "a", "-o", "alone")
    assert made.code == 0, made.err
    assert unalike("predict", "alone", "--data", "csv:new.csv").out == answers["a"].out


def test_importance_of_a_net_is_refused_in_one_line(unalike):
    assert unalike("run", "--dataset", "digits", "--model", "logistic", "--rounds", "1", "--quiet").code == 0
    refused(unalike("runs", "importance", "digits"), "logistic is a net", "--model trees")
