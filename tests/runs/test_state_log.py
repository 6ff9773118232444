"""Runs of which many parties keep something: stopped anywhere and with any damage, they come to the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import torch

from unalike import RunSpec, run
from unalike.errors import UserError
from unalike.rounds import party_states
from unalike.rounds.party_states import PartyStates
from unalike.rounds.state import State
from unalike.runs import state_log
from unalike.runs.checkpoint import Checkpoint, Damaged
from unalike.runs.small import small_dataset
from unalike.runs.state_log import StateLog
from unalike.runs.watcher import Watcher

SPEC = RunSpec(
    **{"partition": "iid", "parties": 12, "model": "mlp(6,4)", "epochs": 1, "sample": 0.34, "rounds": 6},
    algorithm="scaffold",
    seed=4,
)


@pytest.fixture(autouse=True)
def packed(monkeypatch):
    monkeypatch.setattr(party_states, "FEW", 2)


def play(folder=None, until=None, spec=SPEC):
    """Play the spec on small rows, a checkpoint after every round; its digest where it came to its end."""
    done = run(spec, data=small_dataset(), runs=folder, until=until, checkpoint_seconds=0)
    return done.figures["weights_sha256"] if until is None else None


def listened(folder):
    """Go on to the end, and what was said meanwhile."""
    said = []

    class Listener(Watcher):
        def say(self, line):
            said.append(line)

    return run(SPEC, data=small_dataset(), runs=folder, watcher=Listener(), checkpoint_seconds=0), said


def the(folder, pattern):
    (found,) = folder.glob(f"*/{pattern}")
    return found


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"algorithm": "ditto"},  # personal models: the state of the selected round goes by the log as well
        {"algorithm": "fedavg", "channel": "topk(0.2)"},  # what channels keep
        {"algorithm": "fedper", "cohort": "clustered"},
    ],
)
def test_stopped_and_not_packed_runs_have_the_same_bits(more, tmp_path, monkeypatch):
    spec = RunSpec.from_mapping({**SPEC.to_dict(), **more})
    play(tmp_path, 3, spec)
    assert the(tmp_path, "states-001.log").stat().st_size > 0
    stopped = play(tmp_path, None, spec)
    figures = run(spec, data=small_dataset(), runs=tmp_path).figures
    monkeypatch.setattr(party_states, "FEW", 1000)
    plain = run(spec, data=small_dataset())
    assert stopped == plain.figures["weights_sha256"]
    assert figures["selected"] == plain.figures["selected"]
    assert figures.get("personal") == plain.figures.get("personal")


def test_what_a_killed_save_left_is_cut_off(tmp_path):
    play(tmp_path, 3)
    log = the(tmp_path, "states-001.log")
    whole = log.read_bytes()
    log.write_bytes(whole + whole[: len(whole) // 3])
    play(tmp_path, 5)
    done, said = listened(tmp_path)  # from what was appended after that
    assert said == ["Going on after round 5 of 6."]
    assert done.figures["weights_sha256"] == play()


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_damage_is_said_and_made_again(damage, tmp_path):
    play(tmp_path, 3)
    log = the(tmp_path, "states-001.log")
    data = bytearray(log.read_bytes())
    data[-30] ^= 1
    if damage == "gone":
        log.unlink()
    else:
        log.write_bytes(data if damage == "flip" else data[:-1])
    done, said = listened(tmp_path)
    assert done.figures["weights_sha256"] == play()
    assert "is damaged" in said[0]
    assert ("starting over" if damage == "gone" else "going on from checkpoint-000002") in said[0]


def test_a_file_that_is_mostly_old_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(state_log, "_SMALL", 0)
    spec = RunSpec.from_mapping({**SPEC.to_dict(), "algorithm": "ditto", "rounds": 16})
    play(tmp_path, 13, spec)
    log = the(tmp_path, "states-*.log")  # one: those before it are gone
    assert log.name != "states-001.log"
    assert play(tmp_path, None, spec) == play(None, None, spec)


def test_a_full_disk_keeps_what_was_saved(tmp_path, monkeypatch):
    play(tmp_path, 2)
    with monkeypatch.context() as patch:

        def full(file, data):
            file.write(data[: len(data) // 2])
            raise OSError(28, "No space left on device")

        patch.setattr(state_log, "write_all", full)
        with pytest.raises(UserError, match=r"No space left for .*states-001\.log"):
            play(tmp_path, 5)
    assert play(tmp_path) == play()


def test_killed_anywhere_it_comes_to_the_same_bits(tmp_path):
    code = (
        "import os, signal\n"
        "from unalike.rounds import party_states\n"
        "from unalike.runs import state_log, folder\n"
        "party_states.FEW = 2\n"
        "from tests.runs.test_state_log import play\n"
        "from pathlib import Path\n"
        "left = [int(os.environ['LEFT'])]\n"
        "def die(real):\n"
        "    def write(*given):\n"
        "        left[0] -= 1\n"
        "        if left[0] < 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return real(*given)\n"
        "    return write\n"
        "state_log.write_all = die(state_log.write_all)\n"
        "state_log.StateLog.saved = die(state_log.StateLog.saved)\n"
        "play(Path(os.environ['RUNS']))\n"
    )
    for left in (5, 2):  # in a write of the log, and after a checkpoint
        around = {**os.environ, "LEFT": str(left), "RUNS": str(tmp_path)}
        ended = subprocess.run([sys.executable, "-c", code], env=around, capture_output=True, check=False)
        assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert play(tmp_path) == play()


def state(round, kept):
    return State(round, {}, torch.zeros(0), kept)


def test_a_checkpoint_of_before_the_log_is_read(tmp_path):
    plain = {number: {"w": torch.full((2,), float(number))} for number in range(5)}
    found = StateLog(tmp_path).state_of(Checkpoint(3, state(3, plain).tensors()), lambda tensors: tensors)
    assert found.digest() == state(3, plain).digest()


def test_an_append_writes_what_changed_alone(tmp_path):
    log, kept = StateLog(tmp_path), PartyStates({number: {"w": torch.zeros(1000)} for number in range(50)})
    assert log.begins_anew(state(1, kept))
    first = log.append(state(1, kept))["states"]
    after = kept.put({7: {"w": torch.ones(1000)}, 60: {"values/numbers": torch.ones(3)}})
    assert not log.begins_anew(state(2, after))
    second = log.append(state(2, after))["states"]
    assert second["bytes"] - first["bytes"] < 2 * 4000 < first["bytes"]
    for about, expected in ((first, kept), (second, after)):
        found = StateLog(tmp_path).state_of(Checkpoint(1, {"buffers": torch.zeros(0)}, {"states": about}), dict)
        assert found.digest() == state(1, expected).digest()
    wrong = {**second, "digests": first["digests"]}
    with pytest.raises(Damaged, match="not what was saved"):
        StateLog(tmp_path).state_of(Checkpoint(1, {"buffers": torch.zeros(0)}, {"states": wrong}), dict)


def test_names_are_no_more_for_more_parties(tmp_path):
    log, kept = StateLog(tmp_path), PartyStates({number: {"w": torch.zeros(1)} for number in range(20_000)})
    log.begins_anew(state(1, kept))
    log.append(state(1, kept))
    data = (tmp_path / "states-001.log").read_bytes()
    header = int.from_bytes(data[8:16], "little")
    assert header < 2000  # 100,000,000 is where safetensors stops
