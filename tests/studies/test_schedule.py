"""What comes next, what counts as done, and how long it will take."""

from __future__ import annotations

import pytest

from tests.studies.fake_runs import failed, finished
from unalike.runs.spec import RunSpec
from unalike.studies.plan import plan_study
from unalike.studies.schedule import Costs, Schedule
from unalike.studies.study_file import read_study

TEXT = """
    title = "x"
    seeds = [0, 1]
    [base]
    steps = 1
    validation = 0.0
    [axes]
    rounds = [2, 4]
    algorithm = ["fedavg", "fedprox"]
    [tune.fedprox]
    mu = [0.1, 1.0]
"""


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def schedule(tmp_path):
    return Schedule(plan_study(read_study("x", TEXT, "x")), tmp_path, clock=Clock())


def play(schedule, job, **figures):
    finished(schedule.runs, job.spec, validation_accuracy=0.5, **figures)
    return schedule.finished(job)


def test_tuning_first_then_seed_by_seed_longest_first(schedule):
    order = []
    while (job := schedule.take()) is not None:
        order.append((job.spec.validation > 0, job.spec.seed, job.spec.rounds, job.spec.algorithm))
        play(schedule, job)
    assert schedule.over
    assert len(order) == len(set(order)) == schedule.plan.total == 12
    assert [part[0] for part in order] == [True] * 4 + [False] * 8
    assert [part[1] for part in order[4:]] == [0] * 4 + [1] * 4
    assert [part[2] for part in order] == [4, 4, 2, 2, 4, 4, 2, 2, 4, 4, 2, 2]
    assert {part[3] for part in order[4:]} == {"fedavg", "fedprox(mu=0.1)"}


def test_tuned_runs_wait_for_their_own_tuning_alone(schedule):
    jobs = [schedule.take() for _ in range(4)]
    for job in jobs:
        if job.spec.rounds == 2:
            play(schedule, job)
    tuned = {job.spec.rounds for job in schedule.pending.values() if "fedprox" in job.spec.algorithm}
    assert tuned == {2}
    assert not schedule.over


def test_what_was_made_before_is_not_made_again(schedule, tmp_path):
    job = schedule.take()
    play(schedule, job)
    again = Schedule(schedule.plan, tmp_path)
    assert job.spec.key in again.records
    assert job.spec.key not in again.pending
    other = next(iter(schedule.pending.values()))
    finished(tmp_path, other.spec)  # by another process, meanwhile
    taken = []
    while (job := again.take()) is not None:
        taken.append(job.spec.key)
    assert other.spec.key not in taken


def test_failures_that_would_only_repeat_are_not_tried_again(tmp_path):
    plan = plan_study(read_study("x", "title='x'\n[axes]\nlr=[0.1, 0.2]", "x"))
    for_good, may_mend = (goal.planned.spec for goal in plan.goals)
    failed(tmp_path, for_good, "diverged")
    failed(tmp_path, may_mend, "data not found", final=False)
    assert set(Schedule(plan, tmp_path).pending) == {may_mend.key}
    assert set(Schedule(plan, tmp_path, retry=True).pending) == {for_good.key, may_mend.key}
    looking = Schedule(plan, tmp_path, looking=True)
    assert (looking.over, looking.progress(1).failed) == (True, 2)


def test_a_study_whose_tuning_fails_ends(schedule):
    while (job := schedule.take()) is not None:
        if job.spec.validation:
            failed(schedule.runs, job.spec)
            schedule.finished(job)
        else:
            play(schedule, job)
    now = schedule.progress(1)
    assert schedule.over
    assert (now.done, now.failed, now.waiting, now.total) == (4, 8, 0, 12)
    assert all("no value could be tuned" in record.problem for record in schedule.lost)


def test_a_run_that_another_process_has_is_left_for_later(schedule):
    first = schedule.take()
    schedule.put_back(first, wait=5.0)
    seen = [job.spec.key for job in iter(schedule.take, None)]
    assert first.spec.key not in seen
    schedule.clock.now = 6.0
    assert schedule.take().spec.key == first.spec.key


def test_a_run_that_left_nothing_behind_is_tried_again(schedule):
    job = schedule.take()
    assert schedule.finished(job).state == "unfinished"
    assert schedule.take().spec.key == job.spec.key


def test_progress_counts_every_run_once(schedule):
    while True:
        now = schedule.progress(2)
        assert now.done + now.failed + now.running + now.waiting == now.total == 12
        assert min(now.done, now.failed, now.running, now.waiting) >= 0
        job = schedule.take()
        if job is None:
            break
        assert schedule.progress(2).running == 1
        play(schedule, job)
    assert (now.done, now.part, now.seconds_left) == (12, 1.0, 0.0)


def test_the_time_that_is_left(tmp_path):
    plan = plan_study(read_study("x", "title='x'\nseeds=[0,1,2,3]\n[base]\nrounds=10", "x"))
    clock = Clock()
    schedule = Schedule(plan, tmp_path, clock=clock)
    assert schedule.progress(2).seconds_left is None
    job = schedule.take()
    schedule.round_done(job, 1)
    clock.now = 8.0
    schedule.round_done(job, 5)
    now = schedule.progress(2)
    assert now.part == pytest.approx(0.5 / 4)
    # 2 s a round: 10 s for the rest of this one, 20 s for each of three, on two workers.
    assert now.seconds_left == pytest.approx((10 + 60) / 2)


def test_costs_are_learnt_by_data_set_and_net():
    costs = Costs()
    small, large = RunSpec(rounds=10), RunSpec(rounds=20)
    assert costs.seconds(small) is None
    assert costs.rank(large) > costs.rank(small)
    costs.learn(small, 5.0, 10)
    assert costs.seconds(large) == pytest.approx(10.0)
    costs.learn(RunSpec(dataset="heart", partition="natural", rounds=10), 500.0, 10)
    assert costs.seconds(large) == pytest.approx(10.0)
    assert costs.seconds(RunSpec(dataset="wine", rounds=10)) > 5.0
    assert costs.seconds(RunSpec(rounds=10, algorithm="scaffold")) == pytest.approx(5.0)


def test_runs_of_other_processes_count_as_under_way(schedule):
    job = next(iter(schedule.pending.values()))
    assert schedule.mark_busy(lambda folder: folder.name == job.spec.folder) == 1
    assert schedule.progress(1).running == 1
