"""A study over three hosts, one of which is killed: every run is made once, with the bits of one process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.network import Hosts, needs_namespaces
from unalike.runs.run import run
from unalike.studies.plan import plan_study
from unalike.studies.study_file import read_study

pytestmark = [
    pytest.mark.federation,
    needs_namespaces,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray"),
]

STUDY = """
title = "six"
seeds = [0, 1]
[base]
dataset = "digits"
rounds = 60
steps = 2
validation = 0.0
engine = "sequential"
[axes]
algorithm = ["fedavg", "scaffold", "fedprox(0.1)"]
"""
UNALIKE = [sys.executable, "-c", "from unalike.cli.start import main; main()"]


@pytest.mark.parametrize("ship", [True, False], ids=["shipped", "shared"])
def test_a_study_survives_a_killed_host(tmp_path, ship):
    """The host is killed as soon as a process on it has begun a run."""
    alone = {
        goal.planned.spec.folder: run(goal.planned.spec).figures["weights_sha256"]
        for goal in plan_study(read_study("six", STUDY, "six.toml")).goals
    }
    (tmp_path / "six.toml").write_text(STUDY)
    flags = ["--on", "ray", "--runs", "runs", *(["--ship"] if ship else [])]
    with Hosts("head", "a", "b") as hosts:
        hosts.start_ray()
        study = hosts.start(
            "head",
            *UNALIKE,
            *["study", "run", "six.toml", "--cluster", hosts.address, *flags],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not busy(hosts, "b"):
            assert study.poll() is None, study.communicate()
            time.sleep(0.05)
        hosts.kill("b")
        out, err = study.communicate(timeout=120)
    assert study.returncode == 0, err
    assert "6 of 6 runs done, 0 failed." in out
    assert re.search(r"A worker was lost \(.+\); its run goes on in another: digits-", err)
    ended = re.findall(r"^(\d)/6 ", err, re.MULTILINE)
    assert ended == list("123456")  # each once
    results = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.glob("runs/*/result.json")}
    assert {name: each["weights_sha256"] for name, each in results.items()} == alone


def busy(hosts, name):
    """Whether a process makes a run there, as Ray titles its processes."""
    found = subprocess.run(
        ["ip", "netns", "pids", hosts._space(name)], capture_output=True, text=True, check=False
    ).stdout.split()
    titles = []
    for pid in found:
        with suppress(OSError):
            titles.append(Path(f"/proc/{pid}/cmdline").read_bytes())
    return any(b"ray::make_there" in title for title in titles)
