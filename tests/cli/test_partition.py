"""``unalike partition``: table, JSON, figure, saving, and mistakes in one line."""

from __future__ import annotations

import json
import os
from xml.etree import ElementTree

import numpy as np
import pytest

import unalike as package
from unalike.data.folder import VARIABLE
from unalike.partition import seen_label_counts


@pytest.fixture(autouse=True)
def own_data_folder(monkeypatch):
    """--data-dir sets the variable of this process: what was there comes back."""
    monkeypatch.setenv(VARIABLE, "before")


def test_json_is_the_partition(unalike):
    answer = unalike("partition", "--partition", "label-dirichlet(0.1)", "--parties", "5", "--seed", "3", "--json")
    assert (answer.code, answer.err) == (0, "")
    digits = package.load_dataset("digits")
    made = package.make_partition("label-dirichlet(0.1)", digits, 5, 3)
    found = answer.json
    assert (found["dataset"], found["partition"], found["seed"]) == ("digits", made.recipe, 3)
    assert [party["name"] for party in found["parties"]] == list(made.names)
    assert [party["size"] for party in found["parties"]] == [len(rows) for rows in made.rows]
    counts = [list(party["label_counts"].values()) for party in found["parties"]]
    np.testing.assert_array_equal(counts, made.label_counts(digits))
    assert found["rows"] == {"training": digits.size, "several": 0, "none": 0, "conserved": True}
    assert found["skew"]["pairs"] == 10
    assert 0 < found["skew"]["earth_mover"] < 1
    assert len(found["skew"]["entropy"]) == 5
    assert found["files"] == []


def test_table(unalike):
    out = unalike("partition", "--dataset", "heart", "--partition", "natural").out
    lines = out.splitlines()
    assert lines[0].startswith("heart, 735 training rows: natural")
    assert [word for word in lines[2].split() if word] == ["party", "rows", "healthy", "disease"]
    assert any(line.split() == ["switzerland", "98", "6", "92"] for line in lines)
    assert "Each of the 735 rows has exactly one party." in out
    for word in ("Label entropy", "Quantity entropy", "Jensen-Shannon", "Hellinger", "earth mover's"):
        assert word in out
    assert "\x1b" not in out


def test_labels_are_counted_as_seen(unalike):
    text = "iid+label-noise(0.5)"
    counts = [list(party["label_counts"].values()) for party in unalike(
        "partition", "--partition", text, "--json").json["parties"]]  # fmt: skip
    digits = package.load_dataset("digits")
    made = package.make_partition(text, digits, None, 0)
    np.testing.assert_array_equal(counts, seen_label_counts(digits, made))


PLUGIN = """
import numpy as np
from unalike.data.dataset import Dataset, register_dataset

@register_dataset("many-labels")
class Many:
    '''Thirty labels for a test.'''
    def load(self):
        y = np.arange(300) % 30
        x = np.zeros((300, 2), np.float32)
        return Dataset("many-labels", x, y, x, y, tuple(f"label{k}" for k in range(30)))
"""


def test_many_labels_are_named_by_size(unalike, tmp_path):
    (tmp_path / "many.py").write_text(PLUGIN)
    out = unalike("partition", "--plugin", "many.py", "--dataset", "many-labels", "--parties", "2").out
    assert "largest labels" in out
    assert ", and 25 more" in out


def test_columns(unalike):
    arguments = ("partition", "--dataset", "heart", "--partition", "vertical(3)")
    found = unalike(*arguments, "--json").json
    assert found["label_holder"] == "party 0"
    assert sorted(c for party in found["parties"] for c in party["columns"]) == list(range(32))
    assert found["rows"] == {"training": 735, "several": 735, "none": 0, "conserved": False}
    assert found["column_skew"]["columns"] == [len(party["columns"]) for party in found["parties"]]
    assert found["column_skew"]["beta"] is None  # that takes a search, which measure makes
    out = unalike(*arguments).out
    assert any(line.split()[:5] == ["party", "0", "+", "label", "735"] for line in out.splitlines())
    assert "All parties know all 735 people." in out
    assert 'unalike run --dataset heart --partition "vertical(3)" --algorithm vertical --model logistic' in out


