"""Every mistake of the user is one line on stderr, nothing on stdout, and exit code 2."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import UNALIKE

MISTAKES = {
    "algorithm": (["--algorithm", "fedprx"], "Did you mean 'fedprox'?"),
    "parameter": (["--algorithm", "fedprox(nu=1)"], "Did you mean 'mu'?"),
    "value": (["--algorithm", "fedprox(mu=-1)"], "must be >= 0, got -1"),
    "dataset": (["--dataset", "digit"], "Did you mean 'digits'?"),
    "partition": (["--partition", "label-dirichlet"], "needs beta"),
    "model": (["--model", "mpl(3)"], "Did you mean 'mlp'?"),
    "optimiser": (["--optimiser", "adm"], "Did you mean 'adam'?"),
    "unreadable part": (["--dataset", "digits("], "Cannot read the data set"),
    "missing spec": (["--spec", "nope.toml"], "nope.toml"),
    "spec is a folder": (["--spec", "."], "Check the path"),
    "missing plugin": (["--plugin", "nope.py"], "nope.py"),
    "more parties than rows": (["--parties", "5000"], "1438"),
    "natural parties": (["--dataset", "heart", "--partition", "natural", "--parties", "5"], "4 natural parties"),
    "no natural parties": (["--partition", "natural"], "no natural parties"),
    "epochs and steps": (["--epochs", "1", "--steps", "2"], "one of the two"),
    "negative rounds": (["--rounds", "-3"], "got -3"),
    "not a whole number": (["--rounds", "many"], "--rounds"),
    "fraction": (["--sample", "1.5"], "got 1.5"),
    "lr": (["--lr", "nan"], "lr must be"),
    "unknown device": (["--device", "tpu"], "Did you mean 'cpu'?"),
    "engine": (["--engine", "fast"], "auto, compiled, prepared, sequential, vectorised"),
    "dtype": (["--dtype", "float16"], "float32, float64"),
    "a file in the way": (["--runs", "file"], "Not a directory"),
    "net that does not fit": (["--model", "simple-cnn"], "16x16"),
    "option": (["--algoritm", "x"], "Did you mean --algorithm?"),
    "argument": (["fedavg"], "fedavg"),
    "seconds": (["--checkpoint-seconds", "-1"], "--checkpoint-seconds must be"),
    "seconds that are no number": (["--checkpoint-seconds", "nan"], "got nan"),
    "seconds without end": (["--checkpoint-seconds", "inf"], "got inf"),
    "rate too large": (["--lr", "1e100"], "lr must be from 1e-20 to 1e+20, got 1e+100"),
    "rate grows too large": (["--lr-decay", "1e300", "--rounds", "3"], "the learning rate of round 2 is more"),
    "many digits": (["--rounds", "9" * 5000], "Try: unalike run --help"),
    "many digits of a part": (["--model", f"mlp({'9' * 5000})"], "Cannot read the model 'mlp(99"),
    "diverging": (["--model", "mlp(64,64)", "--lr", "1e6", "--steps", "20", "--quiet"], "Lower --lr"),
}  # fmt: skip


def refused(answer, text):
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("Error: ")
    assert answer.err.count("\n") == 1
    assert answer.err.endswith("\n")
    assert text in answer.err
    assert len(answer.err) < 500


@pytest.mark.parametrize(("flags", "text"), MISTAKES.values(), ids=MISTAKES)
def test_mistake_in_a_run(unalike, flags, text):
    Path("file").write_text("")
    refused(unalike("run", *flags, "--json"), text)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["rnu"], "Did you mean 'run'?"),
        (["runs"], "Error: Missing command. Try: unalike runs --help"),
        (["study"], "Error: Missing command. Try: unalike study --help"),
        (["federation"], "Error: Missing command. Try: unalike federation --help"),
        (["runs", "shw"], "Did you mean 'show'?"),
        (["runs", "show"], "KEY"),
        (["runs", "list", "--runs", "file"], "Not a directory"),
        (["runs", "compare"], "no finished runs"),
        (["list", "algoritms"], "Did you mean 'algorithms'?"),
        (["--verison"], "Did you mean --version?"),
    ],
)
def test_mistake_in_another_command(unalike, args, text):
    Path("file").write_text("")
    refused(unalike(*args), text)


@pytest.mark.parametrize(
    "command",
    [
        *(["run"], ["runs", "list"], ["runs", "show", "x"], ["runs", "compare"], ["leaderboard"], ["recommend"]),
        *(["report", "quick", "-o", "page.html"], ["measure"], ["study", "run", "quick"]),
        *(["study", "status", "quick"], ["study", "report", "quick"], ["study", "stop", "quick"]),
        ["study", "export", "--csv", "-"],
    ],
)
def test_a_folder_of_runs_without_a_name(unalike, command):
    refused(unalike(*command, "--runs", ""), "--runs must name a folder, got ''")
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["runn"], "Error: No such command 'runn'. Did you mean 'run'?\n"),
        (["runs", "lsit"], "Error: No such command 'lsit'. Did you mean 'list'?\n"),
        (["federation", "sttus"], "Error: No such command 'sttus'. Did you mean 'status'?\n"),
        (["study", "zzz"], "Error: No such command 'zzz'. Try: unalike study --help\n"),
    ],
)
def test_one_suggestion_for_a_mistyped_command(unalike, args, line):
    assert unalike(*args) == (2, "", line)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams(closed):
    for args, code in ((["list", "engines"], 0), (["runn"], 2)):
        command = f"{shlex.join([*UNALIKE, *args])} {closed}"
        answer = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert (answer.returncode, "Traceback" in answer.stderr) == (code, False)


def test_a_very_long_name_is_cut(unalike):
    answer = unalike("run", "--dataset", "a" * 5000)
    refused(answer, "Unknown data set 'aaaa")
    assert len(answer.err) < 500


def test_cuda_absent(unalike, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    refused(unalike("run", "--device", "cuda"), "Use --device cpu.")


@pytest.mark.parametrize(
    ("toml", "text"),
    [
        ("rouns = 3", "Did you mean 'rounds'?"),
        ("rounds = ", "not a TOML file"),
        ("rounds = true", "rounds must be a whole number"),
        (f"rounds = {'9' * 5000}", "value has 5000 digits"),
        ("lr = 1e100", "lr must be from 1e-20 to 1e+20, got 1e+100"),
        ("lr_decay = 1e300\nrounds = 3", "the learning rate of round 2 is more than 1e+20"),
        ("rounds = 3.5", "rounds must be a whole number"),
        ("epochs = 1\nsteps = 1", "one of the two"),
        ("algorithm = {mu = 1}", "needs a name"),
    ],
)
def test_mistake_in_a_spec(unalike, toml, text):
    Path("s.toml").write_text(toml)
    refused(unalike("run", "--spec", "s.toml"), text)


def test_spec_that_is_not_text(unalike):
    Path("s.toml").write_bytes(b"\xff\xfe\x00")
    refused(unalike("run", "--spec", "s.toml"), "not a TOML file")


OWN = """
from torch import nn
from unalike import Algorithm, algorithm
from unalike.models.model import register_model

