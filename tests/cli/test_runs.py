from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.conftest import UNALIKE
from tests.studies.made_up import write_run
from unalike.runs.folder import RunDirectory
from unalike.runs.record import read_run

QUICK = ("run", "--parties", "3", "--rounds", "4", "--steps", "2", "--json", "--quiet")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Two finished runs, made once."""
    from unalike import run

    folder = tmp_path_factory.mktemp("prepared")
    for age, algorithm in ((200, "fedavg"), (100, "fedprox(mu=0.5)")):
        made = run(runs=folder, algorithm=algorithm, parties=3, rounds=4, steps=2).run_dir
        for path in made.iterdir():
            then = path.stat().st_mtime - age
            os.utime(path, (then, then))
    return folder


@pytest.fixture
def two(prepared):
    """A copy of the two runs, in the usual place; fedprox is the newer one."""
    shutil.copytree(prepared, "runs")
    return {name: next(Path("runs").glob(f"digits-{name}-*")) for name in ("fedavg", "fedprox")}


def states(unalike):
    return {Path(run["run_dir"]).name: run["state"] for run in unalike("runs", "list", "--json").json["runs"]}


def test_no_runs_yet(unalike):
    assert unalike("runs", "list") == (0, "", "No runs in runs yet. Start one: unalike run\n")
    assert unalike("runs", "list", "--json").json["runs"] == []


def test_list_is_newest_first(unalike, two):
    runs = unalike("runs", "list", "--json").json["runs"]
    assert [Path(run["run_dir"]) for run in runs] == [two["fedprox"], two["fedavg"]]
    assert all(run["state"] == "finished" and run["rounds_done"] == run["rounds"] == 4 for run in runs)
    lines = unalike("runs", "list").out.splitlines()
    key, *cells = lines[1].split()
    assert cells[:4] == ["fedprox(0.5)", "digits", "iid", "4/4"]
    assert runs[0]["key"].startswith(key)


def test_a_look_at_a_finished_run_does_not_make_it_newer(unalike, two):
    before = unalike("runs", "list", "--json").out
    looked = unalike("run", "--parties", "3", "--rounds", "4", "--steps", "2", "--quiet")
    assert looked.code == 0
    assert unalike("runs", "list", "--json").out == before


def test_list_fits_eighty_columns(unalike, two, monkeypatch):
    monkeypatch.setattr("unalike.cli.show.screen_width", lambda: 80)
    lines = unalike("runs", "list").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) == 4  # nothing is wrapped


@pytest.fixture
def many(unalike, two):
    """Eight runs that differ in most settings, as they come together in a folder."""
    specs = [("fedavg", "iid", 0.1), ("scaffold", "label-dirichlet(0.5)", 0.02), ("fedavgm(0.5)", "iid", 0.05)]
    for seed, (algorithm, partition, lr) in enumerate(specs, 1):
        flags = ("--algorithm", algorithm, "--partition", partition, "--lr", str(lr), "--seed", str(seed))
        assert unalike(*QUICK, *flags, "--batch-size", str(16 * seed), "--model", f"mlp({seed})").code == 0
        assert unalike(*QUICK, *flags, "--rounds", "3", "--held-out", "0.2").code == 0
    return [run["key"] for run in unalike("runs", "list", "--json").json["runs"]]


@pytest.mark.parametrize("width", [40, 80, 120, None])
@pytest.mark.parametrize("command", ["list", "compare"])
def test_tables_of_runs_fit_any_width(unalike, many, monkeypatch, width, command):
    everything = unalike("runs", "compare", "--json").json["runs"]
    monkeypatch.setattr("unalike.cli.show.screen_width", lambda: width)
    lines = unalike("runs", command).out.splitlines()
    words = {word for line in lines for word in line.split()}
    assert width is None or max(map(len, lines)) <= width
    assert {"fedavg", "fedprox(0.5)", "scaffold", "fedavgm(0.5)", "label-dirichlet(0.5)"} <= words
    assert {f"{100 * run['value']:.1f}%" for run in everything} <= words
    assert all(any(word and key.startswith(word) for word in words) for key in many)
    if width is None:
        row = next(line for line in lines if line.startswith(many[0][:6]))
        assert len(row.split()) >= 8  # all of it, on one line that grep finds


def test_compare_tells_once_what_all_runs_share(unalike, many, monkeypatch):
    monkeypatch.setattr("unalike.cli.show.screen_width", lambda: 80)
    out = " ".join(unalike("runs", "compare").out.split())
    assert out.startswith("All: dataset digits, parties 3, ")
    assert out.count("digits") == 1
    assert "Left out at this width: sent down" in out


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_no_figure_is_broken_on_a_real_terminal(unalike, many):
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run([*UNALIKE, "runs", "compare"], stdout=theirs, stdin=theirs, env=environment, timeout=60)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # Linux says so at the end
        while piece := os.read(ours, 65536):
            shown += piece
    os.close(ours)
    lines = shown.decode().splitlines()
    assert done.returncode == 0
    assert max(map(len, lines)) <= 80
    words = {word for line in lines for word in line.split()}
    assert {key[:8] for key in many} <= words
    assert {f"{100 * run['value']:.1f}%" for run in unalike("runs", "compare", "--json").json["runs"]} <= words
    assert lines[0].startswith("All: dataset digits, parties 3")


def test_other_folders_and_files_are_no_runs(unalike, two):
    Path("runs/notes").mkdir()
    Path("runs/readme.txt").write_text("mine")
    assert len(states(unalike)) == 2


def damage_rounds(run):
    (run / "rounds.jsonl").write_text("{}\nnot json\n")


def edit(path, pattern, text):
    path.write_text(re.sub(pattern, text, path.read_text(), count=1))


DAMAGES = {
    "no spec": lambda run: (run / "spec.toml").unlink(),
    "spec that is not TOML": lambda run: (run / "spec.toml").write_text("rounds = ="),
    "spec that is not text": lambda run: (run / "spec.toml").write_bytes(b"\xff\x00"),
    "spec of something else": lambda run: (run / "spec.toml").write_text("rounds = 'x'"),
    "rounds": damage_rounds,
    "accuracy of the result": lambda run: edit(run / "result.json", r'"accuracy": [0-9.]+', '"accuracy": 0.95'),
    "accuracy of a round": lambda run: edit(run / "rounds.jsonl", r'"accuracy": [0-9.]+', '"accuracy": 0.95'),
    "key of a round": lambda run: edit(run / "rounds.jsonl", '"accuracy"', '"akkuracy"'),
    "value of the spec": lambda run: edit(run / "spec.toml", "lr = .+", "lr = 0.5"),
    "result": lambda run: (run / "result.json").write_text("{"),
    "result without figures": lambda run: (run / "result.json").write_text("{}"),
    "folders in place of files": lambda run: [
        (run / name).unlink() or (run / name).mkdir() for name in ("spec.toml", "rounds.jsonl", "result.json")
    ],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_run_does_not_hide_the_others(unalike, two, damage):
    damage(two["fedprox"])
    assert states(unalike) == {two["fedavg"].name: "finished", two["fedprox"].name: "damaged"}
    answer = unalike("runs", "list")
    assert answer.code == 0
    assert two["fedprox"].name in answer.err
    assert answer.err.count("\n") == 1
    assert answer.err.endswith(" Run the command that made it again; if it refuses, remove the folder first.\n")
    compared = unalike("runs", "compare")
    assert (compared.code, compared.err) == (0, answer.err)
    refused = unalike("runs", "compare", two["fedprox"].name)
    assert (refused.code, refused.err) == (2, f"Error: {answer.err}")
    assert "0.95" not in answer.out
    shown = unalike("runs", "show", two["fedprox"].name)
    assert shown.code in (0, 2)
    assert two["fedprox"].name in shown.err
    assert "95.0%" not in shown.out
    report = unalike("report", "runs", "-o", "page.html", "--json")
    assert report.code == 0
    assert report.err.count("\n") <= 1
    assert len(unalike("runs", "compare", "--json").json["runs"]) == 1


def test_stopped_and_running(unalike, two):
    for run in two.values():
        (run / "result.json").unlink()
    with RunDirectory.open(two["fedavg"]):
        assert states(unalike) == {two["fedavg"].name: "running", two["fedprox"].name: "stopped"}
    (two["fedavg"] / "lock.pid").write_text("1")  # what a killed process leaves behind
    assert set(states(unalike).values()) == {"stopped"}
    assert "last evaluated round 4" in unalike("runs", "show", "digits-fedavg").out


def test_show(unalike, two):
    key = two["fedprox"].name.split("-")[-1]
    by_prefix = unalike("runs", "show", key[:6])
    assert by_prefix.code == 0
    assert (
        by_prefix.out
        == unalike("runs", "show", "digits-fedprox").out
        == unalike("runs", "show", str(two["fedprox"])).out
    )
    own, rest = by_prefix.out.split("As by default:")
    for text in ("fedprox(mu=0.5)", "steps", "parties"):
        assert text in own
    for text in ("batch_size 32", "lr 0.1", "seed 0"):
        assert text in rest
        assert text not in own
    assert "Accuracy by round" in rest
    shown = unalike("runs", "show", key, "--json").json
    assert len(shown["rows"]) == 4
    assert shown["result"]["weights_sha256"]


def test_show_unknown_or_ambiguous(unalike, two):
    ambiguous = unalike("runs", "show", "digits")
    assert ambiguous.code == 2
    assert all(run.name in ambiguous.err for run in two.values())
    near = two["fedavg"].name[:-1] + "x"
    assert f"Did you mean '{two['fedavg'].name}'?" in unalike("runs", "show", near).err
    assert unalike("runs", "show", "zz").err == (
        "Error: No run in runs has a name that begins with 'zz'. See: unalike runs list --runs runs\n"
    )


def test_compare(unalike, two):
    keys = [run.name.split("-")[-1] for run in two.values()]
    compared = unalike("runs", "compare", *keys, "--json")
    assert compared.err == ""
    assert [run["key"] for run in compared.json["runs"]] == keys
    assert compared.json["differing"] == ["algorithm"]
    assert compared.json["not_comparable"] == []
    result = json.loads((two["fedavg"] / "result.json").read_text())
    first = compared.json["runs"][0]
    assert (first["value"], first["bytes_up"], first["selected_value"]) == (
        result["accuracy"],
        result["bytes_up"],
        result["selected"]["accuracy"],
    )
    assert (first["mean_party"], first["worst_party"]) == (result["parties"]["mean"], result["parties"]["worst"])
    out = unalike("runs", "compare", *keys).out
    assert "parties' mean" in out
    assert "fedprox(0.5)" in out
    assert out.startswith("All: dataset digits, partition iid, parties 3, rounds 4, seed 0, ")
    assert compared.json["common"]["lr"] == 0.1
    assert f"rounds to {100 * compared.json['target']:.0f}%" in out


def test_rounds_to_the_common_target(unalike, two):
    for run, curve in zip(two.values(), ([0.2, 0.9, 0.3, 0.85], [0.1, 0.2, 0.8, 0.7]), strict=True):
        rows = read_run(run).rounds
        changed = [row | {"accuracy": value} for row, value in zip(rows, curve, strict=True)]
        write_anew(run, changed, accuracy=curve[-1])
    compared = unalike("runs", "compare", *(run.name for run in two.values()), "--json").json
    assert compared["target"] == 0.7  # what the weaker one ends with, not the peak of either
    assert [run["rounds_to_target"] for run in compared["runs"]] == [2, 3]


def write_anew(run, rows, **figures):
    """A finished run with other figures, sealed; None leaves one out."""
    result = read_run(run).result | figures
    (run / "rounds.jsonl").unlink()
    with RunDirectory.open(run) as folder:
        for row in rows:
            folder.append_round(row)
        folder.write_result({name: value for name, value in result.items() if value is not None})


def test_compare_warns_of_unlike_runs(unalike, two):
    other = unalike(*QUICK, "--seed", "3", "--partition", "label-dirichlet(1)").json["key"]
    answer = unalike("runs", "compare", "digits-fedprox", other)
    assert answer.code == 0
    assert answer.err.count("\n") == 1
    assert answer.err.startswith("Warning: these runs differ in partition, seed")
    everything = unalike("runs", "compare", "--json")
    assert len(everything.json["runs"]) == 3
    assert everything.json["not_comparable"] == ["partition", "seed"]
    longer = unalike(*QUICK, "--rounds", "5").json["key"]
    assert unalike("runs", "compare", "digits-fedprox", longer).err.startswith(
        "Warning: these runs differ in rounds"
    )


def test_compare_many_runs_has_a_row_for_each(unalike, two):
    for seed in range(1, 4):
        shutil.copytree(two["fedavg"], f"runs/digits-fedavg-{seed:016x}")
    common, empty, *lines = unalike("runs", "compare").out.splitlines()
    assert len(lines) == 1 + 5
    assert (common[:4], empty, lines[0].split()[0]) == ("All:", "", "run")


@pytest.mark.parametrize(
    ("partition", "shown"),
    [
        ("label-dirichlet(0.1)", "label-dirichlet(0.1)"),
        ("label-dirichlet(1, minimum=3)+label-noise(0.2)", "label-dirichlet(1.0, 3)+label-noise(0.2)"),
        ("natural", "natural"),
    ],
)
def test_partitions_are_listed_in_short(unalike, monkeypatch, partition, shown):
    monkeypatch.setenv("COLUMNS", "200")
    flags = ("--dataset", "heart", "--partition", partition, "--parties", "4", "--rounds", "1", "--steps", "1")
    assert unalike("run", *flags, "--quiet").code == 0
    for command in ("list", "compare"):
        assert unalike("runs", command).code == 0
    assert f" heart    {shown} " in unalike("runs", "list").out
    assert unalike("runs", "show", "heart").code == 0


def test_show_says_why_it_was_this_engine(unalike, two):
    assert "Engine: sequential (the run is too short" in unalike("runs", "show", two["fedavg"].name).out
    write_anew(two["fedavg"], read_run(two["fedavg"]).rounds, why_this_engine=None)  # as older versions wrote it
    shown = unalike("runs", "show", two["fedavg"].name)
    assert shown.code == 0
    assert "Engine:" not in shown.out
    assert states(unalike)[two["fedavg"].name] == "finished"


@pytest.fixture
def errors():
    """Two runs of a regression, the better one second."""
    for algorithm, values in (("fedavg", (90.0, 60.0, 53.27)), ("moon", (70.0, 55.0, 49.5))):
        write_run(Path("runs"), by="rmse", accuracies=values, algorithm=algorithm, parties=3)


def test_another_score_is_told_as_it_is(unalike, errors):
    listed = unalike("runs", "list", "--json").json["runs"]
    assert {(run["score"], run["value"]) for run in listed} == {("rmse", 53.27), ("rmse", 49.5)}
    header, *lines = unalike("runs", "list").out.splitlines()
    assert "rmse" in header.split()
    assert any("49.500" in line.split() for line in lines)
    shown = unalike("runs", "show", "digits-moon").out
    assert "RMSE by round: 70.000" in shown


def test_rounds_to_the_weakest_error(unalike, errors):
    compared = unalike("runs", "compare", "digits-fedavg", "digits-moon", "--json").json
    assert compared["target"] == 53.3  # a little worse than what the weaker one ends with
    assert [run["rounds_to_target"] for run in compared["runs"]] == [3, 3]
    assert compared["common"]["score"] == "rmse"
    out = unalike("runs", "compare").out
    assert "rounds to 53.3" in out
    assert "rmse, final" in out


def test_runs_of_different_scores_are_not_comparable(unalike, errors, two_scores):
    compared = unalike("runs", "compare", "--json")
    assert "differ in score" in compared.err.replace("differ in seed, score", "differ in score")
    assert (compared.json["target"], "score" in compared.json["differing"]) == (None, True)
    header, *lines = unalike("runs", "list").out.splitlines()
    assert header.split()[5:7] == ["score", "value"]
    assert {tuple(line.split()[5:7]) for line in lines} == {
        ("rmse", "53.270"),
        ("rmse", "49.500"),
        ("accuracy", "80.0%"),
    }


@pytest.fixture
def two_scores(errors):
    """A third run, by accuracy, of a time when no score was named."""
    write_run(Path("runs"), algorithm="fedavg", seed=7, parties=3)


def test_a_run_of_an_unknown_score_hides_no_other(unalike, errors):
    write_run(Path("runs"), by="glory", seed=9, parties=3)
    answer = unalike("runs", "list")
    assert answer.code == 0
    assert "its score 'glory' is not known here" in answer.err
    assert "49.500" in answer.out


def test_the_tree_of_a_clustered_run(unalike):
    algorithm = "cfl(eps1=9, eps2=0, across=1, most=3)"
    key = unalike(*QUICK, "--algorithm", algorithm, "--model", "mlp(4)").json["key"]
    again = [part for part in QUICK if part not in ("--json", "--quiet")]
    assert f"runs tree {key}" in unalike(*again, "--algorithm", algorithm, "--model", "mlp(4)").out
    lines = unalike("runs", "tree", key).out.splitlines()
    assert lines[0] == "node 0, parties 0, 1, 2, split in round 1"
    assert len(lines) == 3
    nodes = unalike("runs", "tree", key, "--json").json["nodes"]
    assert [node["parent"] for node in nodes] == [None, 0, 0]
    assert sorted(nodes[1]["parties"] + nodes[2]["parties"]) == nodes[0]["parties"] == [0, 1, 2]
    made = unalike("runs", "tree", key, "-o", "tree.svg", "--node", "1", "--weights", "one.safetensors")
    assert made.out.splitlines()[-2:] == ["tree.svg", "one.safetensors"]
    assert Path("tree.svg").read_text().lstrip().startswith("<?xml")

    from safetensors.torch import load_file

    assert load_file("one.safetensors").keys() == {"body.1.weight", "body.1.bias", "head.weight", "head.bias"}


def test_what_a_tree_needs(unalike):
    key = unalike(*QUICK).json["key"]
    assert "runs tree" not in unalike(*[part for part in QUICK if part not in ("--json", "--quiet")]).out
    assert "grows no tree of models" in unalike("runs", "tree", key).err
    assert "--node N and --weights FILE.safetensors go together" in unalike("runs", "tree", key, "--node", "1").err
    assert "-o must be a file whose name ends in .svg" in unalike("runs", "tree", key, "-o", "tree.gif").err
