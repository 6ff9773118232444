"""Frozen layers (``requires_grad_(False)`` in a user's net) are neither trained nor sent, in every engine."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

from tests.contract import paper_algorithms
from tests.helpers import NEEDS, Frozen, frozen_model, net_algorithms
from unalike.data import load_dataset
from unalike.errors import UserError
from unalike.models import Net
from unalike.models.model import register_model
from unalike.runs.check import check_algorithm
from unalike.runs.extractor import run_extractor
from unalike.runs.run import Watcher, run
from unalike.runs.simulation import Simulation
from unalike.runs.small import small_dataset, small_simulation
from unalike.runs.spec import RunSpec

NEEDS_FEATURES = {entry.name for entry in net_algorithms() if entry.cls.needs_features}
NEEDS_NORM = {"fedbn"}
SHIPPED = [entry.name for entry in net_algorithms() if entry.cls.__module__.startswith("unalike.")]
SHIPPED = [name for name in SHIPPED if name not in NEEDS_NORM]
SHIPPED += paper_algorithms.NAMES
ENGINES = ("sequential", "vectorised", "compiled")


def whole(simulation):
    """The global model by layer name; for algorithms that have none, the initial one."""
    state = simulation.state
    w = simulation.algorithm.global_model(simulation.task, state.server)
    return simulation.task.named(simulation.task.initial() if w is None else w, state.buffers)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", SHIPPED)
def test_keeps_its_bits_and_is_no_part_of_the_vector(name, engine):
    simulation = small_simulation(
        name, **{**NEEDS.get(name, {}), "model": frozen_model("body.1"), "engine": engine}
    )
    net = Frozen(("body.1",)).build((5,), 3)
    free = sum(p.numel() for p in net.parameters() if p.requires_grad)
    assert simulation.task.size == free == sum(p.numel() for p in net.parameters()) - (5 * 6 + 6)
    before = whole(simulation)
    for _ in range(2):
        simulation.state, _ = simulation.play_round()
    after = whole(simulation)
    assert all(torch.equal(after[f"body.1.{what}"], before[f"body.1.{what}"]) for what in ("weight", "bias"))
    if simulation.algorithm.global_model(simulation.task, simulation.state.server) is not None:
        assert not torch.equal(after["body.3.weight"], before["body.3.weight"])


@pytest.mark.parametrize("what", [("body.1",), ("body.3.bias", "body.1.weight"), ("body",), ("head",)])
@pytest.mark.parametrize("name", ["fedavg", "scaffold", "rfedavg+", "moon", "fedper"])
def test_holds_the_contract(name, what):
    if name in NEEDS_FEATURES and what == ("body",):
        with pytest.raises(UserError, match="no weights that are trained: it would be FedAvg"):
            small_simulation(name, model=frozen_model(*what))
    elif name == "fedper" and what == ("body",):
        with pytest.raises(UserError, match="a single layer with weights to train"):
            small_simulation(name, model=frozen_model(*what))
    else:
        check_algorithm(name, model=frozen_model(*what))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("what", [("body.1",), ("body.3",), ("body",), ("head",), ("body.1.bias", "head.weight")])
def test_equals_plain_pytorch(what, engine):
    """One party, all rows in each step: an ordinary module, ``requires_grad`` False, under torch.optim.SGD."""
    data = small_dataset()
    fields = {"model": frozen_model(*what), "engine": engine, "validation": 0.0, "held_out": 0.0, "seed": 3}
    local = {"epochs": 4, "batch_size": 1000, "lr": 0.1, "optimiser": "sgd(momentum=0.9, weight_decay=0.01)"}
    simulation = Simulation(RunSpec(parties=1, rounds=2, **fields, **local), data=data, say=lambda line: None)
    if shutil.which("cc"):
        assert simulation.engine.name == engine
    net = Frozen(what).build((5,), 3)
    net.load_state_dict(simulation.final_weights())
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    for _ in range(2):
        simulation.state, _ = simulation.play_round()
        free = [p for p in net.parameters() if p.requires_grad]
        optimiser = torch.optim.SGD(free, lr=0.1, momentum=0.9, weight_decay=0.01)
        for _ in range(4):
            optimiser.zero_grad()
            functional.cross_entropy(net(x)[0], y).backward()
            optimiser.step()
    for key, value in simulation.final_weights().items():
        assert torch.allclose(value, net.state_dict()[key], atol=1e-6), key


class ByHand(nn.Module):
    """A linear layer whose numbers are no parameters at all."""

    def __init__(self, weight, bias):
        super().__init__()
        self.numbers = (weight, bias)

    def forward(self, x):
        weight, bias = (v.to(x) for v in self.numbers)
        return functional.linear(x, weight, bias)


PRETRAINED = torch.linspace(-1, 1, 5 * 6).reshape(6, 5), torch.linspace(0, 1, 6)


@register_model("test-pretrained")
class Pretrained:
    """The first layer's numbers come from elsewhere: frozen, or written into the net by hand."""

    by_hand: bool = False

    def build(self, shape, classes):
        second, head = nn.Linear(6, 4), nn.Linear(4, classes)
        if self.by_hand:
            return Net(nn.Sequential(ByHand(*PRETRAINED), nn.ReLU(), second), head)
        first = nn.utils.skip_init(nn.Linear, 5, 6)  # no random number is drawn for it
        first.load_state_dict(dict(zip(("weight", "bias"), PRETRAINED, strict=True)))
        return Net(nn.Sequential(first.requires_grad_(False), nn.ReLU(), second), head)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize("name", SHIPPED)
