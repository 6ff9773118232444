"""A finished run is read from its folder, and nothing is loaded that could train."""

import subprocess
import sys

import pytest

from unalike.runs.finished import finished
from unalike.runs.run import run
from unalike.runs.spec import RunSpec

SPEC = RunSpec(rounds=1, epochs=1, parties=2)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run(SPEC, runs=folder)
    return folder


def shown_without_torch(*line):
    """Whether the command shows its result, and in a process without torch."""
    code = (
        "import sys\nfrom unalike.cli.main import call\n"
        f"code = call({[str(word) for word in line]!r})\nsys.exit(code or 'torch' in sys.modules)"
    )
    return subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


def test_it_is_what_the_run_gave(runs):
    told = []
    found = finished(SPEC, runs, told.append)
    assert found is not None
    assert found.figures == run(SPEC, runs=runs).figures
    assert not told


def test_a_run_that_is_not_there_is_none(runs, tmp_path):
    assert finished(RunSpec(rounds=2, epochs=1, parties=2), runs, print) is None
    assert finished(SPEC, tmp_path, print) is None


def test_a_result_of_another_version_is_told(runs, monkeypatch):
    monkeypatch.setattr("unalike.__version__", "99")
    told = []
    assert finished(SPEC, runs, told.append) is not None
    assert len(told) == 1
    assert "Remove" in told[0]


def test_the_command_shows_it_without_torch(runs):
    flags = ("--rounds", 1, "--epochs", 1, "--parties", 2, "--runs", runs, "--quiet")
    assert shown_without_torch("run", *flags)


def test_the_settings_of_all_models_load_no_net():
    code = (
        "import sys; from unalike.models import MODELS\n"
        "for name in ('lstm', 'resnet18', 'vgg9', 'token-mlp', 'logistic', 'simple-cnn', 'mlp(8)|trees'):\n"
        "    MODELS.build(name)\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
