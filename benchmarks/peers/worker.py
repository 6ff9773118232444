"""A worker's end of the line: JSON lines on stdin and stdout. What libraries print goes to stderr.

First comes the job; the worker answers what it is. Then each line asks for one round, and is answered by its cost.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TextIO

Answer = dict[str, Any]


def own_time() -> float:
    """CPU seconds of this process."""
    return time.process_time()


def tree_time() -> float:
    """CPU seconds of this process and all that it has started, those that have ended included."""
    import psutil  # type: ignore[import-untyped, import-not-found, unused-ignore]

    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:  # it has just ended: its parent's children count it
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


@dataclass
class Line:
    """The line to the benchmark."""

    cpu: Callable[[], float] = own_time
    _out: TextIO = field(init=False)
    _began: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def job(self) -> Answer:
        """The first line."""
        job: Answer = json.loads(sys.stdin.readline())
        return job

    def ready(self, version: str) -> None:
        """Say who is here, and wait for the first round."""
        self._say({"version": version})
        self._wait()

    def played(self, more: Answer, *, last: bool = False) -> None:
        """Say what the round cost, and wait for the next one."""
        cpu, wall = self._began
        self._say({"cpu": self.cpu() - cpu, "wall": time.perf_counter() - wall, **more})
        if not last:
            self._wait()

    def _say(self, answer: Answer) -> None:
        print(json.dumps(answer), file=self._out, flush=True)

    def _wait(self) -> None:
        if not sys.stdin.readline():
            os._exit(0)  # nobody is there any more
        self._began = self.cpu(), time.perf_counter()