@pytest.mark.parametrize(
    ("name", "files"), [("a.svg", ["a.svg"]), ("b.PNG", ["b.png"]), ("c", ["c.svg", "c.png"])]
)
def test_figure(unalike, tmp_path, name, files):
    answer = unalike("partition", "--dataset", "fcube", "--partition", "natural", "--figure", name, "--json")
    assert answer.json["files"] == files
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")) == sorted(files)
    for file in files:
        if file.endswith("svg"):
            assert ElementTree.parse(tmp_path / file).getroot().tag.endswith("svg")
        else:
            assert (tmp_path / file).read_bytes().startswith(b"\x89PNG")


def test_a_folder_is_no_figure(unalike, tmp_path):
    (tmp_path / "there").mkdir()
    answer = unalike("partition", "--figure", "there")
    assert answer.code == 2
    assert "there is a folder. Write there/partition." in answer.err


def test_saved_and_used_again(unalike, tmp_path):
    text = "label-dirichlet(0.2)"
    first = unalike("partition", "--partition", text, "--save", "split.part", "--json").json
    assert first["files"] == ["split.part"]
    again = unalike("partition", "--partition", "file:split.part", "--json").json
    assert again["parties"] == first["parties"]
    noisy = unalike("partition", "--partition", "file:split.part+label-noise(1)", "--json").json
    assert [party["size"] for party in noisy["parties"]] == [party["size"] for party in first["parties"]]
    assert noisy["parties"] != first["parties"]


def test_data_dir(unalike, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for command in ("partition", "run"):
        os.environ[VARIABLE] = "before"
        answer = unalike(command, "--dataset", "mnist", "--data-dir", str(folder))
        assert answer.code == 2
        assert f"not in {folder}" in answer.err
        assert os.environ[VARIABLE] == str(folder)


def test_data_dir_must_be_there(unalike, tmp_path):
    (tmp_path / "file").write_text("")
    for wrong in ("missing", "file"):
        answer = unalike("partition", "--data-dir", wrong)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err == f"Error: --data-dir must be a folder, but there is none at {wrong}. Check the path.\n"
        assert os.environ[VARIABLE] == "before"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--partition", "feature-noise(-1)"], "sigma must be from 0"),
        (["--partition", "label-nois(1)"], "Did you mean 'label-noise'"),
        (["--partition", "iid+natural"], "both split the rows"),
        (["--partition", "feature-noise(1)+iid"], "write it first"),
        (["--dataset", "heart", "--partition", "feature-shift(rotation, 90)"], "is for images"),
        (["--parties", "0"], "parties must be >= 1"),
        (["--seed", "-1"], "seed must be >= 0"),
        (["--dataset", "nothing"], "nothing"),
        (["--parties", "x"], "--parties"),
        (["--figure"], "--figure"),
    ],
)
def test_mistakes_take_one_line(unalike, arguments, message):
    answer = unalike("partition", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1
    assert message in answer.err


def test_help(unalike):
    out = unalike("partition", "--help").out
    for flag in ("--dataset", "--partition", "--parties", "--seed", "--figure", "--save", "--json", "--data-dir"):
        assert flag in out
    assert "\n  partition " in unalike("--help").out
    assert "--data-dir" in unalike("run", "--help").out


def test_json_is_all_of_stdout(own_process):
    answer = own_process("partition", "--dataset", "fcube", "--partition", "natural", "--json")
    assert (answer.code, answer.err) == (0, "")
    assert json.loads(answer.out)["partition"].startswith("natural")


@pytest.mark.parametrize(
    "text", ["label-dirichlet(0.5)+feature-noise(0.1)+label-noise(0.3)", "attribute-label(1)"]
)
def test_a_saved_partition_comes_back_with_its_distortions(unalike, tmp_path, text):
    from unalike.data import load_dataset
    from unalike.partition import as_seen, make_partition

    flags = ("--dataset", "heart", "--parties", "3", "--seed", "5")
    assert unalike("partition", *flags, "--partition", text, "--save", "split.part").code == 0
    data = load_dataset("heart")
    before = as_seen(data, make_partition(text, data, 3, 5))[0]
    after = as_seen(data, make_partition(f"file:{tmp_path / 'split.part'}", data, None, 77))[0]
    assert before.digest == after.digest


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--figure", "absent/x.png"], "there is no folder absent"),
        (["--save", "absent/x"], "there is no folder absent"),
        (["--figure", "x.pdf"], "must end in .svg or .png"),
        (["--partition", "feature-noise(1e300)"], "sigma must be"),
    ],
)
def test_mistakes_in_where_and_how_much(unalike, flags, message):
    answer = unalike("partition", *flags)
    assert answer.code == 2
    assert message in answer.err
    assert answer.err.count("\n") == 1
