"""Protocols between real sites: the bits of simulation, whatever stops on the way, and nothing for a server that lies."""

import pytest

from tests.federation.inside import HOSPITALS, World
from tests.runs import toy_protocol  # noqa: F401
from unalike.federation import asking

NODE, NAME = 12, "hungarian"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)


def make(path, channel=None, algorithm="toy-perceptron", rounds=3, **plan):
    model = "trees(depth=3,bins=16)" if algorithm in ("histogram", "bagging", "cyclic") else "toy-linear"
    train = {"model": model, "algorithm": algorithm, "rounds": rounds}
    return World.make(path, HOSPITALS, train=train | ({"channel": channel} if channel else {}), **plan)


@pytest.mark.parametrize("channel", [None, "masked"])
def test_the_bits_of_simulation(channel, tmp_path):
    world = make(tmp_path, channel)
    found = world.serve()
    simulation, rows = world.simulation()
    assert found["server_sha256"] == simulation.state.server_digest()
    assert found["model_sha256"] == simulation.about_model()["model_sha256"]
    print(found, rows[-1])
