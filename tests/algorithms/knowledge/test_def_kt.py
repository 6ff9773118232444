"""Def-KT: who hands which model to whom, and what a receiver learns."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.helpers import EVERY_ENGINE
from unalike.algorithms import DefKt
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.rounds.order import Order
from unalike.runs.small import play, small_simulation

ALL = {"sample": 1.0}
ONE_STEP = {"batch_size": 256, "optimiser": "sgd", "epochs": None, "steps": 1, **ALL}


def pairs_of(simulation):
    return simulation.algorithm.drawn(simulation.task, simulation.state.server)


def stepped(simulation, w, number):
    """A gradient step of an ordinary PyTorch module on all training rows of a party."""
    net = MODELS.build("mlp(6,4)").build((5,), 3).to(w.dtype)
    net.load_state_dict(simulation.task.named(w, simulation.state.buffers))
    x, y = simulation.federation.train.take(torch.from_numpy(simulation.federation.parties[number].train))
    functional.cross_entropy(net(x)[0], y).backward()
    return torch.cat([(p - 0.05 * p.grad).detach().reshape(-1) for p in net.parameters()])


def receiver_of(simulation):
    order = Order(0, 1, 0, "train", {}, {}, simulation.state.buffers, lr=0.1)
    worker = simulation.crew.worker(0)
    return worker.party(order, worker.own(order), "receive")


@EVERY_ENGINE
def test_models_are_handed_on_and_everybody_has_one(engine):
    """Without the divergence a receiver trains the sender's model by one step on its own rows."""
    simulation = small_simulation("def-kt(beta=0)", **ONE_STEP, engine=engine)
    pairs = pairs_of(simulation)
    after, row = simulation.play_round()
    assert sorted([*pairs, *pairs.values()]) == list(range(6))
    assert {k: v["w"].shape for k, v in after.parties.items()} == dict.fromkeys(range(6), simulation.initial.shape)
    for sender, receiver in pairs.items():
        sent = after.parties[sender]["w"]
        assert torch.allclose(sent, stepped(simulation, simulation.initial, sender), atol=1e-6)
        assert torch.allclose(after.parties[receiver]["w"], stepped(simulation, sent, receiver), atol=1e-6)
    model = simulation.task.size * 4
    assert row["traffic"] == {"up": {"w": 3 * model}, "down": {"w": 3 * model}}


@pytest.mark.parametrize("pairs", [1, 2, 3])
def test_the_number_of_copies_of_every_model_is_conserved(pairs):
    """Where nothing is learnt, a round copies each sender's model over its receiver's, and does nothing else."""
    simulation = play(small_simulation(f"def-kt(pairs={pairs}, beta=0)", **ALL), 2)
    simulation.spec = replace(simulation.spec, lr=1e-19)
    before, drawn = simulation.state.parties, pairs_of(simulation)
    after = play(simulation, 1).state.parties
    assert len(drawn) == pairs
    came_from = {receiver: sender for sender, receiver in drawn.items()}
    for number in after:
        source = came_from.get(number, number)
        if source in before:
            assert torch.equal(after[number]["w"], before[source]["w"])


def test_pairs_change_from_round_to_round_and_come_back_when_resumed():
    simulation = play(small_simulation("def-kt", **ALL), 1)
    zero = {"rounds": torch.zeros(())}
    assert simulation.algorithm.drawn(simulation.task, zero) == DefKt().drawn(simulation.task, zero)
    assert simulation.algorithm.drawn(simulation.task, zero) != pairs_of(simulation)


@EVERY_ENGINE
def test_an_absent_sender_leaves_its_receiver_untouched(engine):
    simulation = play(small_simulation("def-kt", **ALL, engine=engine), 1)
    pairs = pairs_of(simulation)
    absent = sorted(pairs)[0]
    simulation._participation = {(2, 0): [k for k in range(6) if k != absent]}
    after, row = simulation.play_round()
    for number in range(6):
        same = torch.equal(after.parties[number]["w"], simulation.state.parties[number]["w"])
        assert same == (number in (absent, pairs[absent]))
    assert row["traffic"]["down"] == {"w": 2 * simulation.task.size * 4}


def test_the_divergence_is_the_papers_and_vanishes_where_both_models_agree():
    simulation = small_simulation("def-kt", **ALL, dtype="float64")
    task, batch = simulation.task, replace(simulation.task.public, training=True)
    me, one, two = receiver_of(simulation), task.initial(0), task.initial(1)

    def value(beta, first, second):
        return DefKt(beta=beta).loss(me, torch.cat([first, second]), batch)

    assert torch.allclose(value(1.0, one, one), value(0.0, one, one), atol=1e-14)
    p, q = (functional.softmax(task.logits(w, batch), dim=1) for w in (one, two))
    both = (q * (q / p).log() + p * (p / q).log()).sum(dim=1).mean()
    assert torch.allclose(value(0.7, one, two) - value(0.0, one, two), 0.7 * both, atol=1e-12)
    # Each learns from the other, which stands still: the gradient of CE(p, q) for p alone.
    v = torch.cat([one, two]).requires_grad_()
    (with_it,), (without,) = (torch.autograd.grad(DefKt(beta=b).loss(me, v, batch), v) for b in (1.0, 0.0))
    w = one.clone().requires_grad_()
    (expected,) = torch.autograd.grad(functional.cross_entropy(task.logits(w, batch), q), w)
    assert torch.allclose((with_it - without)[: task.size], expected, atol=1e-12)


def test_a_receiver_whose_own_model_is_the_received_one_only_trains_once_more():
    """Equal models on the same rows stay equal: the terms between them are 0 in every step."""
    simulation = small_simulation("def-kt(beta=5)", **ALL, dtype="float64", engine="sequential")
    me, w = receiver_of(simulation), simulation.initial
    net, batch = nn.Parameter(torch.cat([w, w])), replace(simulation.task.public, training=True)
    plain = nn.Parameter(w.clone())
    for _ in range(5):
        for parameter, loss in (
            (net, simulation.algorithm.loss(me, net, batch)),
            (plain, simulation.task.loss(plain, batch)),
        ):
            (gradient,) = torch.autograd.grad(loss, parameter)
            parameter.data -= 0.1 * gradient
    assert torch.allclose(net[: len(w)], plain, atol=1e-12)
    assert torch.allclose(net[len(w) :], plain, atol=1e-12)


def test_a_cohort_that_misses_all_senders_says_what_to_do():
    with pytest.raises(UserError, match=r"asks the parties \[.*\], none of whom takes part.*Use --sample 1\."):
        play(small_simulation("def-kt", sample=0.1), 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def-kt(beta=-1)", r"DefKt.beta must be at least 0, got -1.*Use 1\."),
        ("def-kt(pairs=-1)", r"DefKt.pairs must be at least 0, got -1"),
        ("def-kt(pairs=4)", r"two parties a pair, got 6 for 4\. Use more parties, or fewer pairs\."),
    ],
)
def test_mistakes_are_one_line(text, message):
    with pytest.raises(UserError, match=message) as caught:
        small_simulation(text, **ALL)
    assert "\n" not in str(caught.value)


def test_hidden_sums_are_refused():
    with pytest.raises(UserError, match="single"):
        play(small_simulation("def-kt", **ALL, channel="masked"), 1)
