"""The command line in this process, which pays for torch's import once, and in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from unalike.algorithms import ALGORITHMS
from unalike.cli.main import call
from unalike.data import DATASETS
from unalike.models import MODELS
from unalike.partition import PARTITIONS

UNALIKE = [sys.executable, "-c", "from unalike.cli.start import main; main()"]


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def own_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of its own; what a plugin registers is gone after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNALIKE_RUNS", raising=False)
    for registry in (ALGORITHMS, DATASETS, MODELS, PARTITIONS):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))


@pytest.fixture
def unalike(capfd: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """The command in this process."""

    def answer(*args: str) -> Answer:
        capfd.readouterr()
        code = call(args)
        return Answer(code, *capfd.readouterr())

    return answer


@pytest.fixture
def start(tmp_path: Path) -> Any:
    """The command in a process of its own; what is left of them at the end is killed."""
    begun: list[subprocess.Popen[str]] = []

    def run(*args: str, **settings: Any) -> subprocess.Popen[str]:
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen([*UNALIKE, *args], cwd=tmp_path, env={**os.environ}, **(streams | settings))
        begun.append(process)
        return process

    yield run
    for process in begun:
        process.kill()
        process.communicate()


@pytest.fixture
def own_process(start: Any) -> Callable[..., Answer]:
    """The command in a process of its own, to its end."""

    def answer(*args: str) -> Answer:
        process = start(*args)
        out, err = process.communicate(timeout=120)
        return Answer(process.returncode, out, err)

    return answer
