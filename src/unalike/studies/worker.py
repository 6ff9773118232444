"""A process that makes one run after the other for a study: ``python -m unalike.studies.worker RUNS``.

It reads orders from stdin and writes what happens to stdout, a JSON object a line. When stdin ends, because it was
told to stop or because the study's process is gone, it saves a checkpoint and ends.
"""

from __future__ import annotations

import _thread
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from unalike.studies.making import LoadedData, make


class _Stop(BaseException):
    """The study wants no more."""


class Worker:
    """Answers orders until there are none."""

    def __init__(self, runs: Path, orders: TextIO, answers: TextIO) -> None:
        self._runs = runs
        self._orders: queue.Queue[str | None] = queue.Queue()
        self._source = orders
        self._answers = answers
        self._stopping = threading.Event()
        self._data = LoadedData()

    def serve(self) -> None:
        """Play one run after the other as the study orders them, until it closes stdin."""
        signal.signal(signal.SIGINT, self._interrupted)  # Ctrl-C at the terminal is the study's to answer
        threading.Thread(target=self._read, daemon=True).start()
        try:
            import unalike.runs.run  # noqa: F401  # slow: from here on, orders are answered at once

            self.say("ready")
            while (line := self._orders.get()) is not None:
                self._answer(json.loads(line))
        except _Stop:
            return

    def say(self, event: str, **values: Any) -> None:
        """One line to the study; where nobody reads on, this process has no purpose."""
        try:
            self._answers.write(json.dumps({"event": event, **values}) + "\n")
            self._answers.flush()
        except OSError:
            self._stopping.set()
            raise _Stop from None

    def _read(self) -> None:
        for line in self._source:
            self._orders.put(line)
        self._stopping.set()
        self._orders.put(None)
        _thread.interrupt_main()

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if self._stopping.is_set():
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # once: the checkpoint that follows must be whole
            raise _Stop

    def _answer(self, order: dict[str, Any]) -> None:
        try:
            made = make(order, self._runs, self._data.load, self._hear, self._stopping.is_set)
        except Exception:
            if self._stopping.is_set():  # some libraries wrap what interrupts them
                raise _Stop from None
            raise
        self.say(**made.event())

    def _hear(self, number: int) -> None:
        self.say("round", round=number)


def main(runs: str, prepare: Callable[[], None] = lambda: None) -> None:
    """Serve the study that started this process; ``prepare`` loads what runs need beside the package."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library or a plug-in prints must not mix with the answers
    prepare()
    Worker(Path(runs), sys.stdin, answers).serve()


if __name__ == "__main__":
    main(sys.argv[1])
