"""Processes that share a study's runs without a leader: each run is made once, and none is forgotten."""

from __future__ import annotations

import pytest

from tests.studies.fake_runs import failed, finished
from tests.studies.test_workers import TOTAL, Ear, small
from unalike.errors import UserError
from unalike.runs.claim import claim, claimed
from unalike.runs.lease import InUse
from unalike.runs.run import record_failure
from unalike.runs.spec import RunSpec
from unalike.studies import work
from unalike.studies.making import CHANGED, LoadedData, Made, errand, make
from unalike.studies.presence import running, stop
from unalike.studies.schedule import Schedule
from unalike.studies.work import Taker
from unalike.studies.workers import DEATHS, StudyStopped


class Stuck(Exception):
    """A process waits for longer than it ever should."""


def taker(runs, sleep=lambda: None, **options):
    """Waiting takes no time: it moves the clock that the process looks at, and calls ``sleep``."""
    now = [0.0]

    def wait(seconds):
        now[0] += seconds
        if now[0] > 1000:
            raise Stuck
        sleep()

    ear = Ear()
    return Taker(small(), runs, watcher=ear, clock=lambda: now[0], sleep=wait, **options), ear


@pytest.fixture
def made(monkeypatch):
    """Runs that train nothing; ``made`` has who made them, ``within`` is called while a run is claimed."""

    class Fake:
        def __init__(self):
            self.keys, self.within = [], lambda spec: None

        def __call__(self, told, runs, load, hear, stopped=None, say=None):
            spec = RunSpec.from_mapping(told["spec"])
            try:
                with claimed(runs / spec.folder):
                    self.within(spec)
                    hear(1)
                    self.keys.append(spec.key)
            except InUse:
                return Made("busy")
            finished(runs, spec, validation_accuracy=0.5)
            return Made("done")

    fake = Fake()
    monkeypatch.setattr(work, "make", fake)
    return fake


def test_every_run_is_made_once(tmp_path, made):
    one, ear = taker(tmp_path)
    assert one.work().over
    assert len(made.keys) == len(set(made.keys)) == len(ear.ended) == TOTAL
    two, ear = taker(tmp_path)
    assert two.work().over
    assert len(made.keys) == TOTAL
    assert ear.ended == []


def test_a_second_process_takes_all_but_what_the_first_is_at(tmp_path, made):
    """The second one comes while the first has prepared a run: it makes all others, and does not wait for that."""
    seen = []

    def second(spec):
        if not seen:
            seen.append(spec.key)
            other, ear = taker(tmp_path, wait=False)
            schedule = other.work()
            assert seen[0] in schedule.pending
            assert seen[0] not in made.keys
            assert len(made.keys) >= 5  # of 8: what follows from tuning may wait for the run that is under way
            assert len(ear.ended) == len(made.keys)

    made.within = second
    one, _ = taker(tmp_path)
    assert one.work().over
    assert len(made.keys) == len(set(made.keys)) == TOTAL


def test_it_waits_for_what_others_make_and_goes_on_with_what_follows(tmp_path, made):
    """Another process has a tuning run: the final runs come after it, so there is something to wait for."""
    plan = Schedule(work.plan_study(small()), tmp_path)
    first = plan.take().spec
    held = claimed(tmp_path / first.folder)
    held.__enter__()
    naps = []

    def sleep():
        naps.append(1)
        if len(naps) == 3:
            held.__exit__(None, None, None)
            finished(tmp_path, first)

    one, _ = taker(tmp_path, sleep=sleep)
    assert one.work().over
    assert first.key not in made.keys
    assert len(made.keys) == TOTAL - 1
    assert len(naps) >= 3


def test_what_failed_elsewhere_meanwhile_is_not_tried_again(tmp_path, made):
    elsewhere = []

    def fail_others(spec):
        made.within = lambda spec: None
        for job in list(one._schedule.pending.values()):
            elsewhere.append(job.spec.key)
            failed(tmp_path, job.spec, "it diverged")

    made.within = fail_others
    one, _ = taker(tmp_path)
    schedule = one.work()
    assert len(elsewhere) == 5
    assert not {*elsewhere} & {*made.keys}
    assert {schedule.records[key].state for key in elsewhere} == {"failed"}


