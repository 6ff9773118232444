"""What a study runs next, and how long it will take: the bookkeeping of a study, without processes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from unalike.runs.record import failed_at, failed_for_good
from unalike.runs.results import Record
from unalike.runs.spec import RunSpec
from unalike.studies.plan import Goal, StudyPlan
from unalike.studies.planned import Planned, look_at
from unalike.studies.tuning.halving import Halving

LEFT_SECONDS = 2.0
"""A run that another process has is looked at again after this time."""


@dataclass
class Job:
    """A run that is to be made."""

    spec: RunSpec
    planned: Planned
    priority: tuple[int, int]
    """Tuning and the first seed first."""
    not_before: float = 0.0
    deaths: int = 0
    """How many processes in a row died of it."""
    began: float = 0.0
    rounds_at_start: int | None = None
    rounds: int = 0
    until: int = 0
    """The round after which it is to stop; without one, its last."""
    failure: int = 0
    """When the failure was noted that it is tried again after; 0 where there was none."""

    furthest: int = -1
    """The last round that it had come to when a process died of it."""

    def died(self) -> None:
        """A process died of it; those before count as long as it comes no further."""
        self.deaths = self.deaths + 1 if self.rounds <= self.furthest else 1
        self.furthest = max(self.rounds, self.furthest)

    def __post_init__(self) -> None:
        self.until = self.until or self.spec.rounds

    def reached_by(self, record: Record) -> bool:
        """Whether the run has finished, or has stopped where it was to stop."""
        stopped = self.until < self.spec.rounds and len(record.rounds) >= self.until
        return record.state == "finished" or (record.state == "unfinished" and not record.damaged and stopped)


class Costs:
    """Seconds that a run takes, learnt from those that ended: by data set and net, else from all."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])

    def learn(self, spec: RunSpec, seconds: float, rounds: int) -> None:
        """``seconds`` for so many rounds."""
        for name in _groups(spec):
            self._seconds[name][0] += seconds
            self._seconds[name][1] += _work(spec) * rounds / spec.rounds

    def seconds(self, spec: RunSpec) -> float | None:
        """What a run will take; None before anything is known."""
        for name in _groups(spec):
            spent, work = self._seconds[name]
            if work:
                return spent / work * _work(spec)
        return None

    def rank(self, spec: RunSpec) -> float:
        """For order alone: larger is longer."""
        known = self.seconds(spec)
        return _work(spec) if known is None else known


def _groups(spec: RunSpec) -> Iterable[tuple[str, ...]]:
    algorithm = spec.algorithm.split("(")[0]
    return ((spec.dataset, str(spec.model), algorithm), (spec.dataset, str(spec.model)), ())


def _work(spec: RunSpec) -> float:
    """Up to a factor that the data and the net decide."""
    if spec.steps is not None:
        return float(spec.rounds * spec.steps * spec.batch_size * spec.sample * (spec.parties or 10))
    return spec.rounds * float(spec.epochs or 1) * spec.sample * (1 - spec.public) * 1000


@dataclass
class Progress:
    """How far a study is."""

    total: int
    done: int = 0
    failed: int = 0
    running: int = 0
    seconds_left: float | None = None
    part: float = 0.0
    """Of all runs, what is done: runs that are going on count by their rounds."""

    @property
    def waiting(self) -> int:
        """Runs that have not begun, or are to go on."""
        return self.total - self.done - self.failed - self.running


