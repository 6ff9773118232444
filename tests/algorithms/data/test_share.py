"""Data sharing is FedAvg on parties that have some of the public rows too, from a start that has seen them all."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.helpers import EVERY_ENGINE
from unalike.algorithms import Phase, SharedRows
from unalike.data import Dataset
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.rounds.order import Order
from unalike.runs.simulation import Simulation
from unalike.runs.small import play, small_simulation
from unalike.runs.spec import RunSpec

WHOLE = {"batch_size": 256, "optimiser": "sgd", "sample": 1.0, "held_out": 0.0, "epochs": None, "steps": 1}


def net_of(simulation, w):
    """An ordinary PyTorch module with these weights."""
    net = MODELS.build("mlp(6,4)").build((5,), 3).to(w.dtype)
    net.load_state_dict(simulation.task.named(w, simulation.state.buffers))
    return net


def stepped(simulation, w, x, y, lr):
    """One step of gradient descent in plain PyTorch."""
    net = net_of(simulation, w)
    functional.cross_entropy(net(x)[0], y).backward()
    return torch.cat([(p - lr * p.grad).detach().reshape(-1) for p in net.parameters()])


def seen_by(simulation, number):
    """The rows and labels that a party's steps are made of."""
    worker = simulation.crew.worker(number)
    (phase,) = simulation.algorithm.phases(simulation.task, 1)
    order = Order(number, 1, 0, "train", {}, {}, simulation.state.buffers, lr=0.1, phases=(phase,))
    found = worker.rows_of(phase, order)
    return found.rows.take(torch.from_numpy(found.index))


@EVERY_ENGINE
def test_without_shared_rows_and_warm_up_it_is_its_base_to_the_bit(engine):
    for base in ("fedavg", "fedprox(mu=0.5)", "scaffold"):
        text = f"share(base={base}, alpha=0, warm=0)"
        one, other = (play(small_simulation(each, engine=engine), 2).state for each in (base, text))
        assert one.digest() == other.digest()


@EVERY_ENGINE
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_a_round_is_fedavgs_on_enlarged_parties(engine, alpha):
    simulation = small_simulation(f"share(alpha={alpha}, warm=0)", engine=engine, **WHOLE)
    after, _ = simulation.play_round()
    shared = round(alpha * len(simulation.federation.public))
    ends, sizes = [], []
    for number, party in enumerate(simulation.federation.parties):
        x, y = seen_by(simulation, number)
        assert len(y) == len(party.train) + shared
        ends.append(stepped(simulation, simulation.initial, x, y, 0.05))
        sizes.append(len(y))
    expected = sum(n * end for n, end in zip(sizes, ends, strict=True)) / sum(sizes)
    assert torch.allclose(after.server["w"], expected, atol=1e-6)


@EVERY_ENGINE
def test_the_warm_up_is_plain_gradient_descent_on_all_public_rows(engine):
    """With batches of all rows their order does not matter."""
    simulation = small_simulation("share(warm=2, rate=0.3, batch=12)", engine=engine, dtype="float64")
    rows, w = simulation.task.public, simulation.initial
    assert len(rows.y) == 12
    for _ in range(2):
        w = stepped(simulation, w, rows.x, rows.y, 0.3)
    assert torch.allclose(simulation.state.server["w"], w, atol=1e-12)


def test_a_warm_up_sees_every_public_row_once_an_epoch_but_for_a_last_batch_that_is_not_full():
    seen = []
    simulation = small_simulation("share(warm=0)")
    task, work = simulation.task, SharedRows(warm=2, batch=5)._work

    def gradient(w, batch):
        seen.append(sorted(batch.x[:, 0].tolist()))
        return w * 0

    task.gradient = gradient
    work.trained(task, simulation.initial, task.public.x, task.public.y)
    assert [len(batch) for batch in seen] == [5, 5, 5, 5]
    assert len({*seen[0], *seen[1]}) == len({*seen[2], *seen[3]}) == 10
    assert seen[:2] != seen[2:]
    assert {*seen[0], *seen[1]} <= set(task.public.x[:, 0].tolist())


