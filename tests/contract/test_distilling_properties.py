"""What the papers of FedMD and FedGAN, or arithmetic, say about them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.contract.distilling_algorithms import FedMd
from tests.helpers import recorded
from unalike.errors import UserError
from unalike.models import noise
from unalike.randomness import stream
from unalike.rounds.order import Order
from unalike.runs import build
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


def party_of(simulation, phase):
    """The first party as its algorithm sees it in a phase."""
    order = Order(0, 1, 0, "train", {}, {}, simulation.state.buffers, lr=0.1)
    worker = simulation.crew.worker(0)
    return worker.party(order, worker.own(order), phase)


def flat(net):
    """The weights of a module as one vector."""
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


# --- FedMD ---


@ENGINES
def test_fedmds_parties_have_nets_of_their_own_and_send_scores_alone(engine):
    simulation = small_simulation("test-fedmd", model="|".join(NETS), engine=engine, sample=1.0)
    state, row = simulation.play_round()
    sizes = [len(state.parties[k]["w"]) for k in range(6)]
    assert sizes == [simulation.tasks[k % 3].size for k in range(6)]
    assert len(set(sizes)) == 3
    scores = simulation.federation.public.y.numel() * 3 * 4
    assert row["traffic"] == {"up": {"logits": 6 * scores}, "down": {"consensus": 6 * scores}}
    assert row["personal"]["count"] > 0
    assert row["accuracy"] is None


def test_fedmds_consensus_is_the_mean_of_the_parties_scores():
    simulation = small_simulation("test-fedmd", model="|".join(NETS), dtype="float64", engine="sequential")
    first = play(simulation, 1).state
    after, _ = simulation.play_round()
    scores = [
        simulation.task_of(k).logits(first.parties[k]["w"], simulation.task.public) for k in simulation.cohort(2)
    ]
    assert torch.allclose(after.server["consensus"], torch.stack(scores).mean(dim=0), atol=1e-12)


@pytest.fixture
def same_public_rows(monkeypatch):
    """Public rows that do not depend on who has which rows: the first ten of the test set."""
    data = small_dataset()
    monkeypatch.setattr(build, "take_public", lambda given, *_: (given, data.x_test[:10], data.y_test[:10]))


@pytest.mark.parametrize("count", [2, 5])
def test_fedmds_equal_parties_agree_already_so_their_number_changes_nothing(same_public_rows, count):
    """Same net, same rows: the consensus is everybody's own scores."""
    one, many = (play(simulation_of("test-fedmd", [4] * n, public=0.1), 1).state for n in (1, count))
    assert torch.allclose(many.server["consensus"], one.server["consensus"], atol=1e-12)


def test_a_digest_moves_nobody_who_agrees():
    simulation = simulation_of("test-fedmd", [4], public=0.1)
    own = simulation.task.logits(simulation.initial, simulation.task.public)
    me = replace(party_of(simulation, "digest"), received={"consensus": own})
    batch = replace(simulation.task.public, index=torch.arange(len(own)), training=True)
    w = simulation.initial.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(FedMd().loss(me, w, batch), w)
    assert torch.equal(gradient, torch.zeros_like(gradient))
    other = replace(me, received={"consensus": own + 0.5})
    assert float(FedMd().loss(other, w.detach(), batch)) == pytest.approx(0.5)


def test_the_order_of_fedmds_nets_changes_nothing(same_public_rows):
    """Party a with net p and party b with net q, or b with q and a with p: the same models."""
    one = play(simulation_of("test-fedmd", [4, 5], model="mlp(6,4)|mlp(8)", public=0.1), 2).state
    other = play(simulation_of("test-fedmd", [5, 4], model="mlp(8)|mlp(6,4)", public=0.1), 2).state
    assert torch.allclose(one.parties[0]["w"], other.parties[1]["w"], atol=1e-10)
    assert torch.allclose(one.parties[1]["w"], other.parties[0]["w"], atol=1e-10)
    assert torch.allclose(one.server["consensus"], other.server["consensus"], atol=1e-10)


def test_fedmd_needs_public_rows():
    with pytest.raises(UserError, match=r"uses public rows, of which there are none. Give some: --public 0.1"):
        small_simulation("test-fedmd", public=0.0)


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
