"""What the paper of FedGAN, or arithmetic, says about it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.helpers import recorded
from unalike.models import noise
from unalike.randomness import stream
from unalike.runs.simulation import Simulation
from unalike.runs.small import play, small_dataset, small_simulation
from unalike.runs.spec import RunSpec

ENGINES = pytest.mark.parametrize("engine", ["sequential", "vectorised", "compiled"])
NETS = ("mlp(6,4)", "mlp(8)", "logistic")
WHOLE = {"batch_size": 256, "optimiser": "sgd", "sample": 1.0, "validation": 0.0, "held_out": 0.0}


def simulation_of(text, groups, **fields):
    """A run whose parties are the given natural ones of the small data set, in that order (they may repeat)."""
    data = small_dataset()
    rows = [np.flatnonzero(data.group == group) for group in groups]
    took = np.concatenate(rows)
    data = replace(
        data,
        x=data.x[took],
        y=data.y[took],
        group=np.repeat(np.arange(len(groups)), [len(own) for own in rows]),
        group_names=tuple(map(str, range(len(groups)))),
    )
    spec = RunSpec.from_mapping(
        {"partition": "natural", "algorithm": text, "rounds": 4, "epochs": 2, "lr": 0.05, "dtype": "float64"}
        | {"model": "mlp(6,4)", "engine": "sequential"}
        | WHOLE
        | fields
    )
    return Simulation(spec, data=data, say=lambda line: None)


def flat(net):
    """The weights of a module as one vector."""
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


# --- FedGAN ---


def gan(server):
    """A generator and a judge as ordinary modules with the server's weights."""
    nets = {
        "generator": nn.Linear(2, 5).double(),
        "judge": nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1)).double(),
    }
    for name, net in nets.items():
        nn.utils.vector_to_parameters(server[name].clone(), net.parameters())
    return nets


def gan_steps(nets, x, key, lr, steps, ratio):
    """Simultaneous steps of both: the gradients of a step are taken before anything moves."""
    for step in range(steps):
        z = noise.normal(noise.key_of_step(torch.tensor(key), step), 2 * len(x), 0, torch.float64).reshape(-1, 2)
        made, one, zero = nets["generator"](z), torch.ones(len(x), 1).double(), torch.zeros(len(x), 1).double()
        bce = functional.binary_cross_entropy_with_logits
        told = bce(nets["judge"](x), one) + bce(nets["judge"](made.detach()), zero)
        passed = ratio * bce(nets["judge"](made), one)
        judge, generator = (list(nets[name].parameters()) for name in ("judge", "generator"))
        gradients = [*torch.autograd.grad(told, judge), *torch.autograd.grad(passed, generator)]
        with torch.no_grad():
            for weight, gradient in zip(judge + generator, gradients, strict=True):
                weight -= lr * gradient
    return {name: flat(net) for name, net in nets.items()}


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize(("groups", "steps"), [([5], 1), ([5], 3), ([3, 5], 2)])
def test_fedgan_of_one_party_is_a_centralised_gan_and_of_several_their_mean(engine, groups, steps):
    simulation = simulation_of("test-fedgan(ratio=0.5)", groups, engine=engine, epochs=None, steps=steps)
    before, ends, sizes = simulation.state.server, [], []
    after, _ = simulation.play_round()
    for number in range(len(groups)):
        own = torch.from_numpy(simulation.federation.parties[number].train)
        x, _ = simulation.federation.train.take(own)
        plan = simulation.spec.work.plan(len(own), stream(0, "batches", 1, number, 0))
        key = int(stream(0, "noise", 1, number, 0).integers(-(2**63), 2**63))
        assert plan.shape[1] == len(own)
        ends.append(_in_order(gan(before), x, plan, key, steps))
        sizes.append(len(own))
    for name in ("generator", "judge"):
        expected = sum(n * end[name] for n, end in zip(sizes, ends, strict=True)) / sum(sizes)
        assert torch.allclose(after.server[name], expected, atol=1e-10)
        assert not torch.allclose(after.server[name], before[name], atol=1e-4)


def _in_order(nets, x, plan, key, steps):
    """The steps of a plan: noise is drawn for places in the batch, so the order of the rows in it matters not."""
    assert all(sorted(step) == list(range(len(x))) for step in plan)
    return gan_steps(nets, x, key, 0.05, steps, 0.5)


def test_fedgan_evaluates_nothing_and_says_so():
    _, row = small_simulation("test-fedgan").play_round()
    assert row["accuracy"] is None
    assert "personal" not in row


def test_replies_hold_both_nets():
    simulation = small_simulation("test-fedgan")
    replies = recorded(simulation)
    play(simulation, 1)
    assert set(replies[0].mean) == {"generator", "judge"}
