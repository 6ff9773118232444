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
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

KEPT = 2
"""Data sets that stay in memory between runs."""
SAY_SECONDS = 0.2


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
        self._data: OrderedDict[str, Any] = OrderedDict()

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
        from unalike.errors import UserError
        from unalike.runs.folder import InUse
        from unalike.runs.rules import Diverged
        from unalike.runs.run import record_failure, run
        from unalike.runs.spec import RunSpec

        problem, final, spec = "", True, None
        try:
            spec = RunSpec.from_mapping(order["spec"])
            if spec.key != order["key"]:  # no run that waits can be made any more, by any process
                return self.say(
                    "broken",
                    problem="A file or a plug-in of the runs has changed since the study began. Start it again.",
                )
            run(
                spec,
                runs=self._runs,
                watcher=_watcher(self),
                checkpoint_seconds=order["checkpoint_seconds"],
                load=self._load,
                until=order.get("until"),
            )
        except InUse:
            return self.say("busy")
        except UserError as error:
            problem, final = str(error), isinstance(error, Diverged)
        except MemoryError:
            problem = "out of memory"
        except Exception as error:
            if self._stopping.is_set():  # some libraries wrap what interrupts them
                raise _Stop from None
            problem = f"{type(error).__name__}: {error}"
        if not problem:
            return self.say("done")
        problem = " ".join(problem.split())
        try:
            if spec is not None:  # else the study notes it
                record_failure(self._runs, spec, problem, final=final)
        except InUse:
            return self.say("busy")
        except UserError as error:  # the disk is full: the other runs would fail as well
            return self.say("broken", problem=str(error))
        return self.say("failed", problem=problem)

    def _load(self, text: str) -> Any:
        """The data set, which stays in memory for the next runs on it."""
        from unalike.data import load_dataset
        from unalike.data.folder import NotFound

        if text in self._data:
            self._data.move_to_end(text)
            return self._data[text]
        while len(self._data) >= KEPT:
            self._data.popitem(last=False)
        try:
            self._data[text] = load_dataset(text)
        except NotFound as error:
            raise NotFound(f"data not found: {error}") from None
        return self._data[text]


def _watcher(worker: Worker) -> Any:
    from unalike.runs.playable import Playable
    from unalike.runs.watcher import Watcher

    class Following(Watcher):
        """Says now and then how far the run is."""

        def __init__(self) -> None:
            self._last = 0.0

        def started(self, simulation: Playable) -> None:
            """The rounds that an earlier process played."""
            worker.say("round", round=simulation.state.round)

        def round_done(self, row: dict[str, Any]) -> None:
            """Not more often than anybody looks."""
            now = time.monotonic()
            if now - self._last >= SAY_SECONDS:
                self._last = now
                worker.say("round", round=row["round"])

    return Following()


def main(runs: str, prepare: Callable[[], None] = lambda: None) -> None:
    """Serve the study that started this process; ``prepare`` loads what runs need beside the package."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library or a plug-in prints must not mix with the answers
    prepare()
    Worker(Path(runs), sys.stdin, answers).serve()


if __name__ == "__main__":
    main(sys.argv[1])
