"""The three hospitals of docs/federation.md, from ``init`` to a trained model: what its commands cost."""

from __future__ import annotations

import re
import resource
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.loopback.federation import UNALIKE, environment, free_port, until
from benchmarks.report import ROOT

FIRST, LAST = "init", "run"


@dataclass(frozen=True)
class Cost:
    """What the commands of one name took: CPU seconds of all their processes, and seconds by the clock."""

    name: str
    cpu: float
    seconds: float


def follow(folder: Path) -> list[Cost]:
    """Do what the page says; the costs of its commands, those that go on in the background last."""
    running: list[subprocess.Popen[bytes]] = []
    address, costs, counted = f"127.0.0.1:{free_port()}", [], False
    for background, words in _commands():
        words = [address if word == "127.0.0.1:9443" else word for word in words]
        name = words[2] if words[:2] == ["unalike", "federation"] else ""
        counted = counted or name == FIRST
        if name == "admit":
            until(lambda words=words: all((folder / card).exists() for card in words[4:]), "no card")  # type: ignore[misc]
        command = [*UNALIKE, *words[1:]] if words[0] == "unalike" else words
        if background:
            running.append(_start(folder, command, f"{len(running)}.log"))
            continue
        began, cpu = time.perf_counter(), _children()
        process = _start(folder, command, f"{name or words[0]}.log")
        if process.wait() != 0:
            raise SystemExit(f"{' '.join(words)} failed: {(folder / f'{name or words[0]}.log').read_text()}")
        if counted and name:
            costs.append(Cost(name, _children() - cpu, time.perf_counter() - began))
        if name == LAST:
            break
    cpu = _children()
    for process in running:
        process.terminate()
    for process in running:
        process.wait(60)
    return [*costs, Cost(f"{len(running)} x join", _children() - cpu, 0.0)]


def _commands() -> Iterator[tuple[bool, list[str]]]:
    page = (ROOT / "docs" / "federation.md").read_text(encoding="utf-8")
    for background, block in re.findall(r"```sh tested( background)?\n(.*?)```", page, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if line:
                yield bool(background), shlex.split(line)


def _start(folder: Path, command: list[str], log: str) -> subprocess.Popen[bytes]:
    with (folder / log).open("wb") as file:
        return subprocess.Popen(
            command, cwd=folder, env={**environment(), "UNALIKE_RUNS": "runs"}, stdout=file, stderr=file
        )


def _children() -> float:
    """CPU seconds, user and system, of all processes that were started and have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime
