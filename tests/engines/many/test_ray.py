"""Real Ray on this machine, two workers: the same bits, also where one of them is killed. Linux or macOS."""

import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("ray")

from unalike.engines.many.cluster import connected
from unalike.engines.many.machines import Machines
from unalike.errors import UserError
from unalike.runs.many import working_on
from unalike.runs.small import play, small_simulation

pytestmark = pytest.mark.federation
PLUGIN = '''
from unalike.algorithms.contract import Algorithm, algorithm

@algorithm("mine")
class Mine(Algorithm):
    """FedAvg that fails for one party, or goes half as far."""

    wrong: int = -1

    def upload(self, party, w):
        if int(party.number) == self.wrong:
            return {}["nothing"]
        found, state = super().upload(party, w)
        return {key: value / 2 for key, value in found.items()}, state
'''


@pytest.fixture(scope="module")
def ray():
    """One Ray for all tests of this file: programs that are connected already keep their connection."""
    with connected(Machines(workers=2), 1, 0) as (found, _):
        yield found


def with_workers(count, text, rounds=2, each_round=lambda simulation: None, **fields):
    simulation = small_simulation(text, **{"evaluate_every": 9, **fields})
    with working_on(Machines(workers=count), simulation, lambda line: None):
        for _ in range(rounds):
            play(simulation, 1)
            each_round(simulation)
    return simulation


def alone(text, rounds=2, **fields):
    return play(small_simulation(text, **{"evaluate_every": 9, **fields}), rounds)


@pytest.mark.parametrize(
    ("workers", "text", "fields"),
    [
        (1, "scaffold", {"engine": "sequential"}),
        (2, "fedrep", {"engine": "compiled", "channel": "quantise(8)"}),
    ],
)
def test_the_bits_of_one_process(ray, workers, text, fields):
    simulation = with_workers(workers, text, **fields)
    assert simulation.elsewhere.told()["workers"]["hosts"] == 1
    assert simulation.state.digest() == alone(text, **fields).state.digest()


def test_a_killed_worker_costs_no_bit(ray):
    killed = []

    def kill_one(simulation):
        if not killed:
            worker = simulation.elsewhere._hosts._workers[0]
            killed.append(ray.get(worker.actor.__ray_call__.remote(lambda host: os.getpid())))
            os.kill(killed[0], signal.SIGKILL)

    simulation = with_workers(2, "scaffold", 4, kill_one, engine="sequential", sample=1.0)
    assert simulation.elsewhere.told()["workers"]["lost_workers"] == 1
    assert simulation.state.digest() == alone("scaffold", 4, engine="sequential", sample=1.0).state.digest()


def test_code_of_the_user_goes_along_and_its_mistakes_come_back_in_a_line(ray, tmp_path):
    from unalike.cli.plugin import load_plugin

    file = tmp_path / "mine.py"
    file.write_text(PLUGIN)
    load_plugin(file)
    simulation = with_workers(1, "mine", 1, engine="sequential")
    assert simulation.state.digest() == alone("mine", 1, engine="sequential").state.digest()
    with pytest.raises(UserError) as there:
        with_workers(1, "mine(wrong=2)", 4, engine="sequential")
    with pytest.raises(UserError) as here:
        alone("mine(wrong=2)", 4, engine="sequential")
    assert str(there.value) == str(here.value)
    assert "mine.py, line" in str(here.value)


SIGNALLED = """
import os, signal
signal.signal(signal.SIGTERM, lambda number, frame: print("answered", flush=True))
from unalike.engines.many.cluster import connected
from unalike.engines.many.machines import Machines
with connected(Machines(workers=1), 1, 0):
    os.kill(os.getpid(), signal.SIGTERM)
    print("going on", flush=True)
"""


def test_sigterm_is_answered_by_the_program_and_not_by_ray():
    done = subprocess.run([sys.executable, "-c", SIGNALLED], capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[:2] == ["answered", "going on"], done.stderr
    assert done.returncode == 0
