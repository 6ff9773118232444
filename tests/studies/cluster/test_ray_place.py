"""Studies on Ray: one cluster of this machine for all tests here. Runs have the bits of one process."""

from __future__ import annotations

import os
import signal
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.studies.test_workers import Ear
from unalike.errors import UserError
from unalike.runs.claim import claim, is_busy
from unalike.runs.run import run
from unalike.studies.cluster.connection import cluster
from unalike.studies.cluster.ray_place import RayPlace
from unalike.studies.cluster.task import StudyTerms, make_here
from unalike.studies.making import errand
from unalike.studies.place import Event
from unalike.studies.plan import plan_study
from unalike.studies.presence import stop
from unalike.studies.schedule import Schedule
from unalike.studies.store import Store
from unalike.studies.study_file import read_study
from unalike.studies.wants import Wants
from unalike.studies.workers import Runner, StudyStopped

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")

TEXT = """
title = "three"
[base]
dataset = "digits"
rounds = {rounds}
steps = 1
validation = 0.0
engine = "sequential"
[axes]
algorithm = ["fedavg", "scaffold", "fedprox(0.1)"]
"""


def study(rounds=3, only=None):
    text = TEXT.format(rounds=rounds)
    return read_study("three", text if only is None else text.replace('"fedavg", "scaffold", ', ""), "three.toml")


@pytest.fixture(scope="module")
def ray():
    handlers = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with cluster(None, cpus=2) as connected:
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == handlers
        yield connected


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The weights that one process comes to, by rounds and key."""
    runs, found = tmp_path_factory.mktemp("alone"), {}
    for rounds in (3, LONG):
        for goal in plan_study(study(rounds)).goals:
            if rounds == 3 or "fedprox" in goal.planned.spec.algorithm:
                spec = goal.planned.spec
                found[spec.key] = run(spec, runs=runs).figures["weights_sha256"]
    return found


LONG = 250
"""Rounds of a run that something happens to."""


def runner(ray, runs, what, ear=None, *, place=None, seconds=0.0, **options):
    made = place or RayPlace(ray, runs, what.wants, workers=2, ship_seconds=seconds, **options)
    return Runner(what, runs, watcher=ear or Ear(), place=made, checkpoint_seconds=seconds)


def weights(schedule):
    return {key: record.figures.get("weights_sha256") for key, record in schedule.records.items()}


@pytest.mark.parametrize("ship", [False, True])
def test_a_study_has_the_bits_of_one_process_and_no_run_is_made_twice(ray, tmp_path, alone, ship):
    ear = Ear()
    schedule = runner(ray, tmp_path, study(), ear, ship=ship).run()
    assert weights(schedule) == {key: alone[key] for key in schedule.records}
    assert len(ear.ended) == len(schedule.records) == 3
    assert ear.moves[-1].done == 3
    assert not list(tmp_path.glob(".studies/probe-*"))
    with Store(tmp_path) as store:
        assert [row["state"] for row in store.rows()] == ["finished"] * 3
        assert store.sync() == 0
    again = Ear()
    assert runner(ray, tmp_path, study(), again, ship=ship).run().over
    assert again.ended == []


class Killing(RayPlace):
    """Kills the process of a run, once it has come to a round; so many times."""

    times = 1

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.pids, self.first = [], {}

    def _hear(self, flight, said):
        super()._hear(flight, said)
        if said["event"] == "began":
            self.pids.append(said["pid"])
        if said["event"] == "round":
            self.first.setdefault(flight.number, said["round"])
            if self.times and any(name.startswith("checkpoint-") for name in said.get("names", ())):
                self.times -= 1
                os.kill(self.pids[-1], signal.SIGKILL)


def test_a_killed_worker_costs_a_checkpoint_and_no_run(ray, tmp_path, alone):
    ear = Ear()
    place = Killing(ray, tmp_path, Wants(), workers=1, ship=True, ship_seconds=0.0)
    schedule = runner(ray, tmp_path, study(LONG, "fedprox"), ear, place=place).run()
    assert weights(schedule) == {key: alone[key] for key in schedule.records}
    (line,) = ear.said
    assert line.startswith(f"A worker was lost (its process died (pid {place.pids[0]} on ")
    assert "its run goes on in another: digits-fedprox-" in line
    assert len(place.pids) == 2
    began = list(place.first.values())
    assert began[0] == 0
    assert began[1] > 0  # from where the first one was


@pytest.mark.parametrize("ship", [False, True])
def test_a_study_that_is_stopped_has_its_runs_saved(ray, tmp_path, ship):
    ear, what = Ear(), study(100_000, "fedprox")

    def other():
        while not ear.moves or not ear.moves[-1].part:
            time.sleep(0.01)
        stop(tmp_path, "three")

    terminal = threading.Thread(target=other)
    terminal.start()
    with pytest.raises(StudyStopped):
        runner(ray, tmp_path, what, ear, ship=ship, seconds=1000.0).run()
    terminal.join(timeout=60)
    (folder,) = tmp_path.glob("digits-*")
    assert list(folder.glob("checkpoint-*"))
    assert not is_busy(folder)


def test_a_run_that_another_process_has_is_not_shipped(ray, tmp_path):
    what = study(3, "fedprox")
    job = Schedule(plan_study(what), tmp_path).take()
    place = RayPlace(ray, tmp_path, Wants(), ship=True)
    folder = tmp_path / job.spec.folder
    folder.mkdir()
    with claim(folder):
        place.start(job, errand(job.spec, 3, 0.0))
        assert place.events(0.0) == [Event("busy", job)]
    place.stop(1.0)


def test_room_is_what_hosts_have_for_what_runs_want(ray, tmp_path):
    places = [RayPlace(ray, tmp_path, Wants(cpus=cpus)) for cpus in (1, 2)]
    assert [place.slots for place in places] == [2, 1]
    assert places[0].room(1) == 1
    assert places[0].room(9) == 2
    for place in places:
        place.stop(1.0)


def test_runs_that_no_host_has_room_for_are_refused_and_do_not_wait(ray, tmp_path):
    with pytest.raises(UserError, match=r"for one run: 9 CPUs, 0 GPUs\. Lower that"):
        RayPlace(ray, tmp_path, Wants(cpus=9))
    with pytest.raises(UserError, match=r"1 CPUs, 0 GPUs, 4e[+]06 GB"):
        RayPlace(ray, tmp_path, Wants(memory=4 * 10**15))


# What a host looks at before it makes a run: without Ray.


def told(terms):
    job = Schedule(plan_study(study(3, "fedprox")), Path(terms.runs)).take()
    return make_here(errand(job.spec, 3, 0.0), terms, None, lambda said: False)


def test_a_host_that_does_not_see_the_folder_says_so_and_the_remedy(tmp_path):
    said = told(StudyTerms(str(tmp_path), ".studies/probe-1"))
    assert said["event"] == "broken"
    assert f"does not see the folder of runs {tmp_path}" in said["problem"]
    assert "add --ship" in said["problem"]
    assert not list(tmp_path.iterdir())


def test_a_host_with_another_program_says_so(tmp_path):
    said = told(StudyTerms(str(tmp_path), "", version="9.9"))
    assert said["event"] == "broken"
    assert "the study 9.9" in said["problem"]


def test_a_host_that_cannot_prepare_says_so(tmp_path):
    said = told(StudyTerms(str(tmp_path), "", prepare=missing_plugin))
    assert said == {"event": "broken", "problem": "There is no plugin file mine.py."}


def missing_plugin():
    raise UserError("There is no plugin file mine.py.")
