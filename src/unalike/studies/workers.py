"""A study at work: processes that take one run after the other, any of which may be killed at any moment."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from unalike.errors import UserError
from unalike.models.own import check_named
from unalike.runs.folder import InUse
from unalike.runs.results import Record
from unalike.runs.run import record_failure
from unalike.studies.plan import Only, StudyPlan, plan_study
from unalike.studies.planned import look_at
from unalike.studies.presence import Presence
from unalike.studies.schedule import LEFT_SECONDS, Job, Progress, Schedule
from unalike.studies.store import Store
from unalike.studies.study_file import Study

CHECKPOINT_SECONDS = 10.0
DEATHS = 3
"""A run that so many processes died of has failed."""
STARTS = 10
"""So many processes in a row that die before they are ready are a mistake that trying again does not mend."""
PATIENCE = 60.0
"""Seconds that processes have to save a checkpoint when the study stops."""
_TICK = 0.25


class StudyStopped(BaseException):
    """Another terminal asked the study to stop."""


class StudyWatcher:
    """Follows a study. This one stays silent."""

    def progress(self, now: Progress) -> None:
        """Hear how far the study is, whenever that has changed."""

    def run_ended(self, record: Record) -> None:
        """A run has finished or failed."""

    def run_stopped(self, record: Record) -> None:
        """A run has come to the round at which tuning compares it with others."""

    def say(self, message: str) -> None:
        """Something that the user should know, in one line."""


class _Process:
    """One worker process, and threads that listen to it."""

    def __init__(self, command: Sequence[str], events: queue.Queue[tuple[_Process, dict[str, Any]]]) -> None:
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
        self._events = events
        self._listeners = [
            threading.Thread(target=target, daemon=True) for target in (self._listen, self._collect)
        ]
        for thread in self._listeners:
            thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                self._events.put((self, json.loads(line)))
            except ValueError:  # half a line of a killed process
                continue
        self._events.put((self, {"event": "gone"}))

    def _collect(self) -> None:
        assert self.process.stderr is not None
        self.last_words.extend(filter(None, map(str.strip, self.process.stderr)))

    def order(self, job: Job, checkpoint_seconds: float) -> None:
        """Have it make a run; where it is dead already, the listener will say so."""
        self.job = job
        order = {"key": job.spec.key, "spec": job.spec.to_dict(), "checkpoint_seconds": checkpoint_seconds}
        order |= {"until": job.until} if job.until < job.spec.rounds else {}
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.write(json.dumps(order) + "\n")
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


class Runner:
    """Makes the runs of a study. ``command`` starts a worker; the folder of runs is added to it."""

    def __init__(
        self,
        study: Study,
        runs: Path,
        *,
        scale: float = 1.0,
        only: Only | None = None,
        workers: int | None = None,
        retry: bool = False,
        watcher: StudyWatcher | None = None,
        command: Sequence[str] = (sys.executable, "-m", "unalike.studies.worker"),
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        plan: StudyPlan | None = None,
    ) -> None:
        """``plan`` is of the whole study unless another is given, such as one of its tuning alone."""
        if workers is not None and workers < 1:
            raise UserError(f"--workers must be at least 1, got {workers}.")
        self._study, self._runs = study, runs
        self._plan = plan_study(study, scale, only) if plan is None else plan
        for model in self._plan.models():
            check_named(model)  # before a run is recorded as one that failed
        self._workers = workers or cpu_count()
        self._retry = retry
        self._watcher = watcher or StudyWatcher()
        self._command = (*command, str(runs))
        self._checkpoint_seconds = checkpoint_seconds
        self._events: queue.Queue[tuple[_Process, dict[str, Any]]] = queue.Queue()
        self._processes: list[_Process] = []
        self._bad_starts = 0

    def run(self) -> Schedule:
        """Until every run has finished or failed; going on is the same call again."""
        with Store(self._runs) as store, Presence(self._runs, self._study.name) as presence:
            store.sync()
            self._store = store
            self._schedule = Schedule(self._plan, self._runs, self._retry)
            for record in self._schedule.damaged:
                self._watcher.say(f"{record.problem} It is run again.")
            try:
                self._report()
                while not self._schedule.over:
                    if presence.asked_to_stop:
                        raise StudyStopped
                    self._employ()
                    self._listen()
            finally:
                self._dismiss()
                store.sync()  # what others wrote meanwhile, and runs that were stopped
            return self._schedule

    def _employ(self) -> None:
        """Give idle processes work; start others where there is more."""
        idle = [each for each in self._processes if each.ready and each.job is None]
        while idle and (job := self._schedule.take()) is not None:
            idle.pop().order(job, self._checkpoint_seconds)
        starting = sum(not each.ready for each in self._processes)
        wanted = min(self._workers - len(self._processes), len(self._schedule.pending) - starting - len(idle))
        for _ in range(wanted):
            self._processes.append(_Process(self._command, self._events))

    def _listen(self) -> None:
        end = time.monotonic() + _TICK
        with suppress(queue.Empty):
            while True:
                process, event = self._events.get(timeout=max(0.0, end - time.monotonic()))
                self._answer(process, event)
                if event["event"] != "round":
                    break  # there may be work to give out
        self._report()

    def _answer(self, process: _Process, event: dict[str, Any]) -> None:
        job, kind = process.job, event["event"]
        if kind == "gone":
            return self._replace(process)
        if kind == "ready":
            process.ready, self._bad_starts = True, 0
        elif kind == "broken":
            raise UserError(event["problem"])
        elif job is None:
            pass
        elif kind == "round":
            self._schedule.round_done(job, event["round"])
        elif kind == "busy":
            process.job = None
            self._schedule.put_back(job, LEFT_SECONDS)
        else:  # done, failed
            process.job = None
            if kind == "failed" and look_at(job.planned, self._runs).state == "unfinished":
                self._fail(job, event["problem"], final=False)
            else:
                self._keep(self._schedule.finished(job))
        return None

    def _replace(self, process: _Process) -> None:
        """A process is dead. Its run goes on in another, unless it has killed several."""
        self._processes.remove(process)
        code, job = process.end(), process.job
        if not process.ready:
            self._bad_starts += 1
            if code > 0 or self._bad_starts >= STARTS:
                words = process.last_words[0] if process.last_words else "it said nothing"
                raise UserError(f"A worker process cannot start ({_cause(code)}): {words}")
        if job is None:
            return
        job.deaths += 1
        if job.deaths < DEATHS:
            self._watcher.say(
                f"A process was lost ({_cause(code)}); its run goes on in another: {job.spec.folder}"
            )
            self._schedule.put_back(job)
            return
        ended = "ended by itself" if code >= 0 else "was killed"
        guess = ": out of memory?" if code == -9 else ""
        self._fail(job, f"the process {ended} ({_cause(code)}){guess}", final=True)

    def _fail(self, job: Job, problem: str, *, final: bool) -> None:
        """Note what the process that had the run could not."""
        try:
            record_failure(self._runs, job.spec, problem, final=final)
        except InUse:
            self._schedule.put_back(job, LEFT_SECONDS)
            return
        self._keep(self._schedule.finished(job))

    def _keep(self, record: Record) -> None:
        if record.state != "unfinished":
            self._store.put(record)
            self._watcher.run_ended(record)
        elif record.rounds:
            self._watcher.run_stopped(record)

    def _report(self) -> None:
        self._watcher.progress(self._schedule.progress(self._workers))

    def _dismiss(self) -> None:
        """Have all processes save and end; those that do not are killed, which costs a little work only."""
        for process in self._processes:
            process.stop()
        end = time.monotonic() + PATIENCE
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


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        if -code != signal.SIGKILL:
            return f"{signal.Signals(-code).name}"
    return f"signal {-code}"