def test_equals_a_net_with_the_constant_written_by_hand(name, engine):
    """The same bits and the same bytes on the wire; and values that were loaded are not drawn anew."""
    digests, traffic = set(), []
    for text in ("test-pretrained", "test-pretrained(by_hand=true)"):
        simulation = small_simulation(name, **{**NEEDS.get(name, {}), "model": text, "engine": engine})
        for _ in range(3):
            simulation.state, row = simulation.play_round()
        digests.add(simulation.state.digest())
        traffic.append(row["traffic"])
        if text == "test-pretrained":
            assert torch.equal(whole(simulation)["body.0.weight"], PRETRAINED[0])
    assert len(digests) == 1
    assert traffic[0] == traffic[1]


def test_the_saved_model_has_all_layers(tmp_path):
    made = run(runs=tmp_path, dataset="digits", model=frozen_model("body"), rounds=1, steps=2)
    saved = load_file(made.run_dir / "weights.safetensors")
    net = Frozen(("body",)).build((1, 8, 8), 10)
    net.load_state_dict(saved, strict=True)
    assert made.figures["weights"] == 4 * 10 + 10
    assert made.figures["bytes_up"] == 10 * 4 * (4 * 10 + 10)
    rows = load_dataset("digits").x_test[:7]
    features = run_extractor(made.run_dir, load_dataset("digits"))(rows)
    assert np.allclose(features, net.body(torch.from_numpy(np.asarray(rows, np.float32))).detach(), atol=1e-6)


def test_a_channel_sees_only_what_is_trained():
    simulation = small_simulation("fedavg", model=frozen_model("body"), channel="clip(0.001)+masked")
    before = whole(simulation)
    simulation.state, _ = simulation.play_round()
    after = whole(simulation)
    assert simulation.state.server["w"].numel() == 4 * 3 + 3
    assert torch.equal(before["body.1.weight"], after["body.1.weight"])


def test_a_net_that_is_frozen_altogether_is_refused():
    with pytest.raises(UserError, match="nothing to train"):
        small_simulation("fedavg", model=frozen_model("body", "head"))


STORE = {"scale": 1.0}


@register_model("test-frozen-elsewhere")
class Elsewhere:
    """A frozen layer whose numbers come from somewhere that no fingerprint covers."""

    def build(self, shape, classes):
        first = nn.Linear(int(np.prod(shape)), 6)
        nn.init.constant_(first.weight, STORE["scale"])
        return Net(nn.Sequential(nn.Flatten(), first.requires_grad_(False)), nn.Linear(6, classes))


def test_other_frozen_layers_are_another_run(tmp_path, monkeypatch):
    class Stop(Watcher):
        def __init__(self, after):
            self.after, self.said = after, []

        def round_done(self, row):
            if row["round"] == self.after:
                raise KeyboardInterrupt

        def say(self, message):
            self.said.append(message)

    spec = RunSpec(dataset="digits", model="test-frozen-elsewhere", rounds=3, steps=1)
    with pytest.raises(KeyboardInterrupt):
        run(spec, runs=tmp_path, watcher=Stop(2))
    monkeypatch.setitem(STORE, "scale", 2.0)
    follow = Stop(99)
    run(spec, runs=tmp_path, watcher=follow)
    assert any("frozen layers have changed" in line for line in follow.said)


class StillNet(Net):
    """A net that keeps its batch norm in evaluation mode, in PyTorch's usual way."""

    def train(self, mode=True):
        super().train(mode)
        self.body[1].eval()
        return self


@register_model("test-frozen-norm")
class FrozenNorm:
    """A frozen body with batch norm; ``still``: its running statistics are held too."""

    still: bool = False

    def build(self, shape, classes):
        body = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU()).requires_grad_(False)
        return (StillNet if self.still else Net)(body, nn.Linear(4, classes))


@pytest.mark.parametrize("still", [False, True])
def test_running_statistics_go_on_unless_the_layer_stays_in_evaluation_mode(still):
    """As in PyTorch: ``requires_grad`` says nothing about statistics, evaluation mode does."""
    simulation = small_simulation("fedavg", model=f"test-frozen-norm(still={str(still).lower()})", batch_size=64)
    before = {key: value.clone() for key, value in simulation.final_weights().items()}
    simulation.state, row = simulation.play_round()
    after = simulation.final_weights()
    assert torch.equal(after["body.1.weight"], before["body.1.weight"])
    assert torch.equal(after["body.1.running_mean"], before["body.1.running_mean"]) is still
    assert ("running statistics" in row["traffic"]["up"]) is not still
    FrozenNorm(still).build((5,), 3).load_state_dict(after, strict=True)
