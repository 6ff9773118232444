"""A run that was stopped, killed or damaged ends with the same bits as one that was not."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import unalike.cli.main as cli
from unalike.runs.record import read_run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX signals")

KILLS = 20
RUN = (
    *("run", "--algorithm", "fedavg", "--dataset", "digits", "--partition", "label-dirichlet(0.1)"),
    *("--parties", "10", "--rounds", "30", "--epochs", "1", "--seed", "1", "--json"),
)

# Pays for the imports once, then forks: each child runs the command line and gets a SIGKILL, after a time or
# when its file of rounds has so many lines. Says how each child ended.
DRIVER = """
import json, os, signal, sys, time
from pathlib import Path
from unalike import run
from unalike.cli.main import call
run(rounds=1, steps=1)
for line in sys.stdin:
    args, folder, seconds, rounds = json.loads(line)
    child = os.fork()
    if not child:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        os._exit(call(args))
    ended, began = 0, time.monotonic()
    while not ended and time.monotonic() - began < seconds:
        files = list(Path(folder).glob("*/rounds.jsonl"))
        if rounds and files and files[0].read_bytes().count(b"\\n") >= rounds:
            break
        time.sleep(0.001)
        ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        os.kill(child, signal.SIGKILL)
        ended, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


def figures(folder):
    """The recorded rounds without the time they took, and the weights at the end."""
    (run,) = Path(folder).iterdir()
    found = read_run(run, weights=True)
    assert found.result is not None, found.damage
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in found.rounds]
    return rows, found.result["weights_sha256"]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The run without any interruption."""
    from unalike.cli.main import call

    folder = tmp_path_factory.mktemp("reference")
    assert call([*RUN, "--quiet", "--runs", str(folder)]) == 0
    return figures(folder)


def test_kills_at_random_moments(start, own_process, reference):
    rng = random.Random(int.from_bytes(os.urandom(4)))
    state = rng.getstate()
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # a fork has no other threads, and would wait for them
    )
    folders, ends = ["0"], []
    try:
        for _ in range(3):  # real commands, killed while they import
            process = start(*RUN, "--checkpoint-seconds", "0", "--runs", folders[-1])
            time.sleep(rng.uniform(0.02, 3))
            process.kill()
            ends.append(process.wait())
        while ends.count(-signal.SIGKILL) < KILLS:
            args = [*RUN, "--checkpoint-seconds", rng.choice(["0", "0.05", "60"]), "--runs", folders[-1]]
            # Some at a certain round, the last one among them, when the result is about to be written.
            rounds = rng.choice([0, 0, 0, rng.randrange(1, 30), 30])
            order = [args, folders[-1], rng.uniform(0.05, 1.5) if not rounds else 30, rounds]
            driver.stdin.write(json.dumps(order) + "\n")
            driver.stdin.flush()
            ends.append(int(driver.stdout.readline()))
            if Path(folders[-1]).exists() and list(Path(folders[-1]).glob("*/result.json")):
                folders.append(str(len(folders)))
    finally:
        driver.kill()
        driver.communicate()
    assert set(ends) <= {0, -signal.SIGKILL}, f"a life ended by itself: {ends}, {state[1][:2]}"
    if Path(folders[-1]).exists():
        assert own_process(*RUN, "--runs", folders[-1]).code == 0
    for folder in filter(os.path.exists, folders):
        assert figures(folder) == reference


def test_ctrl_c_and_terminate(start, tmp_path):
    command = (
        "run",
        "--rounds",
        "40",
        "--steps",
        "20",
        "--seed",
        "3",
        "--json",
        "--partition",
        "label-dirichlet(0.5)",
    )
    for number, text in ((signal.SIGINT, "round  3/40"), (signal.SIGTERM, "round 12/40")):
        process = start(*command)
        for line in process.stderr:
            if line.startswith(text):
                break
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (130, "")
        last = err.splitlines()[-1]
        stopped = re.fullmatch(r"Stopped after round (\d+) of 40\. Go on with: (.*)", last)
        assert stopped
        assert int(stopped[1]) >= int(text.split()[1].split("/")[0])
        assert shlex.split(stopped[2]) == ["unalike", *command]
        assert "Traceback" not in err
    from unalike.cli.main import call

    assert call([*command, "--quiet"]) == 0
    assert call([*command, "--quiet", "--runs", "whole"]) == 0
    assert figures("runs") == figures("whole")


def test_resumed_run_says_where_it_goes_on(start, unalike):
    command = ("run", "--rounds", "40", "--steps", "20", "--json")
    process = start(*command)
    next(line for line in process.stderr if line.startswith("round  2/40"))
    refused = unalike(*command)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("Error: ")
    assert f"in use by another process (pid {process.pid})" in refused.err
    assert refused.err.count("\n") == 1
    assert unalike("runs", "list", "--json").json["runs"][0]["state"] == "running"
    process.send_signal(signal.SIGINT)
    done = re.search(r"Stopped after round (\d+) ", process.communicate(timeout=60)[1])
    assert done
    lines = unalike(*command).err.splitlines()
    assert lines[0] == f"Going on after round {done[1]} of 40."
    assert lines[1].split()[:2] == ["round", f"{int(done[1]) + 1}/40"]


def test_stop_during_start_up(start):
    process = start("run", "--rounds", "2000")
    time.sleep(0.4)  # torch is being imported
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.startswith("Stopped")
    assert err.endswith("Go on with: unalike run --rounds 2000\n")


def test_stop_during_an_import_that_swallows_everything(start, tmp_path):
    plugin = tmp_path / "stubborn.py"
    plugin.write_text(
        "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException:\n    pass\n"
    )
    process = start("run", "--rounds", "1", "--plugin", str(plugin))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err == f"Stopped. Go on with: unalike run --rounds 1 --plugin {plugin}\n"


@pytest.mark.parametrize("damaged", [1, 2])
def test_damaged_checkpoint(unalike, damaged):
    command = ("run", "--parties", "3", "--rounds", "6", "--steps", "2", "--json", "--checkpoint-seconds", "0")
    whole = unalike(*command).json
    run = Path(whole["run_dir"])
    (run / "result.json").unlink()
    checkpoints = sorted(run.glob("checkpoint-*.safetensors"))
    assert len(checkpoints) == 2
    for path in checkpoints[-damaged:]:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    again = unalike(*command)
    assert again.code == 0
    assert again.json["weights_sha256"] == whole["weights_sha256"]
    expected = "going on from checkpoint-000005" if damaged == 1 else "starting over"
    assert again.err.splitlines()[0] == f"checkpoint-000006 is damaged (checksum); {expected}"


def test_only_the_algorithm_that_was_auto_is_named_in_its_place(capfd):
    words = ["run", "--algorithm", "auto", "--device", "auto", "--engine", "auto", "--rounds", "3"]
    for args in (words, ["run", "--algorithm=auto", *words[3:]]):
        assert cli._stopped(args, " after round 1", ["--algorithm", "fedavg"]) == 130
        line = capfd.readouterr().err.strip()
        assert line.endswith("unalike run --device auto --engine auto --rounds 3 --algorithm fedavg")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 8 TB")]
)
def test_too_little_memory_is_one_line(monkeypatch, capfd, error):
    def fail():
        raise error

    monkeypatch.setattr(cli, "_entry", fail)
    assert cli.call(["run"]) == 2
    assert capfd.readouterr().err.startswith("Error: There is not enough memory for that. ")
    monkeypatch.setattr(cli, "_entry", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.call(["run"])