def test_a_retried_failure_is_tried_once_by_all_together(tmp_path, made):
    schedule = Schedule(work.plan_study(small()), tmp_path)
    spec = max(schedule.pending.values(), key=lambda job: job.priority).spec
    failed(tmp_path, spec, "it diverged")
    one, _ = taker(tmp_path)
    one.work()
    assert spec.key not in made.keys
    two, _ = taker(tmp_path, retry=True)
    two.work()
    assert made.keys.count(spec.key) == 1


def test_a_run_that_kills_its_process_three_times_has_failed(tmp_path, made, monkeypatch):
    """Each dies without giving its claim back, as kill -9 leaves it."""

    class Killed(BaseException):
        pass

    victim = []

    def kill(spec):
        victim.append(spec.key)
        raise Killed

    from unalike.runs.lease import Lease

    whole, tries = Lease.release, []
    for _ in range(DEATHS):
        made.within = kill
        monkeypatch.setattr(Lease, "release", lambda lease: lease._over.set())
        one, ear = taker(tmp_path)
        tries.append(ear)
        with pytest.raises(Killed):
            one.work()
        monkeypatch.setattr(Lease, "release", whole)
    assert len(set(victim)) == 1
    assert any("A process was lost" in line for line in tries[1].said)
    made.within = lambda spec: None
    one, ear = taker(tmp_path)
    schedule = one.work()
    assert schedule.records[victim[0]].state == "failed"
    assert "3 processes in a row" in schedule.records[victim[0]].problem
    two, _ = taker(tmp_path, retry=True)
    assert two.work().records[victim[0]].state == "finished"


def test_stop_from_another_terminal(tmp_path, made):
    asked = []

    def ask(spec):
        asked.append(running(tmp_path, "small"))
        stop(tmp_path, "small", patience=0.0)

    made.within = ask
    one, _ = taker(tmp_path)
    with pytest.raises(StudyStopped):
        one.work()
    assert len(asked[0]) == 1
    assert running(tmp_path, "small") == []


def test_a_full_disk_ends_it(tmp_path, monkeypatch):
    monkeypatch.setattr(work, "make", lambda *args, **options: Made("broken", "No space left."))
    one, _ = taker(tmp_path)
    with pytest.raises(UserError, match="No space left"):
        one.work()


# A real run from here on.

SPEC = RunSpec(dataset="digits", rounds=3, steps=1)


def go(runs, spec=SPEC, told=None, **options):
    heard = []
    told = told or errand(spec, options.pop("until", spec.rounds), 0.0)
    return make(told, runs, LoadedData().load, heard.append, **options), heard


def test_a_run_is_made_stopped_and_gone_on_with(tmp_path):
    assert go(tmp_path, until=2)[0] == Made("done")
    assert len(list((tmp_path / SPEC.folder).glob("checkpoint-*"))) > 0
    done, heard = go(tmp_path)
    assert done == Made("done")
    assert heard[0] == 2
    assert (tmp_path / SPEC.folder / "result.json").exists()


def test_what_can_become_of_a_run(tmp_path, monkeypatch):
    (tmp_path / SPEC.folder).mkdir()
    with claim(tmp_path / SPEC.folder):
        assert go(tmp_path)[0] == Made("busy")
    changed = errand(SPEC, 3, 0.0) | {"key": "0"}
    assert go(tmp_path, told=changed)[0] == Made("broken", CHANGED)
    wrong = {"key": "0", "spec": {"rounds": -1}, "checkpoint_seconds": 0.0}
    assert go(tmp_path, told=wrong)[0].word == "failed"
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path / "none"))
    missing = go(tmp_path, RunSpec(dataset="svhn", rounds=1))[0]
    assert missing.word == "failed"
    assert missing.problem.startswith("data not found")
    record_failure(tmp_path, SPEC, "as a check that it can be written", final=False)
