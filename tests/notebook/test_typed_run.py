"""mypy on a user's script: a wrong field, type or word of ``unalike.run`` is an error before anything runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unalike

pytest.importorskip("mypy")

RIGHT = """
import unalike

result = unalike.run(
    dataset="heart", partition={"name": "natural"}, algorithm="fedprox(mu=0.1)", lr=1, epochs=None,
    batch_norm="local", runs="runs", progress=False,
)
score: float | None = result.accuracy
first: tuple[int, float] = result.curve[0]
compared: unalike.Comparison = unalike.compare([result, "runs"])
unalike.run(unalike.RunSpec(dataset="digits"))
fields: unalike.RunFields = {"dataset": "heart"}
again: unalike.RunFields = {**fields, "seed": 1}
unalike.run(**fields)
paused: unalike.Result | unalike.Paused = unalike.run_until(2, dataset="heart", runs="runs")
"""
WRONG = """
import unalike

unalike.run(datset="heart")
unalike.run(rounds="many")
unalike.run(batch_norm="locally")
fields: unalike.RunFields = {"seeds": 1}
unalike.run_until(2)
"""
READ = ("unalike", "unalike.notebook.run", "unalike.notebook.comparison", "unalike.runs.*")
SETTINGS = """
[mypy]
strict = True
[mypy-{modules}]
follow_imports = silent
[mypy-unalike.*,torch.*,numpy.*,matplotlib.*,rich.*,filelock.*,safetensors.*]
follow_imports = skip
"""
"""Only the rooms that the script speaks to are read: all of the package and of torch would take a minute."""


def test_wrong_fields_are_found_and_right_ones_are_not(tmp_path):
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "mypy.ini").write_text(SETTINGS.format(modules=",".join(READ)))
    source = Path(unalike.__file__).parents[1]
    assert (source / "unalike" / "py.typed").exists()
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "right.py", "wrong.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^(\w+)\.py:(\d+): error: (.*)", done.stdout, re.MULTILINE)
    assert [place[:2] for place in found] == [("wrong", line) for line in "45678"], done.stdout
    name, kind, word, kept, folder = (said for *_, said in found)
    assert 'did you mean "dataset"' in name
    assert 'expected "int"' in kind
    assert "Literal['average', 'local', 'drop']" in word
    assert 'Extra key "seeds"' in kept
    assert 'Missing named argument "runs"' in folder
