"""A study survives what becomes of its processes. Most tests employ a process that trains nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from unalike.errors import UserError
from unalike.runs.claim import is_busy
from unalike.runs.folder import RunDirectory
from unalike.runs.run import record_failure, run
from unalike.studies import workers
from unalike.studies.plan import plan_study
from unalike.studies.presence import Presence, running, stop
from unalike.studies.schedule import Schedule
from unalike.studies.store import Store
from unalike.studies.study import study_results
from unalike.studies.study_file import load_study, read_study
from unalike.studies.workers import Runner, StudyStopped, StudyWatcher

FAKE = Path(__file__).with_name("fake_worker.py")
posix = pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX signals")

STUDY = """
    title = "small"
    seeds = [0, 1]
    [base]
    rounds = 2
    steps = 1
    validation = 0.0
    [axes]
    algorithm = ["fedavg", "fednova", "fedprox"]
    [tune.fedprox]
    mu = [0.1, 1.0]
"""
TOTAL = 8


class Ear(StudyWatcher):
    def __init__(self):
        self.ended, self.said, self.moves = [], [], []

    def run_ended(self, record):
        self.ended.append(record)

    def say(self, message):
        self.said.append(message)

    def progress(self, now):
        self.moves.append(now)


def small():
    return read_study("small", STUDY, "small.toml")


def employ(runs, habits=None, **options):
    ear = Ear()
    command = [sys.executable, str(FAKE), json.dumps(habits or {})]
    runner = Runner(small(), runs, workers=options.pop("workers", 2), watcher=ear, command=command, **options)
    return runner, ear


def tries(runs):
    """How often each run was tried."""
    return {path.name: path.stat().st_size for path in (runs / "log").iterdir()}


def test_every_run_is_made_once_and_kept(tmp_path):
    runner, ear = employ(tmp_path)
    kept = []

    def look(record):  # at once, so that a killed study's results can be asked for
        with sqlite3.connect(tmp_path / "results.sqlite") as base:
            kept.append(base.execute("SELECT state FROM runs WHERE key = ?", (record.key,)).fetchone())
        ear.ended.append(record)

    ear.run_ended = look
    schedule = runner.run()
    assert {record.state for record in schedule.records.values()} == {"finished"}
    assert len(ear.ended) == len(schedule.records) == TOTAL
    assert kept == [("finished",)] * TOTAL
    assert set(tries(tmp_path).values()) == {1}
    with Store(tmp_path) as store:
        assert len(store.rows()) == TOTAL
    last = ear.moves[-1]
    assert (last.done, last.running, last.total, last.part) == (TOTAL, 0, TOTAL, 1.0)
    again, heard = employ(tmp_path)
    again.run()
    assert set(tries(tmp_path).values()) == {1}
    assert heard.ended == []


def test_a_run_that_kills_its_process_three_times_has_failed(tmp_path):
    runner, ear = employ(tmp_path, {"fednova": ["die"]})
    schedule = runner.run()
    failures = [record for record in schedule.records.values() if record.state == "failed"]
    assert {record.problem for record in failures} == {"the process was killed (signal 9): out of memory?"}
    assert len(failures) == 2
    assert sorted(tries(tmp_path).values()) == [1] * 6 + [3, 3]
    assert all("goes on in another" in line for line in ear.said)
    results = study_results(small(), tmp_path)
    assert (results.done, results.total, len(results.failed)) == (6, TOTAL, 2)
    employ(tmp_path)[0].run()  # not again by itself
    assert sorted(tries(tmp_path).values()) == [1] * 6 + [3, 3]
    employ(tmp_path, retry=True)[0].run()
    assert study_results(small(), tmp_path).done == TOTAL


def test_a_process_that_ends_by_itself_is_not_called_killed(tmp_path):
    schedule = employ(tmp_path, {"fednova": ["exit"]})[0].run()
    problems = {record.problem for record in schedule.records.values() if record.state == "failed"}
    assert problems == {"the process ended by itself (exit code 7)"}


@pytest.mark.parametrize("word", ["die", "exit", "silent"])
def test_a_lost_process_is_replaced_and_its_run_tried_again(tmp_path, word):
    runner, _ = employ(tmp_path, {"*": [word, "done"]})
    schedule = runner.run()
    assert {record.state for record in schedule.records.values()} == {"finished"}
    assert set(tries(tmp_path).values()) == {2}


def test_a_failed_run_does_not_stop_the_study(tmp_path):
    runner, _ = employ(tmp_path, {"fednova": ["failed"]})
    runner.run()
    results = study_results(small(), tmp_path)
    assert [record.problem for record in results.failed] == ["it diverged"] * 2
    assert results.done == TOTAL - 2
    (setting,) = results.settings
    assert {line.algorithm: line.value for line in setting.lines}["fednova"] is None


def test_a_failure_that_the_process_could_not_note_is_noted_and_not_tried_for_ever(tmp_path):
    runner, _ = employ(tmp_path, {"fednova": ["lost"]})
    runner.run()
    assert sorted(tries(tmp_path).values()) == [1] * TOTAL
    results = study_results(small(), tmp_path)
    assert [record.problem for record in results.failed] == ["the file is gone"] * 2
    employ(tmp_path)[0].run()  # it may be there next time
    assert study_results(small(), tmp_path).done == TOTAL


def test_failed_tuning_ends_the_study_too(tmp_path):
    runner, _ = employ(tmp_path, {"fedprox": ["failed"]})
    runner.run()
    results = study_results(small(), tmp_path)
    assert (results.done, len(results.failed)) == (4, 4)
    assert results.tuned == {}


def test_a_run_that_another_process_has_is_left_for_later(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "LEFT_SECONDS", 0.05)
    runner, _ = employ(tmp_path, {"fedavg": ["busy", "busy", "done"]})
    schedule = runner.run()
    assert {record.state for record in schedule.records.values()} == {"finished"}
    assert sorted(tries(tmp_path).values()) == [1] * 6 + [3, 3]


def test_processes_that_cannot_start_are_one_line(tmp_path):
    with pytest.raises(UserError, match=r"A worker process cannot start \(exit code 3\): no torch here"):
        employ(tmp_path, {"start": "no torch here"})[0].run()
    with pytest.raises(UserError, match="--workers must be at least 1, got 0"):
        employ(tmp_path, workers=0)


def test_a_full_disk_stops_the_study(tmp_path):
    with pytest.raises(UserError, match="No space left"):
        employ(tmp_path, {"*": ["broken"]})[0].run()


def test_stop_from_another_terminal_saves_first(tmp_path):
    runner, ear = employ(tmp_path, {"*": ["hang"]}, workers=1)
    asked = []

    def other():
        while not ear.moves or not ear.moves[-1].running:
            time.sleep(0.01)
        asked.append(stop(tmp_path, "small"))

    terminal = threading.Thread(target=other)
    terminal.start()
    with pytest.raises(StudyStopped):
        runner.run()
    terminal.join(timeout=10)
    assert asked == [(1, 0)]
    assert (tmp_path / "saved").exists()
    assert stop(tmp_path, "small") == (0, 0)
    assert list((tmp_path / ".studies").iterdir()) == []


def test_presence_is_told_by_a_lock_not_by_a_number(tmp_path):
    with Presence(tmp_path, "small") as here, Presence(tmp_path, "small.2"):
        assert len(running(tmp_path, "small")) == 1
        assert len(running(tmp_path, "small.2")) == 1
        assert not here.asked_to_stop
    # What a killed study leaves: the number in its name may be anybody's by now.
    stale = tmp_path / ".studies" / f"small.{os.getpid()}-00000000.running"
    stale.touch()
    assert stop(tmp_path, "small") == (0, 0)
    assert not stale.exists()


def test_whether_a_run_is_busy(tmp_path):
    assert not is_busy(tmp_path / "none")
    with RunDirectory.open(tmp_path / "run"):
        assert is_busy(tmp_path / "run")
    assert not is_busy(tmp_path / "run")


def test_two_studies_share_runs_and_store(tmp_path):
    """Two processes of one study at once: every run is made once, by one of them."""
    code = (
        "import sys; from tests.studies.test_workers import employ; from pathlib import Path; "
        "employ(Path(sys.argv[1]))[0].run()"
    )
    root = Path(__file__).parents[2]
    both = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=root) for _ in range(2)]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    with Store(tmp_path) as store:
        assert {row["state"] for row in store.rows()} == {"finished"}
        assert len(store.rows()) == TOTAL


# Real processes from here on.

TINY = """
    title = "tiny"
    seeds = [0, 1]
    [base]
    dataset = "digits"
    partition = "label-dirichlet(0.5)"
    parties = 5
    rounds = 12
    epochs = 1
    validation = 0.0
    [axes]
    algorithm = ["fedavg", "fedprox", "scaffold"]
    [tune.fedprox]
    mu = [0.01, 1.0]
