"""The tutorial's commands, read from the page and run as they stand."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.federation.real import ROOT, UNALIKE, free_port, processes_about, until

pytestmark = [
    pytest.mark.federation,
    pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at processes in /proc"),
]
PAGE = (ROOT / "docs" / "federation.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh tested( background)?\n(.*?)```", PAGE, re.DOTALL)
JOINING = 3


def commands(block):
    return [shlex.split(line) for line in block.replace("\\\n", " ").splitlines() if line]


def test_every_command_of_the_tutorial(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "UNALIKE_RUNS": "runs",
    }
    running, said = [], {}

    def real(words):
        words = [address if word == "127.0.0.1:9443" else word for word in words]
        return [*UNALIKE, *words[1:]] if words[0] == "unalike" else words

    try:
        for background, block in BLOCKS:
            for words in commands(block):
                if words[:3] == ["unalike", "federation", "admit"]:
                    until(lambda words=words: all((tmp_path / card).exists() for card in words[4:]), "no card")
                if background:
                    log = (tmp_path / f"{len(running)}.log").open("wb")
                    running.append(
                        subprocess.Popen(real(words), cwd=tmp_path, env=environment, stdout=log, stderr=log)
                    )
                else:
                    done = subprocess.run(
                        real(words), cwd=tmp_path, env=environment, capture_output=True, text=True
                    )
                    assert done.returncode == 0, (words, done.stdout, done.stderr)
                    said.setdefault(" ".join(words[:3]), done.stdout)  # the first: another plan may follow
        assert len(running) == JOINING
        assert all(process.poll() is None for process in running)  # they wait for what comes next
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(60)
    until(lambda: not processes_about(tmp_path), lambda: str(processes_about(tmp_path)), 30)
    result = json.loads((tmp_path / "heart" / "run" / "result.json").read_text())
    assert f"server_sha256 {result['server_sha256']}" in said["unalike federation rehearse"]
    assert f"server_sha256 {result['server_sha256']}" in said["unalike federation run"]
    assert result["accuracy"] > 0.75  # on the test rows of all three
    patients, predictions = ((tmp_path / "va" / f"{name}.csv").read_text() for name in ("patients", "predictions"))
    assert len(predictions.splitlines()) == len(patients.splitlines()) > 1
