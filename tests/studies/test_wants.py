"""What a run needs of a host: it is read, it fits, and it is no part of the run."""

from __future__ import annotations

import pytest

from unalike.errors import UserError
from unalike.studies.plan import plan_study
from unalike.studies.processes import cpu_count, default_count
from unalike.studies.study_file import read_study
from unalike.studies.wants import Wants, read_wants


def test_a_study_file_says_it_and_the_runs_are_the_same():
    plain = read_study("x", "title = 'x'", "x")
    asking = read_study("x", "title = 'x'\n[resources]\ncpus = 2\ngpus = 0.5\nmemory = '1.5 GB'", "x")
    assert plain.wants == Wants()
    assert asking.wants == Wants(2.0, 0.5, 1_500_000_000)
    keys = [[goal.planned.key for goal in plan_study(each).goals] for each in (plain, asking)]
    assert keys[0] == keys[1]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"cpu": 1}, "resources.cpu is not known. Known: cpus, gpus, memory"),
        ({"cpus": 0}, "resources.cpus must be above 0"),
        ({"cpus": -1}, "resources.cpus must be a number of 0 or more, got -1"),
        ({"cpus": True}, "got True"),
        ({"gpus": "one"}, "resources.gpus must be a number of 0 or more, got 'one'"),
        ({"gpus": 1.5}, "resources.gpus must be whole above 1, got 1.5"),
        ({"memory": 4}, 'resources.memory must be a size such as "4 GB", got 4'),
        ({"memory": "4 gigs"}, "got '4 gigs'"),
        ({"memory": "0 GB"}, "got '0 GB'"),
    ],
)
def test_mistakes_are_one_line(values, problem):
    with pytest.raises(UserError) as caught:
        read_wants(values)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("wants", "host", "runs"),
    [
        (Wants(), {"CPU": 4.0}, 4),
        (Wants(cpus=3), {"CPU": 4.0}, 1),
        (Wants(cpus=0.1), {"CPU": 1.0}, 10),
        (Wants(gpus=0.5), {"CPU": 8.0, "GPU": 1.0}, 2),
        (Wants(gpus=1), {"CPU": 8.0}, 0),
        (Wants(memory=3), {"CPU": 8.0, "memory": 10.0}, 3),
    ],
)
def test_how_many_runs_a_host_has_room_for(wants, host, runs):
    assert wants.fit(host) == runs


def test_processes_here_leave_cores_to_runs_that_want_several():
    assert default_count(Wants()) == cpu_count()
    assert default_count(Wants(cpus=2 * cpu_count())) == 1
