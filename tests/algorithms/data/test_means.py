"""What NaiveMix and FedMix send, which mean a step draws, and their losses beside the paper's in plain PyTorch."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from tests.helpers import EVERY_ENGINE, TanhBody, regression_data
from unalike.algorithms import FedMix, NaiveMix
from unalike.data import Dataset
from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.rounds.order import Order
from unalike.runs.simulation import Simulation
from unalike.runs.small import play, small_simulation
from unalike.runs.spec import RunSpec

assert TanhBody  # a smooth net, which is registered
BOTH = pytest.mark.parametrize("name", ["naivemix", "fedmix"])
SMOOTH = {"model": "test-tanh", "dtype": "float64", "engine": "sequential"}


def prepared(text, **fields):
    """A run after its first round."""
    simulation = small_simulation(text, sample=1.0, held_out=0.0, **fields)
    simulation.state, row = simulation.play_round()
    return simulation, row


def at_party(simulation, number=5, step=0, rows=None):
    """A party with what it is sent, its weights and a batch of its rows, ``rows`` of them real."""
    received = simulation.algorithm.send(simulation.task, simulation.state.server)
    order = Order(number, 2, 0, "train", dict(received), {}, simulation.state.buffers, lr=0.1)
    worker = simulation.crew.worker(number)
    me = worker.party(order, worker.own(order), "")
    own = torch.from_numpy(simulation.federation.parties[number].train)[:9]
    x, y = simulation.federation.train.take(own)
    mask = None if rows is None else (torch.arange(len(y)) < rows).to(x.dtype)
    return me, Batch(x, y, mask, training=True, step=step, key=torch.tensor(7))


def logits_of(simulation, w, x):
    """The tanh net by hand."""
    tensors = simulation.task.named(w, simulation.state.buffers)
    hidden = torch.tanh(x @ tensors["body.0.weight"].T + tensors["body.0.bias"])
    return hidden @ tensors["head.weight"].T + tensors["head.bias"]


def by_hand(simulation, w, batch, mean, labels, lam, first_order):
    """The loss of NaiveMix, or of FedMix, row by row as the paper writes them."""
    total, count = 0.0, len(batch.y) if batch.mask is None else int(batch.mask.sum())
    for x, y in list(zip(batch.x, batch.y, strict=True))[:count]:
        at = ((1 - lam) * x + (0 if first_order else lam) * mean).detach().requires_grad_()
        scores = functional.log_softmax(logits_of(simulation, w, at), dim=0)
        total = total - (1 - lam) * scores[y] - lam * (labels * scores).sum()
        if first_order:
            (slope,) = torch.autograd.grad(-scores[y], at, create_graph=True)
            total = total + lam * (1 - lam) * slope.dot(mean)
    return total / count


@pytest.mark.parametrize(("algorithm", "first_order"), [(NaiveMix(0.2), False), (FedMix(0.2), True)])
@pytest.mark.parametrize("rows", [None, 6])
def test_the_loss_and_its_gradient_are_the_papers_row_by_row(algorithm, first_order, rows):
    simulation, _ = prepared("fedmix(least=1, groups=2)", **SMOOTH)
    me, batch = at_party(simulation, rows=rows)
    mean, labels = algorithm.drawn(me, batch)
    w = simulation.initial.clone().requires_grad_()
    here = algorithm.loss(me, w, batch)
    there = by_hand(simulation, w, batch, mean, labels, 0.2, first_order)
    assert torch.allclose(here, there, atol=1e-12)
    assert torch.allclose(*(torch.autograd.grad(loss, w)[0] for loss in (here, there)), atol=1e-12)


def test_fedmix_leaves_naivemix_by_a_fourth_where_lam_is_halved():
    simulation, _ = prepared("fedmix(least=1)", **SMOOTH)
    me, batch = at_party(simulation)
    w = simulation.initial
    gaps = [float(FedMix(lam).loss(me, w, batch) - NaiveMix(lam).loss(me, w, batch)) for lam in (4e-3, 2e-3, 1e-3)]
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.02)
    assert gaps[1] / gaps[2] == pytest.approx(4, rel=0.02)


@BOTH
@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_with_lam_zero_it_is_fedavg_to_the_bit(name, engine):
    states = [play(small_simulation(text, engine=engine), 2).state for text in ("fedavg", f"{name}(lam=0)")]
    assert torch.equal(*(state.server["w"] for state in states))


@EVERY_ENGINE
@BOTH
def test_each_party_sends_the_mean_of_its_rows_once(name, engine):
    simulation, row = prepared(f"{name}(least=1)", engine=engine)
    for number, party in enumerate(simulation.federation.parties):
        x, y = simulation.federation.train.take(torch.from_numpy(party.train))
        assert torch.allclose(simulation.state.server["means"][number], x.mean(dim=0), atol=1e-6)
        share = torch.bincount(y, minlength=3) / len(y)
        assert torch.allclose(simulation.state.server["labels"][number], share, atol=1e-6)
    up = {key: 6 * 4 * size for key, size in (("means", 5), ("labels", 3), ("there", 1))}
    assert row["traffic"]["up"] == up | {"delta": 6 * 4 * simulation.task.size}
    again, row = simulation.play_round()
    assert row["traffic"]["up"] == {"delta": 6 * 4 * simulation.task.size}
    assert torch.equal(again.server["means"], simulation.state.server["means"])


def test_groups_share_a_partys_rows_out_and_each_row_is_in_one():
    simulation, _ = prepared("naivemix(groups=3, least=2)", dtype="float64")
    for number, party in enumerate(simulation.federation.parties):
        x, y = simulation.federation.train.take(torch.from_numpy(party.train))
        mine = slice(3 * number, 3 * number + 3)
        sizes = torch.tensor([len(range(part, len(y), 3)) for part in range(3)], dtype=torch.float64)
        means, labels, there = (simulation.state.server[key][mine] for key in ("means", "labels", "there"))
        told = len(y) >= 6
        assert there.tolist() == [float(told)] * 3
        assert torch.allclose(sizes @ means, x.sum(dim=0) * told, atol=1e-10)
        counts = labels * sizes[:, None]
        assert torch.allclose(counts, counts.round(), atol=1e-10)
        if told:
            assert torch.allclose(counts.sum(dim=0), torch.bincount(y, minlength=3).double(), atol=1e-10)
            assert not torch.allclose(means[0], x[0::3].mean(dim=0))  # at random, not in the table's order


@BOTH
def test_a_group_of_fewer_rows_than_least_is_not_told_and_never_drawn(name):
    simulation, _ = prepared(name, engine="sequential")
    there = simulation.state.server["there"]
    sizes = torch.tensor([len(party.train) for party in simulation.federation.parties])
    assert torch.equal(there > 0, sizes >= 10)
    assert 1 < int(there.sum()) < 6
    assert not simulation.state.server["means"][there == 0].any()
    drawn = Counter()
    me, batch = at_party(simulation)
    for step in range(400):
        mean, labels = simulation.algorithm.drawn(me, replace(batch, step=step))
        (which,) = torch.nonzero((simulation.state.server["means"] == mean).all(dim=1))[0].tolist()
        assert torch.equal(labels, simulation.state.server["labels"][which])
        drawn[which] += 1
    assert set(drawn) == set(torch.nonzero(there)[:, 0].tolist())
    expected = 400 / int(there.sum())
    assert all(abs(count - expected) < 4 * expected**0.5 for count in drawn.values())


def test_with_groups_of_one_row_naivemix_mixes_with_rows_of_others():
    """The two sites of two rows each: every mean is a row, and its label one class."""
    x = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]])
    data = Dataset("two", x.numpy(), torch.tensor([0, 1, 1, 0]).numpy(), x[:1].numpy(), torch.tensor([0]).numpy(),
                   ("a", "b"), group=torch.tensor([0, 0, 1, 1]).numpy(), group_names=("p", "q"))  # fmt: skip
    fields = {"algorithm": "naivemix(groups=2, least=1)", "partition": "natural", "model": "logistic"}
    simulation = Simulation(RunSpec.from_mapping(fields), data=data, say=lambda line: None)
    server = simulation.play_round()[0].server
    pairs = {
        (*mean.tolist(), int(share.argmax()))
        for mean, share in zip(server["means"], server["labels"], strict=True)
    }
    assert pairs == {(*row.tolist(), int(label)) for row, label in zip(x, data.y, strict=True)}
    assert server["labels"].sort(dim=1).values.tolist() == [[0.0, 1.0]] * 4


@BOTH
def test_where_nobody_has_enough_rows_nothing_is_trained(name):
    with pytest.raises(UserError, match=r"No party has 30 rows for each of 2 means.*Use fewer"):
        play(small_simulation(f"{name}(groups=2, least=30)"), 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"algorithm": "fedmix(lam=1)"}, r"FedMix.lam must be at least 0 and below 1, got 1"),
        ({"algorithm": "naivemix(lam=-0.1)"}, r"NaiveMix.lam must be at least 0 and below 1, got -0.1"),
        ({"algorithm": "naivemix(groups=0)"}, r"needs a group or more, of a row or more, got groups=0"),
        ({"algorithm": "fedmix(least=0)"}, r"got groups=1, least=0"),
        ({"algorithm": "fedmix", "channel": "masked"}, "needs to see single uploads"),
        ({"algorithm": "naivemix", "channel": "clip(1.0)+gauss(0.5)"}, "needs to see single uploads"),
    ],
)
def test_what_makes_no_sense_is_refused(fields, message):
    with pytest.raises(UserError, match=message):
        small_simulation(fields.pop("algorithm"), **fields)


def test_numbers_to_predict_and_words_have_no_mixture():
    spec = RunSpec.from_mapping({"algorithm": "fedmix", "partition": "natural", "model": "mlp(4)"})
    with pytest.raises(UserError, match=r"FedMix is for classes: it mixes labels, and this task has numbers"):
        Simulation(spec, data=regression_data(), say=lambda line: None)
    simulation, _ = prepared("naivemix")
    me, batch = at_party(simulation)
    with pytest.raises(UserError, match=r"NaiveMix mixes rows, which must be numbers; these are words"):
        simulation.algorithm.offer(me, replace(batch, x=batch.x.long()))


def test_batch_norms_statistics_are_those_of_the_shrunk_rows():
    """With lam 0 of a prepared run they are FedAvg's to the bit; a derivative leaves no trace in them."""
    fields = {"model": "test-norm-body", "batch_size": 64, "engine": "sequential"}
    states = [play(small_simulation(text, **fields), 2).state for text in ("fedavg", "fedmix(lam=0)")]
    assert torch.equal(states[0].buffers, states[1].buffers)
    assert not torch.equal(states[0].buffers, small_simulation("fedavg", **fields).state.buffers)
