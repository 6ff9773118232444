"""The server and its sites, without a network: the same bits as in simulation, whoever is absent or restarts."""

import pytest
import torch

from tests.federation.inside import World
from unalike.algorithms import ALGORITHMS
from unalike.engine.checkpoint import load_latest
from unalike.engine.state import State

OURS = [entry.name for entry in ALGORITHMS if entry.cls.__module__.startswith("unalike.")]


def server_state(world):
    saved = load_latest(world.folder.run, print)
    return State.of(saved.round, saved.tensors)


def assert_same(world, simulation):
    """The server's vectors, and what each site keeps, bit for bit."""
    ours = server_state(world)
    assert ours.server.keys() == simulation.state.server.keys()
    for key, value in simulation.state.server.items():
        assert torch.equal(ours.server[key], value), key
    accepted = load_latest(world.folder.run, print).meta["accepted"]
    for number, state in simulation.state.parties.items():
        kept = next(s for s in world.transport.sites.values() if s.number == number)._vault.load(
            accepted[str(number)]
        )
        for key, value in state.items():
            assert torch.equal(kept[f"state/{key}"], value), key


@pytest.mark.parametrize("algorithm", OURS)
def test_every_algorithm_has_the_bits_of_simulation(algorithm, tmp_path):
    world = World.make(tmp_path, train={"algorithm": algorithm, "rounds": 2})
    figures = world.serve()
    simulation, rows = world.simulation()
    assert_same(world, simulation)
    assert figures["accuracy"] == pytest.approx(rows[-1]["accuracy"], abs=1e-9)
    assert figures["loss"] == pytest.approx(rows[-1]["loss"], abs=1e-6)
    assert figures["parties"]["worst"] == pytest.approx(rows[-1]["parties"]["worst"], abs=1e-9)
    assert figures["train_loss"] == rows[-1]["train_loss"]
