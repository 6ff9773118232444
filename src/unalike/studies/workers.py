"""A study at work: runs are given to a place that makes them, and may lose any of them at any moment."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from unalike.errors import UserError
from unalike.models.own import check_named
from unalike.runs.lease import InUse
from unalike.runs.results import Record
from unalike.runs.run import record_failure
from unalike.studies.making import errand
from unalike.studies.place import Event, Place
from unalike.studies.plan import Only, StudyPlan, plan_study
from unalike.studies.planned import look_at
from unalike.studies.presence import Presence
from unalike.studies.processes import Processes, default_count
from unalike.studies.schedule import LEFT_SECONDS, Job, Progress, Schedule
from unalike.studies.store import Store
from unalike.studies.study_file import Study

CHECKPOINT_SECONDS = 10.0
DEATHS = 3
"""A run that so many processes in a row died of, without a round more than before, has failed."""
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
        place: Place | None = None,
    ) -> None:
        """``plan`` is of the whole study unless another is given, such as one of its tuning alone.

        ``place``: where runs are made, in place of ``workers`` processes on this machine.
        """
        if workers is not None and workers < 1:
            raise UserError(f"--workers must be at least 1, got {workers}.")
        self._study, self._runs = study, runs
        self._plan = plan_study(study, scale, only) if plan is None else plan
        for model in self._plan.models():
            check_named(model)  # before a run is recorded as one that failed
        self._place = place or Processes((*command, str(runs)), workers or default_count(study.wants))
        self._retry = retry
        self._watcher = watcher or StudyWatcher()
        self._checkpoint_seconds = checkpoint_seconds

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
                    for event in self._place.events(_TICK):
                        self._answer(event)
                    self._report()
            finally:
                self._place.stop(PATIENCE)
                store.sync()  # what others wrote meanwhile, and runs that were stopped
            return self._schedule

    def _employ(self) -> None:
        for _ in range(self._place.room(len(self._schedule.pending))):
            if (job := self._schedule.take()) is None:
                return
            self._place.start(job, errand(job.spec, job.until, self._checkpoint_seconds))

    def _answer(self, event: Event) -> None:
        job, kind = event.job, event.kind
        if kind == "broken":
            raise UserError(event.problem)
        if kind == "said":
            self._watcher.say(event.problem)
        elif job is None:
            return
        elif kind == "gone":
            self._lost(job, event)
        elif kind == "round":
            self._schedule.round_done(job, event.round)
        elif kind == "busy":
            self._schedule.put_back(job, LEFT_SECONDS)
        elif kind == "failed" and look_at(job.planned, self._runs).state == "unfinished":
            self._fail(job, event.problem, final=False)
        else:  # done, failed
            self._keep(self._schedule.finished(job))

    def _lost(self, job: Job, event: Event) -> None:
        """What made a run is dead. It goes on elsewhere, unless it has killed several in a row."""
        job.died()
        if job.deaths < DEATHS:
            self._watcher.say(
                f"{self._place.lost} ({event.problem}); its run goes on in another: {job.spec.folder}"
            )
            self._schedule.put_back(job)
            return
        guess = ": out of memory?" if event.problem == "signal 9" else ""
        self._fail(job, f"the process {event.died} ({event.problem}){guess}", final=True)

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
        self._watcher.progress(self._schedule.progress(self._place.slots))
