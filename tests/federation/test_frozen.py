"""Frozen layers between real sites: the same bits as in simulation, and nothing of them on the wire."""

import math

import pytest
from safetensors.torch import load_file

from tests.federation.inside import HOSPITALS, World
from tests.helpers import Frozen, frozen_model
from unalike.errors import UserError
from unalike.federation import work
from unalike.federation.envelope import peek


def lengths_in(raw):
    """The lengths of the vectors in a message."""
    return [math.prod(shape) for _, _, shape in peek(raw).header.get("arrays", [])]


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold"])
def test_sites_train_the_bits_of_simulation(tmp_path, algorithm):
    train = {"model": frozen_model("body.1"), "algorithm": algorithm}
    world = World.make(tmp_path, figures="none", train=train)  # figures are vectors, too
    figures = world.serve()
    simulation, _ = world.simulation(engine="sequential")
    assert figures["server_sha256"] == simulation.state.server_digest()
    assert figures["weights"] == simulation.task.size == 6 * 4 + 4 + 4 * 2 + 2
    lengths = {count for _, _, raw in world.transport.log for count in lengths_in(raw)}
    assert max(lengths) == simulation.task.size
    shape = (simulation.federation.dataset.shape[0],)
    models = [load_file(tmp_path / "sites" / name / "model.safetensors") for name in HOSPITALS]
    for model in models:
        Frozen(("body.1",)).build(shape, 2).load_state_dict(model, strict=True)
        assert model["body.1.weight"].equal(models[0]["body.1.weight"])


def test_a_site_with_another_frozen_layer_is_noticed(tmp_path, monkeypatch):
    """It would train another model than the rest, although its free weights start the same."""
    world = World.make(tmp_path, train={"model": frozen_model("body.1")})
    make = work.agreed_tasks

    def other(spec, schema):
        (task,) = make(spec, schema)
        task._constants["body.1.bias"] = task._constants["body.1.bias"] + 1
        return (task,)

    monkeypatch.setattr(work, "agreed_tasks", other)
    with pytest.raises(UserError, match="makes another model from the plan"):
        world.serve()
