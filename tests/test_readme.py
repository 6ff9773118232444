"""The README's examples run as they stand, and its claims about size hold."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import unalike
from unalike import check_algorithm, run
from unalike.algorithms import ALGORITHMS
from unalike.partition import PARTITIONS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("unalike ")
]
TOO_LONG = {"study", "report", "tune", "watch"}
"""Commands that need a whole study, or stay until stopped: their lines are parsed, which imports what they use."""
NEEDS_A_SHELL = "--install-completion"
"""Tried with real shells in tests/cli/test_complete.py: what runs this test may be none that has completion."""
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def lines_of(block):
    return [line for line in block.splitlines() if line.strip()]


def test_from_arrays_to_predictions_and_with_an_own_net(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(lines_of(BLOCKS[0])) <= 6
    assert len(lines_of(BLOCKS[1])) <= 3
    names = {}
    exec(compile(BLOCKS[0], "README.md", "exec"), names)
    assert (unalike.load(names["saved"]).predict(names["x"]) == names["y"]).mean() > 0.9
    said = capsys.readouterr().out
    assert re.fullmatch(r"\[[01] [01] [01] [01] [01]\]", said.strip())
    exec(compile(BLOCKS[1], "README.md", "exec"), names)
    said = capsys.readouterr().out
    assert said.startswith("Result: scaffold")
    assert float(re.search(r"accuracy ([\d.]+)%", said)[1]) > 90


def test_its_commands_work_with_nothing_but_the_base_install(tmp_path):
    """What ``make demo`` installs is enough for each of them, encryption included."""
    assert [command[0] for command in COMMANDS].count("measure") == 1
    shorter = {"run": ["--rounds", "1"]}
    commands = [words for words in COMMANDS if words[0] != NEEDS_A_SHELL]
    orders = [(words + shorter.get(words[0], []), words[0] not in TOO_LONG) for words in commands]
    (tmp_path / "orders.json").write_text(json.dumps(orders))
    rows = [f"{age},{hospital},{age % 2}" for hospital in "abc" for age in range(40, 60)]
    (tmp_path / "patients.csv").write_text("\n".join(["age,hospital,outcome", *rows]))
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "base_install.py"), "orders.json"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Protection fhe+masks: each party sent" in done.stdout


@pytest.mark.parametrize("command", [["--help"], ["list"]])
def test_what_needs_no_encryption_does_not_load_it(command):
    code = (
        "import sys; from unalike.cli.main import call; call(sys.argv[1:]); "
        "sys.exit(bool({'tenseal', 'cryptography', 'dp_accounting'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def own():
    exec(compile(BLOCKS[2], "README.md", "exec"), {"__name__": "readme"})
    return ALGORITHMS.entry("my-momentum").cls


def test_the_own_algorithm_is_short_and_holds_the_contract(own):
    assert len(lines_of(BLOCKS[2])) < 15
    check_algorithm("my-momentum(beta=0.5)")


def test_the_own_algorithm_without_momentum_is_fedavg(own):
    fields = {"dataset": "heart", "partition": "natural", "rounds": 3, "steps": 3}
    mine, plain = (run(algorithm=text, **fields) for text in ("my-momentum(beta=0)", "fedavg"))
    assert mine.accuracy == plain.accuracy
    assert mine.figures["loss"] == pytest.approx(plain.figures["loss"], rel=1e-5)


def test_what_it_counts_is_as_many():
    own = [sum(entry.cls.__module__.startswith("unalike.") for entry in kind) for kind in (ALGORITHMS, PARTITIONS)]
    assert f"| algorithms | {own[0]}," in TEXT
    assert f"| ways to split data | {own[1]}," in TEXT
    assert len(list((ROOT / "tests").rglob("test_*.py"))) > 200
