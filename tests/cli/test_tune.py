"""``unalike tune``: the table, the study, the picture, mistakes; the same winner with any number of processes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from pathlib import Path

import pytest

import unalike as package

SETTING = {"dataset": "heart", "partition": "natural", "model": "mlp(4)", "rounds": 9, "steps": 1}
FLAGS = [word for name, value in SETTING.items() for word in (f"--{name}", str(value))]
SPACE = ["--space", "lr=log(1e-2,1)", "--space", "algorithm.mu=0.1,1"]
SEARCH = ["tune", *FLAGS, *SPACE, "--algorithm", "fedprox", "--trials", "4", "--seeds", "100,101"]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The search in one process that nobody disturbs: what it says, its runs, and how many rounds they have."""
    runs = tmp_path_factory.mktemp("reference")
    space = {"lr": "log(1e-2, 1)", "algorithm.mu": [0.1, 1]}
    result = package.tune(space, algorithm="fedprox", trials=4, seeds=[100, 101], runs=runs, **SETTING)
    return json.loads(json.dumps(result.to_dict())), runs, recorded(runs)


def tried(told):
    return [{name: value for name, value in one.items() if name != "why"} for one in told["tuned"]]


def recorded(runs):
    return sum(path.read_bytes().count(b"\n") for path in Path(runs).glob("*/rounds.jsonl"))


def test_the_table_and_the_study_of_a_search_that_is_done(unalike, reference):
    told, runs, _ = reference
    Path("folder").mkdir()
    answer = unalike(*SEARCH, "--runs", str(runs), "-o", "folder/chosen.toml", "--picture", "picture.svg")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    head = next(line for line in lines if line.startswith("trial"))
    assert head.split() == ["trial", "lr", "algorithm.mu", "round", "1", "round", "3", "round", "9"]
    assert sum("chosen" in line.split() for line in lines) == 1
    assert sum("untuned" in line.split()[1:2] for line in lines if line.split()) == 1
    assert told["tuned"][0]["why"] in answer.out
    assert Path("picture.svg").read_text().startswith("<?xml")
    (again,) = [line.removeprefix("Next: ") for line in lines if line.startswith("Next: ")]
    follow = unalike(*shlex.split(again)[1:], "--quiet", "--workers", "1")
    assert follow.code == 0, follow.err
    assert "3 of 3 runs done" in follow.out
    assert "untuned" in follow.out


def test_json_is_the_same_as_from_python_and_plays_nothing(unalike, reference):
    told, runs, _ = reference
    before = recorded(runs)
    answer = unalike(*SEARCH, "--runs", str(runs), "--json", "--quiet")
    assert answer.json == told
    assert recorded(runs) == before


@pytest.mark.federation
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX signals")
def test_two_processes_that_are_killed_in_the_middle_come_to_the_same_winner(
    start, own_process, reference, tmp_path
):
    told, _, whole = reference
    process = start(*SEARCH, "--runs", "other", "--workers", "2", "--json", start_new_session=True)
    end = time.monotonic() + 100
    while recorded(tmp_path / "other") < whole // 3:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    killed_at = recorded(tmp_path / "other")
    answer = own_process(*SEARCH, "--runs", "other", "--workers", "1", "--json", "--quiet")
    assert answer.code == 0, answer.err
    assert tried(answer.json) == tried(told)
    assert killed_at <= recorded(tmp_path / "other") == whole


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to tune"),
        (["--space", "lr"], "Cannot read --space"),
        (["--space", "lrr=1,2"], "Unknown field that can be tuned"),
        (["--space", "lr=log(1,0)"], "smaller number to a larger"),
        (["--space", "lr=1,2", "--seeds", "0,7"], "for tuning and for reporting"),
        (["--space", "lr=1,2", "--seeds", "a"], "--seeds must be whole numbers"),
        (["--space", "lr=1,2", "--reporting-seeds", ""], "--reporting-seeds must be whole numbers"),
        (["--space", "lr=1,2", "--budget", "5"], "not enough for one trial"),
        (["--space", "lr=1,2", "--trials", "9", "--budget", "200"], "need a budget of"),
        (["--space", "lr=1,2", "-o", "x.txt"], "-o must be a file whose name ends in .toml"),
        (["--space", "lr=1,2", "--picture", "x.gif"], "--picture must be a file"),
        (["--space", "lr=1,2", "--lr", "0.1"], "lr is given and in the space"),
        (["--space", "lr=1,2", "--workers", "0"], "--workers must be at least 1"),
        (["--space", "lr=1,2", "--validation", "0"], "validation must be above 0"),
        (["--space", "algorithm.mu=1,2"], "no free parameter of fedavg"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing_behind(unalike, words, said):
    answer = unalike("tune", *words)
    assert answer.code == 2
    assert said in answer.err
    assert len(answer.err.splitlines()) == 1
    assert not list(Path().iterdir())
