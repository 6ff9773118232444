"""``unalike study work``, and the script on the page that starts it in a job array."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.base_install import parse
from tests.cli.test_study import STUDY
from unalike.cli.study.work import GO_ON

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


@pytest.fixture
def study():
    Path("two.toml").write_text(STUDY)
    return "two.toml"


def test_work_takes_runs_until_none_is_left(study, unalike):
    answer = unalike("study", "work", study, "--runs", "shared")
    assert answer.code == 0
    assert "12 of 12 runs done, 0 failed." in answer.out
    assert "unalike study report two.toml --runs shared" in answer.out
    assert not Path("shared/results.sqlite").exists()  # several hosts would write it
    again = unalike("study", "work", study, "--runs", "shared", "--no-wait")
    assert (again.code, again.err) == (0, "")
    done = unalike("study", "run", study, "--runs", "shared", "--quiet")  # whose report reads what others made
    assert done.code == 0
    assert "12 of 12 runs done" in done.out
    assert Path("shared/results.sqlite").exists()


LONG = "title = 'long'\n[base]\ndataset = 'digits'\nrounds = 2000\nsteps = 1\nengine = 'sequential'\n"


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs POSIX signals")
@pytest.mark.parametrize("name", ["SIGUSR1", "SIGTERM"])
def test_a_scheduler_that_ends_a_process_may_start_it_again(start, name):
    Path("long.toml").write_text(LONG)
    process = start("study", "work", "long.toml", "--runs", "shared")
    rounds = None
    while rounds is None or rounds.stat().st_size == 0:
        assert process.poll() is None
        rounds = next(Path("shared").glob("digits-*/rounds.jsonl"), None)
        time.sleep(0.02)
    process.send_signal(getattr(signal, name))
    out, err = process.communicate(timeout=60)
    assert process.returncode == GO_ON == 75
    assert out == ""
    assert err.startswith("Ended with 0 of 1 runs done; those that were under way are saved. Go on with: ")
    assert err.endswith("study work long.toml --runs shared\n")
    assert list(Path("shared").glob("digits-*/checkpoint-*"))
    assert not list(Path("shared").glob("digits-*/lease-*"))  # others may take it at once


def test_signals_are_as_they_were_after_work(study, unalike):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    assert unalike("study", "work", "none.toml").code == 2
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def script():
    """The job script on the page."""
    (found,) = [
        text
        for text in re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
        if "#SBATCH" in text
    ]
    return found


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(("ends", "requeued"), [(GO_ON, ["requeue 7_3"]), (0, []), (2, [])])
def test_the_job_script_goes_on_where_work_was_left(tmp_path, ends, requeued):
    """With programs in the place of SLURM's own, which cannot be tried here."""
    for name, body in {
        "srun": f'"$@"; exit {ends}',
        "unalike": 'echo "$@" > said',
        "scontrol": 'echo "$@" >> again',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "job.sh").write_text(script())
    place = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
    assert subprocess.run(["bash", "-n", "job.sh"], cwd=tmp_path, check=False).returncode == 0
    assert subprocess.run(["bash", "job.sh"], cwd=tmp_path, env=place, check=False).returncode == ends
    words = shlex.split((tmp_path / "said").read_text())
    assert words[:2] == ["study", "work"]
    assert parse(words)["study"].endswith(".toml")
    again = tmp_path / "again"
    assert (again.read_text().splitlines() if again.exists() else []) == requeued


def test_the_job_script_asks_for_the_signal_that_work_answers():
    options = dict(re.findall(r"^#SBATCH --([\w-]+)=?(\S*)", script(), re.MULTILINE))
    assert options.keys() >= {"array", "requeue", "signal", "time"}
    name, seconds = options["signal"].split("@")
    assert name == "USR1"  # to the steps that srun starts: B:USR1 would reach the shell alone
    assert int(seconds) >= 60
