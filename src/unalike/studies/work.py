"""A process that takes runs of a study until none is left, beside others that do the same here or on other hosts.

No process leads: what is done, failed or under way is in the folders of the runs, and a claim on a folder decides
who makes its run. So a job array, or a shell on each of several hosts, needs nothing but a shared folder.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from unalike.errors import UserError
from unalike.models.own import check_named
from unalike.runs.claim import died_in, is_busy
from unalike.runs.lease import InUse
from unalike.runs.run import record_failure
from unalike.studies.making import LoadedData, Made, errand, make
from unalike.studies.plan import Only, plan_study
from unalike.studies.presence import Presence
from unalike.studies.schedule import Job, Schedule
from unalike.studies.study_file import Study
from unalike.studies.workers import CHECKPOINT_SECONDS, DEATHS, StudyStopped, StudyWatcher

BUSY_SECONDS = 10.0
"""A run that another process has is looked at again after about this time."""
_TICK = 0.5


class Taker:
    """Makes those runs of a study that nobody else makes."""

    def __init__(
        self,
        study: Study,
        runs: Path,
        *,
        scale: float = 1.0,
        only: Only | None = None,
        retry: bool = False,
        wait: bool = True,
        watcher: StudyWatcher | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``wait``: for runs that others make, since some may follow from them, or their process may die."""
        self._study, self._runs, self._retry, self._wait = study, runs, retry, wait
        self._plan = plan_study(study, scale, only)
        for model in self._plan.models():
            check_named(model)
        self._watcher = watcher or StudyWatcher()
        self._checkpoint_seconds, self._clock, self._sleep = checkpoint_seconds, clock, sleep
        self._data = LoadedData()
        self._elsewhere: set[str] = set()
        """Runs that others were found to make."""

    def work(self) -> Schedule:
        """Until no run is left; the same call goes on after a stop, with what nobody has made by then."""
        with Presence(self._runs, self._study.name) as presence:
            self._presence = presence
            self._schedule = Schedule(self._plan, self._runs, self._retry, clock=self._clock)
            for record in self._schedule.damaged:
                self._watcher.say(f"{record.problem} It is run again.")
            self._report()
            while not self._schedule.over:
                self._check_stopped()
                if (job := self._schedule.take()) is not None:
                    self._try(job)
                elif self._wait or self._schedule.pending.keys() - self._elsewhere:
                    self._sleep(_TICK)
                else:
                    break
        return self._schedule

    def _check_stopped(self) -> None:
        if self._presence.asked_to_stop:
            raise StudyStopped

    def _try(self, job: Job) -> None:
        made = Made("busy") if is_busy(self._runs / job.spec.folder) else self._make(job)
        if made.word == "broken":
            raise UserError(made.problem)
        if made.word == "busy":
            self._elsewhere.add(job.spec.key)
            self._schedule.put_back(job, BUSY_SECONDS * random.uniform(0.5, 1.5))
            return
        self._elsewhere.discard(job.spec.key)
        record = self._schedule.finished(job)
        if record.state != "unfinished":
            self._watcher.run_ended(record)
        elif record.rounds:
            self._watcher.run_stopped(record)
        self._report()

    def _make(self, job: Job) -> Made:
        deaths = died_in(self._runs / job.spec.folder)
        if deaths >= DEATHS:
            problem = f"{deaths} processes in a row were killed in it before a round was played: out of memory?"
            try:
                record_failure(self._runs, job.spec, problem, final=True)
            except InUse:
                return Made("busy")
            return Made("failed", problem)
        if deaths:
            self._watcher.say(f"A process was lost; its run goes on here: {job.spec.folder}")

        def hear(number: int) -> None:
            self._schedule.round_done(job, number)
            self._report()
            self._check_stopped()

        told = errand(job.spec, job.until, self._checkpoint_seconds)
        return make(told, self._runs, self._data.load, hear, say=self._watcher.say)

    def _report(self) -> None:
        self._watcher.progress(self._schedule.progress(1 + len(self._elsewhere)))
