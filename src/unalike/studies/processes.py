"""Processes on this machine that take one run after the other, any of which may be killed at any moment."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from unalike.errors import UserError
from unalike.studies.making import Errand
from unalike.studies.place import Event
from unalike.studies.schedule import Job
from unalike.studies.wants import Wants

STARTS = 10
"""So many processes in a row that die before they are ready are a mistake that trying again does not mend."""


class _Process:
    """One worker process, and threads that listen to it."""

    def __init__(self, command: Sequence[str], heard: queue.Queue[tuple[_Process, dict[str, Any]]]) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
        )
        self.job: Job | None = None
        self.ready = False
        self.last_words: deque[str] = deque(maxlen=1)
        self._heard = heard
        self._listeners = [
            threading.Thread(target=target, daemon=True) for target in (self._listen, self._collect)
        ]
        for thread in self._listeners:
            thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                self._heard.put((self, json.loads(line)))
            except ValueError:  # half a line of a killed process
                continue
        self._heard.put((self, {"event": "gone"}))

    def _collect(self) -> None:
        assert self.process.stderr is not None
        self.last_words.extend(filter(None, map(str.strip, self.process.stderr)))

    def order(self, job: Job, errand: Errand) -> None:
        """Have it make a run; where it is dead already, the listener will say so."""
        self.job = job
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.write(json.dumps(errand) + "\n")
            self.process.stdin.flush()

    def stop(self) -> None:
        """The end of its input is its order to save and end."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()

    def end(self) -> int:
        """Wait for it, and let go of it."""
        code = self.process.wait()
        self.stop()
        for thread in self._listeners:
            thread.join(timeout=1)
        return code


class Processes:
    """The place of a study on this machine. ``command`` starts a worker."""

    lost = "A process was lost"

    def __init__(self, command: Sequence[str], count: int) -> None:
        self.slots = count
        self._command = command
        self._heard: queue.Queue[tuple[_Process, dict[str, Any]]] = queue.Queue()
        self._processes: list[_Process] = []
        self._bad_starts = 0

    def room(self, waiting: int) -> int:
        """The processes that are idle; others are started where there is more work than they can take."""
        idle, starting = len(self._idle()), sum(not each.ready for each in self._processes)
        for _ in range(min(self.slots - len(self._processes), waiting - starting - idle)):
            self._processes.append(_Process(self._command, self._heard))
        return idle

    def _idle(self) -> list[_Process]:
        return [each for each in self._processes if each.ready and each.job is None]

    def start(self, job: Job, errand: Errand) -> None:
        """Have an idle process make the run."""
        self._idle()[-1].order(job, errand)

    def events(self, timeout: float) -> list[Event]:
        """What the processes say, until one of them has nothing to do."""
        end, events = time.monotonic() + timeout, []
        with suppress(queue.Empty):
            while True:
                process, said = self._heard.get(timeout=max(0.0, end - time.monotonic()))
                if (event := self._event(process, said)) is not None:
                    events.append(event)
                if said["event"] != "round":
                    break  # there may be work to give out
        return events

    def _event(self, process: _Process, said: dict[str, Any]) -> Event | None:
        job, kind = process.job, said["event"]
        if kind == "gone":
            return self._gone(process)
        if kind == "ready":
            process.ready, self._bad_starts = True, 0
            return None
        if kind not in ("round", "said", "broken"):
            process.job = None
        return Event(kind, job, said.get("round", 0), said.get("problem", ""))

    def _gone(self, process: _Process) -> Event:
        self._processes.remove(process)
        code = process.end()
        if not process.ready:
            self._bad_starts += 1
            if code > 0 or self._bad_starts >= STARTS:
                words = process.last_words[0] if process.last_words else "it said nothing"
                raise UserError(f"A worker process cannot start ({_cause(code)}): {words}")
        died = "ended by itself" if code >= 0 else "was killed"
        return Event("gone", process.job, problem=_cause(code), died=died)

    def stop(self, patience: float) -> None:
        """Have all processes save and end; those that do not are killed, which costs a little work only."""
        for process in self._processes:
            process.stop()
        end = time.monotonic() + patience
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.process.wait(max(0.0, end - time.monotonic()))
            if process.process.poll() is None:
                process.process.kill()
            process.end()
        self._processes.clear()


def cpu_count() -> int:
    """The cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this platform
        return os.cpu_count() or 1


def default_count(wants: Wants) -> int:
    """As many processes as there are cores for."""
    return max(1, int(cpu_count() / wants.cpus))


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        if -code != signal.SIGKILL:
            return f"{signal.Signals(-code).name}"
    return f"signal {-code}"
