"""One run on three hosts: the bits of one process, through a killed host, a cut cable, the death of the head."""

import importlib.util
import json
import subprocess
import sys
import tempfile
import time

import pytest

from tests.engines.many.three_hosts import ThreeHosts, works_here

pytestmark = [
    pytest.mark.federation,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.skipif(not works_here(), reason="network namespaces need root and iproute2"),
]
WORK = ("--parties", "40", "--rounds", "40", "--epochs", "4", "--engine", "sequential", "--evaluate-every", "100")
SCAFFOLD = (*WORK, "--algorithm", "scaffold")
FEDREP = (*WORK, "--algorithm", "fedrep", "--channel", "quantise(8)")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The weights of one process, by what was run."""
    known = {}

    def of(*options):
        if options not in known:
            known[options] = one_process(tmp_path_factory.mktemp("alone"), *options)["weights_sha256"]
        return known[options]

    return of


def one_process(runs, *options):
    command = [sys.executable, "-m", "unalike", "run", "--runs", str(runs), "--quiet", "--json", *options]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.fixture
def hosts():
    with tempfile.TemporaryDirectory(prefix="un", dir="/tmp") as folder, ThreeHosts(folder) as made:
        yield made


def wait_for_rounds(runs, count, process):
    """Until so many rounds are recorded."""
    while True:
        lines = [line for path in runs.glob("*/rounds.jsonl") for line in path.read_text().splitlines()]
        if len(lines) >= count:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def wait_for_answers(hosts, host, process):
    """Until a worker on the host has joined and is at work: workers join while others train already."""
    while not hosts.answers(host):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def finished(process):
    out, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return json.loads(out)


def test_the_bits_of_one_process_and_a_killed_host(hosts, alone, tmp_path):
    found = finished(hosts.run(tmp_path, *FEDREP))
    assert found["weights_sha256"] == alone(*FEDREP)
    assert found["workers"]["hosts"] == 3
    process = hosts.run(tmp_path, *SCAFFOLD)
    wait_for_rounds(tmp_path, 42, process)  # those of the other run, and two
    wait_for_answers(hosts, "b", process)
    hosts.kill("b")
    found = finished(process)
    assert found["weights_sha256"] == alone(*SCAFFOLD)
    assert found["workers"]["lost_workers"] >= 1


def test_a_cut_cable_and_the_death_of_the_head(hosts, alone, tmp_path):
    process = hosts.run(tmp_path, *SCAFFOLD)
    wait_for_rounds(tmp_path, 2, process)
    wait_for_answers(hosts, "a", process)
    hosts.cut("a")
    found = finished(process)
    assert found["weights_sha256"] == alone(*SCAFFOLD)
    assert found["workers"]["lost_workers"] >= 1
    process = hosts.run(tmp_path, *FEDREP)
    wait_for_rounds(tmp_path, 42, process)
    hosts.kill("head")
    process.communicate()
    assert process.returncode != 0
    assert one_process(tmp_path, *FEDREP)["weights_sha256"] == alone(*FEDREP)
