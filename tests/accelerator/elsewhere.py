"""Calls functions of ``cases`` in a process that has the pretend device from its start.

PyTorch counts the devices once, at the first backward pass of a process; and other tests are to see a PyTorch that
nobody has added a device to. So a worker of pytest has one such process, which answers a line with a line.
"""

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Elsewhere:
    """The process, and what can be called in it."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.accelerator.elsewhere"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def __call__(self, name, *given, **named):
        """What the function of that name gives, as JSON has it; an error there is one here."""
        self._process.stdin.write(json.dumps([name, given, named]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the process ended in {name}: exit code {self._process.wait()}"
        answer = json.loads(line)
        assert "error" not in answer, answer.get("error")
        return answer["gives"]

    def close(self):
        self._process.communicate()


def answer_all():
    """Answer every line of standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a run prints is no answer
    from tests.accelerator import pretend

    pretend.install()
    import torch

    torch.set_num_threads(1)
    from tests.accelerator import cases
    from tests.lessons import shortened
    from unalike.algorithms.generated import learning

    learning.lessons = shortened()
    for line in sys.stdin:
        name, given, named = json.loads(line)
        try:
            answer = {"gives": getattr(cases, name)(*given, **named)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    answer_all()