@algorithm("my-key")
class MyKey(Algorithm):
    def upload(self, party, w):
        return {"dleta": w - party.received["w"]}, party.state

@algorithm("my-signature")
class MySignature(Algorithm):
    def fold(self, server, replies):
        return server

@algorithm("my-bug")
class MyBug(Algorithm):
    def fold(self, task, server, replies):
        return {"w": server["w"] / 0 + undefined}

@register_model("my-net")
class MyNet:
    def build(self, shape, classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))
"""


@pytest.mark.parametrize(
    ("flag", "name", "text"),
    [
        (
            "--algorithm",
            "my-key",
            "MyKey.fold failed (inherited from Algorithm): KeyError: no party uploaded 'delta'",
        ),
        (
            "--algorithm",
            "my-signature",
            "MySignature.fold (own.py, line 13) takes (server, replies), but is called",
        ),
        (
            "--algorithm",
            "my-bug",
            "MyBug.fold failed (own.py, line 19): NameError: name 'undefined' is not defined.",
        ),
        ("--model", "my-net", "MyNet.build (own.py, line 23) must return a Net"),
    ],
)
def test_mistake_in_code_of_ones_own(unalike, flag, name, text):
    Path("own.py").write_text(OWN)
    refused(unalike("run", "--plugin", "own.py", flag, name, "--rounds", "1", "--epochs", "1", "--quiet"), text)


PLUGIN = """
import numpy as np
from unalike import DATASETS, PARTITIONS, Dataset, Partition

