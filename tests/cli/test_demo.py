import json
import os
import shlex
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import unalike
from unalike.cli.demo_tables import NEXT
from unalike.cli.main import call
from unalike.demo import hospitals, uneven_digits
from unalike.demo.content import Length, demonstrate

SHORT = Length((0, 1), 2)
"""In place of the length of ``--quick``: two seeds have a spread."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def printed(folder):
    """One run of the command for all tests; capsys is for single tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unalike.demo.content.QUICK", SHORT)
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, (folder / name).open("w"))
        code = call(["demo", "--quick", "--json", "--out", str(folder / "new" / "out")])
        sys.stdout.close()
        sys.stderr.close()
    assert code == 0, (folder / "stderr").read_text()
    return json.loads((folder / "stdout").read_text())


def test_structure(printed):
    assert set(printed) == {"plan", "hospitals", "digits", "files", "seconds"}
    assert printed["plan"] == {"seeds": list(SHORT.seeds), "rounds": SHORT.rounds}
    heart, digits = printed["hospitals"], printed["digits"]
    assert set(heart["methods"]) == {"neighbour", "alone", "FedAvg", "Ditto", "pooled"}
    assert set(digits["methods"]) == {"five digits", "two digits"}
    assert all(set(each) == {"alone", "FedAvg", "Ditto"} for each in digits["methods"].values())
    for part in (heart, digits):
        assert all(isinstance(sentence, str) and "\n" not in sentence for sentence in part["reading"])
        assert all(0 <= value <= 1 for value in part["skew"].values())
    for method in heart["methods"].values():
        assert set(method["accuracy"]) == {"cleveland", "hungarian", "switzerland", "va", "all"}
        for score in method["accuracy"].values():
            assert score["mean"] == pytest.approx(np.mean(score["each"]))
            assert score["std"] == pytest.approx(np.std(score["each"], ddof=1))


def test_label_counts_are_those_of_the_training_rows(printed):
    for name, part in (("heart", printed["hospitals"]), ("digits", printed["digits"])):
        data = unalike.load_dataset(name)
        counts = np.array([list(party["label_counts"].values()) for party in part["parties"]])
        assert counts.sum(axis=0).tolist() == np.bincount(data.y).tolist()
    heart = printed["hospitals"]["parties"]
    assert sum(party["patients"] + party["test_patients"] for party in heart) == 920


def test_accuracies_are_those_of_independent_runs(printed):
    fedavg = hospitals.specs("FedAvg", SHORT.seeds, SHORT.rounds)
    own = printed["hospitals"]["methods"]["FedAvg"]["accuracy"]["all"]["each"]
    assert own == pytest.approx([unalike.run(spec).accuracy for spec in fedavg], abs=1e-12)
    spec = uneven_digits.specs("two digits", "Ditto", SHORT.seeds, SHORT.rounds)[0]
    worst = printed["digits"]["methods"]["two digits"]["Ditto"]["worst_tenth"]["each"][0]
    assert worst == pytest.approx(unalike.run(spec).figures["personal_by_labels"]["worst_10_percent"])


def test_the_same_figures_each_time(printed):
    again = json.loads(json.dumps(demonstrate(SHORT, lambda what, work: None).to_dict()))
    assert {key: printed[key] for key in again} == again


def test_files(printed, folder):
    svg, png = (folder / "new" / "out" / f"demo.{kind}" for kind in ("svg", "png"))
    assert printed["files"] == [str(svg), str(png)]
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert sorted((folder / "new" / "out").iterdir()) == [png, svg]


def test_tables_and_next_commands(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("unalike.demo.content.QUICK", Length((0,), 1))
    assert call(["demo", "--quick", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for word in ("switzerland", "own model, alone", "party 9", "Noise here", "Leave --quick out", *NEXT):
        assert word in shown
    assert str(tmp_path / "demo.png") in shown
    assert "\x1b" not in shown


def shown():
    """The specs of the demo's own runs with seed 0."""
    made = [
        spec for method in ("FedAvg", "Ditto") for spec in uneven_digits.specs("five digits", method, (0,), 30)
    ]
    return [replace(spec, evaluate_every=1) for spec in made]


def test_next_commands_are_commands():
    for command in NEXT[:2]:
        name, *flags = shlex.split(command)
        assert name == "run"
        pairs = zip(flags[::2], flags[1::2], strict=True)
        fields = {flag.removeprefix("--").replace("-", "_"): value for flag, value in pairs}
        texts = ("dataset", "partition", "model", "algorithm", "optimiser", "test_by")
        values = {name: value if name in texts else float(value) for name, value in fields.items()}
        assert unalike.RunSpec.from_mapping(values).key in {spec.key for spec in shown()}


def refusal(out, capsys):
    assert call(["demo", "--out", str(out)]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert len(streams.err.splitlines()) == 1
    return streams.err


def test_a_file_as_folder_is_refused_before_any_work(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert "is a file" in refusal(tmp_path / "file", capsys)
    assert str(tmp_path / "file" / "below") in refusal(tmp_path / "file" / "below", capsys)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder that not even root can write to")  # noqa: PTH112
def test_an_unwritable_folder_is_refused_before_any_work(capsys):
    assert "/proc/self" in refusal("/proc/self", capsys)


def test_help(capsys):
    assert call(["demo", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(flag in shown for flag in ("--out", "--quick", "--json"))