@dataclass
class Schedule:
    """Which runs are done, failed, wanted and under way."""

    plan: StudyPlan
    runs: Path
    retry: bool = False
    """Whether runs that failed for good are tried again; others that failed always are."""
    looking: bool = False
    """Whether nothing is to be run: what failed has failed."""
    clock: Callable[[], float] = time.monotonic
    costs: Costs = field(default_factory=Costs)
    records: dict[str, Record] = field(default_factory=dict)
    """By key, the runs that have ended, or that tuning stopped."""
    pending: dict[str, Job] = field(default_factory=dict)
    active: dict[str, Job] = field(default_factory=dict)
    damaged: list[Record] = field(default_factory=list)
    """Runs whose files were not as they were written: they are made again."""
    lost: list[Record] = field(default_factory=list)
    """Final runs that cannot be made, since nothing could be tuned."""
    _unresolved: list[Goal] = field(default_factory=list)
    _searched: set[str] = field(default_factory=set)
    """Runs of searches, which count by the rungs that they are in."""

    def __post_init__(self) -> None:
        self._searched = {
            run.key for each in self.plan.tunings if isinstance(each, Halving) for run in each.runs()
        }
        self._advance()
        for goal in self.plan.goals:
            if goal.planned is not None:
                self._add(goal.planned, (goal.seed_place, 1))
            else:
                self._unresolved.append(goal)
        self._resolve()

    def _add(self, planned: Planned, priority: tuple[int, int], until: int | None = None) -> bool:
        """Note that a run is needed, until a round or to its end; whether there is news of it."""
        if planned.spec is None:
            news = planned.key not in self.records
            self.records[planned.key] = look_at(planned, self.runs)
            return news
        job = Job(planned.spec, planned, priority, until=until or 0)
        known = self.pending.get(planned.key) or self.active.get(planned.key)
        if known is not None:
            known.until = max(known.until, job.until)
            return False
        before = self.records.get(planned.key)
        if before is not None and (before.state == "failed" or job.reached_by(before)):
            return False
        record = look_at(planned, self.runs)
        if job.reached_by(record) or (record.state == "failed" and not self._again(record)):
            self._learn(planned.spec, record)
            self.records[planned.key] = record
            return True
        job.rounds, job.failure = len(record.rounds), failed_at(record.folder)
        self.pending[planned.key] = job
        self.damaged += [record] if record.damaged else []
        return False

    def _advance(self) -> None:
        """Add what tunings want next, as long as there are runs already that they go on from."""
        for tuning in self.plan.tunings:
            news = 1
            while news:
                news = sum(self._add(run, (0, 0), until) for run, until in list(tuning.wanted(self._known)))

    def _again(self, record: Record) -> bool:
        return not self.looking and (
            self.retry or (record.folder is not None and not failed_for_good(record.folder))
        )

    def _learn(self, spec: RunSpec, record: Record) -> None:
        seconds, rounds = record.figures.get("seconds"), record.figures.get("rounds") or spec.rounds
        if record.state == "unfinished":
            seconds, rounds = sum(float(row.get("seconds") or 0.0) for row in record.rounds), len(record.rounds)
        if isinstance(seconds, int | float) and seconds > 0:
            self.costs.learn(spec, float(seconds), rounds)

    def _resolve(self) -> None:
        """Give the tuned runs their parameters, as far as tuning has ended."""
        waiting = []
        for goal in self._unresolved:
            assert goal.tuning is not None
            choice = goal.tuning.choose(self._known)
            if choice.algorithm:
                self._add(goal.tuned(choice.algorithm, choice.fields), (goal.seed_place, 1))
            elif choice.problem:
                self.lost.append(Record("", goal.fields, "failed", problem=choice.problem))
            else:
                waiting.append(goal)
        self._unresolved = waiting

    def _known(self, planned: Planned) -> Record:
        return self.records.get(planned.key) or Record(planned.key, planned.fields, "unfinished")

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return not (self.pending or self.active or self._unresolved)

    def take(self) -> Job | None:
        """The next run, longest first among equals; None where none may begin now."""
        while True:
            now = self.clock()
            ready = [job for job in self.pending.values() if job.not_before <= now]
            if not ready:
                return None
            job = min(ready, key=lambda each: (each.priority, -self.costs.rank(each.spec), each.spec.key))
            del self.pending[job.spec.key]
            record = look_at(job.planned, self.runs)
            failed = record.state == "failed" and failed_at(record.folder) != job.failure
            if failed or job.reached_by(record):  # another process was faster
                self._ended(job, record)
                continue
            job.began, job.rounds_at_start, job.rounds = now, None, len(record.rounds)
            self.active[job.spec.key] = job
            return job

    def finished(self, job: Job) -> Record:
        """The run has ended: read what came of it. One that left nothing behind is tried again."""
        self.active.pop(job.spec.key, None)
        record = look_at(job.planned, self.runs)
        if record.state != "failed" and not job.reached_by(record):
            self.put_back(job)
        else:
            self._ended(job, record)
        return record

    def _ended(self, job: Job, record: Record) -> None:
        self._learn(job.spec, record)
        self.records[job.spec.key] = record
        self._advance()
        self._resolve()

    def put_back(self, job: Job, wait: float = 0.0) -> None:
        """The run is to be tried later."""
        self.active.pop(job.spec.key, None)
        job.not_before = self.clock() + wait
        self.pending[job.spec.key] = job

    def round_done(self, job: Job, number: int) -> None:
        """A run has come to that round."""
        if job.rounds_at_start is None:  # those that an earlier process played say nothing about the pace
            job.rounds_at_start, job.began = number, self.clock()
        job.rounds = number

    def mark_busy(self, busy: Callable[[Path], bool]) -> int:
        """Count runs that other processes are at work on as under way; how many they are."""
        for key, job in list(self.pending.items()):
            folder = self.runs / job.spec.folder
            if busy(folder):
                rows = look_at(job.planned, self.runs).rounds
                job.rounds = len(rows)
                self.active[key] = self.pending.pop(key)
                if rows:
                    self.costs.learn(job.spec, sum(float(row.get("seconds") or 0.0) for row in rows), len(rows))
        return len(self.active)

    def progress(self, workers: int) -> Progress:
        """How far the study is, and how long so many workers still need."""
        waiting = {*self.pending, *self.active} - self._searched
        records = {key: each for key, each in self.records.items() if key not in {*waiting, *self._searched}}
        searches = [each for each in self.plan.tunings if isinstance(each, Halving)]
        total = self.plan.total - sum(each.steps for each in searches)
        failed = sum(record.state == "failed" for record in records.values()) + len(self.lost)
        same = total - len({*records, *waiting}) - len(self._unresolved)
        done = len(records) + len(self.lost) - failed + max(0, same - len(self.lost))
        done += sum(each.done(self._known) for each in searches)
        made = Progress(self.plan.total, done, failed, len(self.active))
        parts = sum(job.rounds / job.until for job in self.active.values())
        made.part = (made.done + made.failed + parts) / max(1, made.total)
        made.seconds_left = self._seconds_left(workers)
        return made

    def _seconds_left(self, workers: int) -> float | None:
        left, unknown, known = 0.0, len(self._unresolved), []
        for job in self.active.values():
            played = job.rounds - (job.rounds_at_start or job.rounds)
            if played:
                pace = (self.clock() - job.began) / played
                left += pace * max(0, job.until - job.rounds)
                known.append(pace * job.spec.rounds)
            elif (whole := self.costs.seconds(job.spec)) is not None:
                left += whole * (job.until - job.rounds) / job.spec.rounds
            else:
                unknown += 1
        for job in self.pending.values():
            whole = self.costs.seconds(job.spec)
            if whole is None:
                unknown += 1
            else:
                left += whole * (job.until - job.rounds) / job.spec.rounds
                known.append(whole)
        for tuning in self.plan.tunings:
            spec = next((run.spec for run in tuning.runs() if run.spec is not None), None)
            whole = None if spec is None else self.costs.seconds(spec)
            if spec is not None and whole is not None:
                left += whole / spec.rounds * tuning.rounds_to_come(self._known)
        if not known:
            return None if unknown or self.active else 0.0
        return (left + unknown * sum(known) / len(known)) / max(1, workers)
