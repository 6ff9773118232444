"""``--model module:FILE.py:NAME`` wherever a model stands, and what may not run a file."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from unalike import own_files

NETS = """
import math
from torch import nn
from parts import hidden
class Net(nn.Module):
    def __init__(self, shape, classes, width=4):
        super().__init__()
        self.fc = nn.Linear(width, classes)
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), width), hidden())
    def forward(self, x):
        return self.fc(self.body(x))
"""
RUN = ("run", "--parties", "3", "--rounds", "1", "--steps", "1", "--json", "--quiet")
STUDY = """
title = "Own nets"
seeds = [0]
[base]
rounds = 1
steps = 1
validation = 0.0
[axes]
model = ["module:nets.py:Net(width=5)", "logistic"]
algorithm = ["fedavg"]
"""


@pytest.fixture(autouse=True)
def _files(monkeypatch):
    monkeypatch.setattr(own_files, "_allowed", set())
    Path("nets.py").write_text(NETS)
    Path("parts.py").write_text("from torch import nn\nprint('was run')\ndef hidden():\n    return nn.ReLU()\n")


def test_a_net_of_a_file(unalike):
    first = unalike(*RUN, "--model", "module:nets.py:Net(width=6, head=fc)")
    assert first.code == 0, first.err
    assert first.json["weights"] == 64 * 6 + 6 + 6 * 10 + 10
    assert first.json["spec"]["model"] == "module(where='nets.py:Net', head='fc', width=6)"
    assert "was run" in first.err  # and not in the answer
    Path("parts.py").write_text(Path("parts.py").read_text().replace("ReLU", "Tanh"))
    second = unalike(*RUN, "--model", "module:nets.py:Net(width=6, head=fc)")
    assert second.json["key"] != first.json["key"]
    assert second.json["weights_sha256"] != first.json["weights_sha256"]


def test_a_spec_runs_no_file_that_the_user_has_not_named(unalike, monkeypatch):
    first = unalike(*RUN, "--model", "module:nets.py:Net").json
    spec = str(next(Path("runs").glob("*/spec.toml")))
    monkeypatch.setattr(own_files, "_allowed", set())
    monkeypatch.setattr(own_files, "_loaded", {})
    refused = unalike("run", "--spec", spec, "--runs", "other")
    assert refused.code == 2
    assert "code that nobody has named here" in refused.err
    assert "parts.py (SHA-256" in refused.err
    assert "was run" not in refused.err
    assert not Path("other").exists()
    taken = unalike("run", "--spec", spec, "--runs", "other", "--plugin", "nets.py", "--json", "--quiet")
    assert taken.json["weights_sha256"] == first["weights_sha256"]


def test_a_study_of_own_nets(unalike):
    Path("own.toml").write_text(STUDY)
    refused = unalike("study", "run", "own.toml", "--quiet", "--workers", "1")
    assert refused.code == 2
    assert "nobody has named here" in refused.err
    assert not Path("runs").exists()
    answer = unalike("study", "run", "own.toml", "--quiet", "--workers", "1", "--plugin", "nets.py")
    assert answer.code == 0, answer.err
    assert "2 of 2 runs done" in answer.out


def test_weights_to_begin_with_and_frozen_layers(unalike):
    model = ("--model", "module:nets.py:Net")
    first = unalike(*RUN, *model).json
    both = ("--init", first["run_dir"], "--freeze", "body.1")
    answer = unalike(*RUN, *model, *both)
    assert answer.json["weights"] == 4 * 10 + 10
    assert unalike("run", "--freeze", "bodi.1").err.startswith("Error: Unknown layer to freeze 'bodi.1'. Did you")


def test_a_file_that_is_not_said_to_be_code(unalike):
    for text in ("nets.py", "nets.py:Net", "nets.py:Net(width=3)"):
        answer = unalike("run", "--model", text)
        assert (answer.code, answer.err.count("\n")) == (2, 1)
        assert "Say that it is code: module:FILE.py:NAME." in answer.err


def test_the_next_command_allows_the_file_that_the_run_had(unalike, monkeypatch):
    Path("a b").mkdir()
    Path("nets.py").rename("a b/nets.py")
    Path("parts.py").rename("a b/parts.py")
    answer = unalike(*RUN[:-2], "--model", "module:a b/nets.py:Net(width=3)")
    (line,) = (line for line in answer.out.splitlines() if " predict " in line)
    np.save("rows.npy", np.zeros((2, 1, 8, 8), np.float32))
    monkeypatch.setattr(own_files, "_allowed", set())
    assert unalike(*shlex.split(line)[1:]).code == 0
    assert len(Path("predictions.csv").read_text().splitlines()) == 3
