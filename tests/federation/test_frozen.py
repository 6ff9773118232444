"""Frozen layers between real sites: the same bits as in simulation, and nothing of them on the wire."""

import math

import pytest
from safetensors.torch import load_file

from tests.federation.inside import HOSPITALS, World
from tests.helpers import Frozen, frozen_model
from unalike.errors import UserError
from unalike.federation import work
from unalike.federation.envelope import peek
from unalike.federation.plan import Plan
from unalike.own_files import allow_code


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

    def other(spec, schema, device):
        (task,) = make(spec, schema, device)
        task._constants["body.1.bias"] = task._constants["body.1.bias"] + 1
        return (task,)

    monkeypatch.setattr(work, "agreed_tasks", other)
    with pytest.raises(UserError, match="makes another model from the plan"):
        world.serve()


NETS = """
import math
import torch
class Net(torch.nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.fc = torch.nn.Linear(4, classes)
        self.one = torch.nn.Linear(math.prod(shape), 4)
    def forward(self, x):
        return self.fc(torch.tanh(self.one(x)))
"""


def test_a_module_of_ones_own_between_sites(tmp_path, monkeypatch):
    """The plan has the fingerprint of its file; every side names the file, and trains the bits of simulation."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text(NETS)
    train = {"model": "module:nets.py:Net", "freeze": "one.bias"}
    with pytest.raises(UserError, match="code that nobody has named here"):
        World.make(tmp_path / "unnamed", train=train).serve()
    allow_code("nets.py")
    world = World.make(tmp_path / "named", train=train)
    figures = world.serve()
    simulation, _ = world.simulation(engine="sequential")
    assert figures["server_sha256"] == simulation.state.server_digest()
    assert figures["weights"] == simulation.task.size == 4 * simulation.task.shape[0] + 4 * 2 + 2
    (tmp_path / "nets.py").write_text(NETS.replace("tanh", "relu"))
    with pytest.raises(UserError, match="is not the one that the plan was made with"):
        Plan.read(tmp_path / "named" / "server")