@DATASETS.register("holes")
class Holes:
    def load(self):
        x, y = np.ones((40, 3), dtype=np.float32), np.arange(40) % 2
        x[7, 1] = np.nan
        return Dataset(name="holes", x=x, y=y, x_test=x[:5] * 0, y_test=y[:5], classes=("a", "b"))

@PARTITIONS.register("lazy")
class Lazy:
    def split(self, dataset, parties, rng):
        rows = np.arange(len(dataset.x))
        return Partition("lazy", (rows, rows[:0]), ("all", "nobody"))
"""


@pytest.mark.parametrize(
    ("flags", "text"),
    [(["--dataset", "holes"], "Remove or fill them"), (["--partition", "lazy"], "'nobody' without rows")],
)
def test_data_that_cannot_be_trained_on(unalike, flags, text):
    Path("parts.py").write_text(PLUGIN)
    refused(unalike("run", "--plugin", "parts.py", *flags), text)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("x = 1\nraise ValueError('two\\nlines')", "in line 2: ValueError: two lines"),
        ("def broken(:", "in line 1: SyntaxError"),
        ("import no_such_module", "no_such_module"),
        ("import sys; sys.exit(3)", "SystemExit"),
        (
            "from unalike import Algorithm, algorithm\n@algorithm('fedavg')\nclass Other(Algorithm): pass",
            "taken by FedAvg",
        ),
    ],
)
def test_failing_plugin(unalike, source, text):
    Path("bad.py").write_text(source)
    refused(unalike("run", "--plugin", "bad.py"), text)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a folder that refuses even root")
def test_folder_that_refuses(unalike):
    refused(unalike("run", "--runs", "/proc/runs"), "/proc/runs")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(unalike):
    Path("locked").mkdir(mode=0o500)
    refused(unalike("run", "--runs", "locked"), "No permission")


def test_bug_keeps_its_traceback(unalike, monkeypatch):
    def broken(*args, **settings):
        raise RuntimeError("a bug")

    monkeypatch.setattr("unalike.runs.run.run", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        unalike("run")


def test_mistake_in_a_process_of_its_own(own_process):
    refused(own_process("run", "--algorithm", "fedprx", "--json"), "Did you mean 'fedprox'?")


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["at the end", "while printing"])
def test_closed_pipe_ends_quietly(start, monkeypatch, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    process = start("list", "algorithms", "--json")
    process.stdout.close()  # what `| head -0` does
    assert process.stderr.read() == ""
    assert process.wait(60) == 1


def test_a_full_disk_behind_stdout_is_one_line(unalike):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    with Path("/dev/full").open("w") as full:
        process = subprocess.run([*UNALIKE, "list", "algorithms"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert process.returncode == 2
    assert process.stderr.count("\n") == 1
    assert "No space" in process.stderr


def test_ctrl_c_while_starting(unalike):
    code = "import os, signal; from unalike.cli import start\n"
    code += "import builtins; real = builtins.__import__\n"
    code += "def slow(name, *rest):\n    if name == 'unalike.cli.main': os.kill(os.getpid(), signal.SIGINT)\n"
    code += "    return real(name, *rest)\nbuiltins.__import__ = slow\nstart.main()"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.returncode == 130
    assert process.stderr == "Stopped.\n"