def test_shared_rows_are_nobodys_to_be_tested_or_selected_on():
    simulation = small_simulation("share", validation=0.3)
    federation = simulation.federation
    judged = [x.tolist() for x in torch.from_numpy(federation.dataset.x_test)]
    for party in federation.parties:
        for rows in (party.validation, party.held_out):
            judged += federation.train.take(torch.from_numpy(rows))[0].tolist()
    for number in range(federation.size):
        seen, _ = seen_by(simulation, number)
        assert not [row for row in seen.tolist() if row in judged]
    assert [row for row in federation.public.take(torch.arange(3))[0].tolist() if row in seen.tolist()]


def test_every_partys_distance_from_the_mix_of_labels_falls_exactly_by_what_it_was_given():
    """Public rows with the population's mix: EMD of party k times n_k / (n_k + |G_k|)."""
    y = np.repeat(np.arange(4), 30)
    data = Dataset("even", np.random.default_rng(0).normal(size=(120, 3)).astype(np.float32), y, np.zeros((1, 3)),
                   y[:1], tuple("abcd"), group=y, group_names=tuple("abcd"))  # fmt: skip
    data = replace(data, public=(np.zeros((8, 3), np.float32), np.arange(8) % 4))
    spec = RunSpec.from_mapping({"algorithm": "share(warm=0)", "partition": "natural", "model": "logistic"})
    simulation = Simulation(spec, data=data, say=lambda line: None)
    for number in range(4):
        own = y[simulation.federation.parties[number].train]
        _, seen = seen_by(simulation, number)
        before, after = (
            np.abs(np.bincount(labels, minlength=4) / len(labels) - 0.25).sum() for labels in (own, seen.numpy())
        )
        assert after == pytest.approx(before * len(own) / (len(own) + 8))


def test_everything_that_a_base_does_with_a_partys_rows_counts_the_shared_ones():
    simulation = small_simulation("share(base=fednova, alpha=0.5)")
    order = Order(2, 1, 0, "train", {}, {}, simulation.state.buffers, lr=0.1)
    worker = simulation.crew.worker(2)
    me = worker.party(order, worker.own(order), "")
    assert float(simulation.algorithm.weight(me)) == worker.size(order) + 6
    same = play(small_simulation("share(base=fedprox(mu=0))"), 2), play(small_simulation("share"), 2)
    assert same[0].state.digest() == same[1].state.digest()
    other = play(small_simulation("share(base=fedprox(mu=1))"), 2)
    assert other.state.digest() != same[1].state.digest()


def test_masks_hide_it_as_they_hide_fedavg():
    plain, masked = (play(small_simulation("share", channel=channel), 2).state for channel in (None, "masked"))
    assert torch.allclose(plain.server["w"], masked.server["w"], atol=1e-3)


def test_every_party_keeps_the_rows_that_it_was_given():
    simulation = small_simulation("share(alpha=0.5)")
    first, again, other = (sorted(seen_by(simulation, k)[0][-6:].tolist()) for k in (1, 1, 2))
    assert first == again != other
    assert simulation.algorithm.phases(simulation.task, 7) == (Phase(rows="own+public", share=0.5),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("share(alpha=1.5)", r"SharedRows.alpha must be from 0 to 1, got 1.5. Use 1 "),
        ("share(warm=-1)", r"SharedRows trains at the server for -1 epochs on batches of 32. Use 0 epochs"),
        ("share(batch=0)", r"on batches of 0. Use"),
        ("share(rate=0)", r"SharedRows.rate must be above 0, got 0"),
        ("share(base=apfl)", r"SharedRows.base must train one model by FedAvg's loss"),
        ("share(base=moon)", r"SharedRows.base must train one model by FedAvg's loss"),
        ("ditto(base=rfedavg)", r"Ditto.base must train one model by FedAvg's loss"),
    ],
)
def test_what_makes_no_sense_is_refused(text, message):
    with pytest.raises(UserError, match=message):
        small_simulation(text)


def test_without_public_rows_it_says_how_to_have_some():
    with pytest.raises(UserError, match=r"Give some: --public 0.1"):
        small_simulation("share", public=0.0)
    with pytest.raises(UserError, match=r"Give some with --public"):
        play(small_simulation("share(warm=0)", public=0.0), 1)