"""
LIFE = """
import sys
from pathlib import Path
from unalike.studies.study_file import load_study
from unalike.studies.workers import Runner
Runner(load_study(sys.argv[1]), Path(sys.argv[2]), workers=2, checkpoint_seconds=0.05).run()
"""


def live(study, runs):
    return subprocess.Popen([sys.executable, "-c", LIFE, str(study), str(runs)], start_new_session=True)


def children(pid):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def weights(runs):
    return {
        path.parent.name: json.loads(path.read_text())["weights_sha256"] for path in runs.glob("*/result.json")
    }


def check_ended(study, runs, stamps, alone):
    """Each run is there once, as an undisturbed process makes it, and in the store."""
    for name, stamp in stamps.items():  # what had ended was not made again
        assert (runs / name / "result.json").stat().st_mtime_ns == stamp
    schedule = Schedule(plan_study(load_study(study)), runs)
    assert schedule.over
    assert len(weights(runs)) == len(schedule.records) == 8
    assert weights(runs) == weights(alone)
    with Store(runs) as store:
        assert store.sync() == 0
        assert sorted(row["folder"] for row in store.rows()) == sorted(weights(alone))
        assert len(store.rows(rounds=True)) == 8 * 12


@posix
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_kills_at_random_moments_lose_nothing(tmp_path):
    """Workers and whole studies are killed; each run ends once, with the weights of an undisturbed one."""
    study, alone = tmp_path / "tiny.toml", tmp_path / "alone"
    study.write_text(TINY)
    undisturbed = Schedule(plan_study(load_study(study)), alone)
    while (job := undisturbed.take()) is not None:
        run(job.spec, runs=alone)
        undisturbed.finished(job)
    rng = random.Random(seed := int.from_bytes(os.urandom(4)))
    print("seed", seed)
    lives, runs, stamps = int(os.environ.get("UNALIKE_KILLS", "3")), tmp_path / "0", {}
    for number in range(lives):
        process, kills = live(study, runs), 0
        end = time.monotonic() + rng.uniform(3, 9)
        while time.monotonic() < end and process.poll() is None:
            time.sleep(rng.uniform(0.1, 3))
            if kills < 2 and rng.random() < 0.5 and (found := children(process.pid)):
                os.kill(rng.choice(found), signal.SIGKILL)
                kills += 1  # a third one of the same run would rightly count as its failure
        if process.poll() is not None:
            assert process.returncode == 0
            check_ended(study, runs, stamps, alone)
            runs, stamps = tmp_path / str(number + 1), {}
            continue
        if number % 2:  # the processes that it employed are left, and must end by themselves
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for path in runs.glob("*/result.json"):
            assert stamps.setdefault(path.parent.name, path.stat().st_mtime_ns) == path.stat().st_mtime_ns
    assert live(study, runs).wait(timeout=300) == 0
    check_ended(study, runs, stamps, alone)


@posix
def test_a_real_worker_follows_orders(tmp_path, monkeypatch):
    """Runs, records what fails, keeps its own output apart, and saves when nobody needs it any more."""
    text = """
        title = "x"
        [base]
        rounds = 2
        steps = 2
        [axes]
        lr = [0.05, 1e20]
        dataset = ["digits", "svhn"]
    """
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    study = read_study("x", text, "x")
    runs = tmp_path / "runs"
    Runner(study, runs, workers=1).run()
    results = study_results(study, runs)
    assert (results.done, results.total) == (1, 4)
    reasons = sorted(record.problem for record in results.failed)
    assert reasons[1] == reasons[2]
    assert reasons[1].startswith("data not found: ")
    assert "Or name another --data-dir." in reasons[1]
    assert "finite" in reasons[0] or "diverged" in reasons[0] or "large" in reasons[0]
    # The data may be there next time; a divergence would only repeat.
    assert len(Schedule(plan_study(study), runs).pending) == 2
    (spec,) = (
        goal.planned.spec for goal in plan_study(read_study("y", "title='y'\n[base]\nrounds=100000", "y")).goals
    )
    worker = subprocess.Popen(
        [sys.executable, "-m", "unalike.studies.worker", str(runs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert json.loads(worker.stdout.readline()) == {"event": "ready"}
    order = {"key": spec.key, "spec": spec.to_dict(), "checkpoint_seconds": 1000}
    worker.stdin.write(json.dumps(order) + "\n")
    worker.stdin.flush()
    while json.loads(worker.stdout.readline()).get("round", 0) < 2:
        pass
    worker.send_signal(signal.SIGINT)  # Ctrl-C at the terminal is the study's to answer
    assert json.loads(worker.stdout.readline())["event"] == "round"
    worker.stdin.close()
    worker.stdout.read()
    assert worker.wait(timeout=30) == 0
    assert list((runs / spec.folder).glob("checkpoint-*"))


def test_recording_a_failure_needs_no_folder_before(tmp_path):
    (goal,) = plan_study(read_study("x", "title='x'", "x")).goals
    record_failure(tmp_path, goal.planned.spec, "no such data", final=False)
    assert study_results(read_study("x", "title='x'", "x"), tmp_path).failed[0].problem == "no such data"
