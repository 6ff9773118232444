"""FADA: what the target is asked and never shows, what judges learn, and which sources count."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.helpers import recorded
from unalike.algorithms import Fada
from unalike.algorithms.knowledge.disentangle import Disentangler
from unalike.data import Dataset
from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.rounds.order import Order
from unalike.runs.simulation import Simulation
from unalike.runs.small import play, small_simulation
from unalike.runs.spec import RunSpec

ALL = {"sample": 1.0}
BOTH = pytest.mark.parametrize("engine", ["sequential", "vectorised"])


def party_of(simulation, phase, payload, number=1):
    order = Order(number, 1, 0, "train", payload, {}, simulation.state.buffers, lr=0.1)
    worker = simulation.crew.worker(number)
    return worker.party(order, worker.own(order), phase)


def blobs(noise=(), shift=1.5, rows=60, seed=0):
    """Parties with the same three classes, each a little elsewhere; ``noise`` are those whose rows say nothing."""
    rng = np.random.default_rng(seed)
    centres = 4 * rng.normal(size=(3, 5))
    x, y, group = [], [], []
    for number in range(4):
        label = np.arange(rows) % 3
        own = centres[label] + rng.normal(size=(rows, 5)) + shift * rng.normal(size=5)
        if number in noise:
            own, label = 4 * rng.normal(size=(rows, 5)), rng.integers(0, 3, rows)
        x.append(own), y.append(label), group.append(np.full(rows, number))
    x, y, group = (np.concatenate(parts) for parts in (x, y, group))
    names = ("a", "b", "c")
    return Dataset("blobs", x.astype(np.float32), y, x[:3].astype(np.float32), y[:3], names, group=group,
                   group_names=tuple("0123"))  # fmt: skip


def on_blobs(text, data, **fields):
    settings = {"partition": "natural", "model": "mlp(8)", "rounds": 4, "epochs": 2, "batch_size": 16, "lr": 0.05}
    spec = RunSpec.from_mapping(settings | {"algorithm": text, "held_out": 0.0, "validation": 0.0} | fields)
    return Simulation(spec, data=data, say=lambda line: None)


@pytest.mark.parametrize("engine", ["sequential", "vectorised", "compiled"])
def test_without_judges_and_attention_it_is_fedavg_over_the_sources(engine):
    fields = ALL | {"engine": "vectorised" if engine == "vectorised" else "sequential", "optimiser": "sgd"}
    ours = small_simulation("fada(lam=0, attention=false, target=2)", **fields | {"engine": engine})
    plain = small_simulation("fedavg", **fields)
    plain._participation = {(round, 0): [0, 1, 3, 4, 5] for round in (1, 2)}
    one, other = (play(each, 2).state.server["w"] for each in (ours, plain))
    assert torch.equal(one, other) or (engine == "compiled" and torch.allclose(one, other, atol=1e-6))
    assert not torch.equal(one, play(small_simulation("fedavg", **fields), 2).state.server["w"])


@BOTH
@pytest.mark.parametrize("text", ["fada", "fada(disentangle=0.1)"])
def test_the_targets_labels_change_no_bit_and_a_sources_do(text, engine):
    ends = []
    for party in (None, 0, 5):
        simulation = small_simulation(text, **ALL | {"engine": engine})
        if party is not None:
            own = torch.from_numpy(simulation.federation.parties[party].train)
            simulation.federation.train.y[own] = simulation.federation.train.y[own].roll(1)
        ends.append(play(simulation, 2).state.digest())
    assert ends[0] == ends[1] != ends[2]


def test_who_is_asked_what_and_what_goes_to_whom():
    simulation = small_simulation("fada(target=3, rows=7)", **ALL)
    asked, replies = [], recorded(simulation)
    exchange = simulation._exchange
    simulation._exchange = lambda ask, *more: asked.append(ask) or exchange(ask, *more)
    before = simulation.state.server["w"]
    play(simulation, 1)
    assert [(ask.kind, ask.phase) for ask in asked] == [
        ("offer", "features"), ("train", "source"), ("offer", "attention"), ("train", "target"),
    ]  # fmt: skip
    assert [ask.to for ask in asked] == [(3,), (0, 1, 2, 4, 5), (3,), (3,)]
    assert asked[1].payload["features"].shape == (7, simulation.task.feature_size)
    assert torch.equal(asked[0].payload["w"], before)
    assert not asked[2].payload["deltas"][3].any()
    moved = asked[3].payload["w"] - before
    others = [0, 1, 2, 4, 5]
    weights = (10 * replies[2].each[3]["falls"][others]).softmax(dim=0)
    assert torch.allclose(moved, weights @ asked[2].payload["deltas"][others], atol=1e-6)
    assert asked[3].payload["share"].tolist() == pytest.approx([0.2, 0.2, 0.2, 0, 0.2, 0.2])


def test_features_are_those_of_rows_of_the_target_and_are_drawn_anew():
    fields = {"dtype": "float64", "engine": "sequential", "lr": 1e-12}
    simulation = small_simulation("fada(rows=5, target=5)", **ALL | fields)
    replies = recorded(simulation)
    play(simulation, 2)
    x, _ = simulation.federation.train.take(torch.from_numpy(simulation.federation.parties[5].train))
    every = simulation.task.features(simulation.initial, Batch(x, x))
    found = replies[0].each[5]["features"]
    apart = torch.cdist(found, every)
    assert float(apart.min(dim=1).values.max()) < 1e-9
    seen = replies[4].each[5]["features"]
    assert not torch.allclose(found, seen, atol=1e-3)


def test_a_sources_loss_is_labels_the_judge_and_against_the_judge():
    simulation = small_simulation("fada(lam=0.3)", **ALL | {"dtype": "float64"})
    task, algorithm = simulation.task, simulation.algorithm
    judge, batch = algorithm.judge(task), replace(task.public, training=True)
    theirs = torch.randn(9, task.feature_size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    w, d = task.initial(), judge.initial()
    me = party_of(simulation, "source", {"w": w, "judge": d, "features": theirs})
    both = torch.cat([w, d]).requires_grad_()
    (gradient,) = torch.autograd.grad(algorithm.loss(me, both, batch), both)

    def bce(logits, truth):
        return functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, truth))

    v = d.clone().requires_grad_()
    mine = task.features(w, batch).detach()
    (expected,) = torch.autograd.grad(bce(judge(v, mine), 1.0) + bce(judge(v, theirs), 0.0), v)
    assert torch.allclose(gradient[task.size :], expected, atol=1e-12)
    u = w.clone().requires_grad_()
    fooled = task.loss(u, batch) + 0.3 * bce(judge(d, task.features(u, batch)), 0.0)
    (expected,) = torch.autograd.grad(fooled, u)
    assert torch.allclose(gradient[: task.size], expected, atol=1e-12)


def test_the_target_learns_to_be_taken_for_a_source_by_those_who_are_there_and_keeps_its_head():
    simulation = small_simulation("fada(lam=0.3)", **ALL | {"dtype": "float64"})
    task, algorithm = simulation.task, simulation.algorithm
    judge, batch = algorithm.judge(task), replace(task.public, training=True)
    judges = torch.stack([judge.initial(which) for which in range(3)])
    share = torch.tensor([0.5, 0.0, 0.5], dtype=torch.float64)
    w = task.initial()
    me = party_of(simulation, "target", {"w": w, "judges": judges, "share": share})
    u = w.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(algorithm.loss(me, u, batch), u)
    told = [judge(judges[i], task.features(u, batch)) for i in (0, 2)]
    expected = sum(0.15 * functional.softplus(-each).mean() for each in told)
    assert torch.allclose(gradient, torch.autograd.grad(expected, u)[0], atol=1e-12)
    heavy = small_simulation("fada(attention=false)", **ALL | {"optimiser": "sgd(weight_decay=0.5)"})
    replies = recorded(heavy)
    play(heavy, 1)
    moved = replies[-1].each[0]["delta"]
    assert not moved[heavy.task.slices["head"]].any()
    assert moved[heavy.task.slices["body"]].any()


def test_judges_of_equal_domains_know_nothing():
    """Sources and target drawn alike: the judge's loss comes to 2 log 2, and sources count the same."""
    simulation = on_blobs("fada(rows=60)", blobs(shift=0.0, rows=150), rounds=8, optimiser="sgd")
    replies = recorded(simulation)
    play(simulation, 8)
    judge, task = simulation.algorithm.judge(simulation.task), simulation.task
    theirs = replies[-4].each[0]["features"]
    for number in (1, 2, 3):
        x, _ = simulation.federation.train.take(torch.from_numpy(simulation.federation.parties[number].train))
        mine = task.features(simulation.state.server["w"], Batch(x, x))
        d = simulation.state.server["judges"][number]
        loss = functional.softplus(-judge(d, mine)).mean() + functional.softplus(judge(d, theirs)).mean()
        assert float(loss) == pytest.approx(2 * math.log(2), abs=0.15)
    falls = replies[-2].each[0]["falls"][1:]
    assert float((10 * falls).softmax(dim=0).max()) < 0.45


@BOTH
def test_a_source_of_noise_counts_less(engine):
    simulation = on_blobs("fada(lam=0)", blobs(noise=(2,)), engine=engine)
    replies = recorded(simulation)
    play(simulation, 4)
    falls = torch.stack([each.each[0]["falls"] for each in replies[1::2]])
    weights = (10 * falls[:, [1, 2, 3]]).softmax(dim=1)
    assert (weights[:, 1] < weights[:, [0, 2]].min(dim=1).values).all()
    assert float(weights[:, 1].mean()) < 0.3


def test_a_smaller_scale_of_the_features_is_no_smaller_spread():
    simulation = small_simulation("fada", **ALL | {"dtype": "float64"})
    me, algorithm = party_of(simulation, "attention", {}), simulation.algorithm
    f = torch.randn(40, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    tight = torch.arange(40)[:, None] % 3 * 10 + 0.01 * f
    assert algorithm.spread(me, f) == pytest.approx(float(algorithm.spread(me, 7 * f)))
    assert algorithm.spread(me, tight) < 0.001 < 0.2 < algorithm.spread(me, f) < 1
    assert algorithm.spread(me, f[:1]) == 0


# --- disentangling ---


def entangled(simulation, correlated):
    """A disentangler, and features that are all of the code or have nothing to do with it."""
    parts = Disentangler.of(simulation.task, 4)
    rng = torch.Generator().manual_seed(1)
    code = torch.randn(64, 4, generator=rng, dtype=torch.float64)
    other = torch.randn(64, 4, generator=rng, dtype=torch.float64)
    return parts, (code if correlated else other).repeat(1, simulation.task.feature_size // 4 + 1), code


@pytest.mark.parametrize("padded", [False, True])
def test_mutual_information_is_mines_bound(padded):
    simulation = small_simulation("fada(disentangle=1, width=4)", **ALL | {"dtype": "float64"})
    parts, f, code = entangled(simulation, correlated=True)
    f = f[:, : simulation.task.feature_size]
    critic = parts.nets["relate"].initial()
    real = 50 if padded else 64
    mask = (torch.arange(64) < real).double() if padded else None
    found = parts.information(critic, f, code, Batch(f, f, mask))
    score = torch.stack([
        torch.stack([parts.nets["relate"](critic, torch.cat([f[i], code[j]])[None])[0, 0] for j in range(real)])
        for i in range(real)
    ])  # fmt: skip
    assert float(found) == pytest.approx(float(score.diagonal().mean() - score.exp().mean().log()))


def test_a_critic_finds_what_depends_and_nothing_else():
    simulation = small_simulation("fada(disentangle=1, width=4)", **ALL | {"dtype": "float64"})
    found = []
    for correlated in (True, False):
        parts, f, code = entangled(simulation, correlated)
        f = f[:, : simulation.task.feature_size]
        critic = parts.nets["relate"].initial().requires_grad_()
        steps = torch.optim.Adam([critic], lr=0.02)
        for _ in range(80):
            steps.zero_grad()
            (-parts.information(critic, f, code, Batch(f, f))).backward()
            steps.step()
        found.append(parts.information(critic, f, code, Batch(f, f)).item())
    assert found[0] > 2 * max(found[1], 0.1)


def test_each_part_of_a_disentangler_goes_its_own_way():
    """The identifier learns classes from the code, which unlearns them; the target's part knows no labels."""
    simulation = small_simulation("fada(disentangle=1, width=4)", **ALL | {"dtype": "float64"})
    task, parts = simulation.task, Disentangler.of(simulation.task, 4)
    own, batch = parts.initial(), replace(simulation.task.public, training=True)
    f = task.features(simulation.initial, batch).detach()
    sizes = [net.size for net in parts.nets.values()]
    v = own.clone().requires_grad_()
    losses = [parts.loss(v, f, batch, labels=labels) for labels in (True, False)]
    with_labels, without = (torch.split(torch.autograd.grad(loss, v)[0], sizes) for loss in losses)
    assert not without[2].any()
    specific, _, identify, _ = torch.split(own, sizes)
    code = parts.nets["specific"](specific, batch.x.flatten(1))
    k = identify.clone().requires_grad_()
    told = functional.cross_entropy(parts.nets["identify"](k, code.detach()), batch.y)
    assert torch.allclose(with_labels[2], torch.autograd.grad(told, k)[0], atol=1e-12)
    s = specific.clone().requires_grad_()
    hidden = -parts.nets["identify"](identify, parts.nets["specific"](s, batch.x.flatten(1))).log_softmax(1).mean()
    assert torch.allclose(with_labels[0] - without[0], torch.autograd.grad(hidden, s)[0], atol=1e-12)
    critic = torch.split(own, sizes)[3].clone().requires_grad_()
    bound = parts.information(critic, f, code.detach(), batch)
    assert torch.allclose(without[3], -torch.autograd.grad(bound, critic)[0], atol=1e-12)
    other = replace(batch, y=(batch.y + 1) % 3)
    assert torch.equal(*(parts.loss(own, f, each, labels=False) for each in (batch, other)))


def test_nets_that_disentangle_stay_with_their_party():
    simulation = small_simulation("fada(disentangle=0.5)", **ALL)
    replies = recorded(simulation)
    play(simulation, 1)
    assert {key for each in replies for upload in each.each.values() for key in upload} == {
        "features", "delta", "judge", "falls",
    }  # fmt: skip
    states = [state["own"] for state in simulation.state.parties.values()]
    assert len(states) == 6
    assert all(not torch.equal(states[0], other) for other in states[1:])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fada(target=6)", r"Fada's target must be one of two parties or more, 0 to 5, got 6"),
        ("fada(target=-1)", r"Fada.target must be at least 0, got -1"),
        ("fada(lam=-1)", r"Fada.lam must be at least 0, got -1"),
        ("fada(rows=0)", r"Fada.rows must be at least 1, got 0"),
    ],
)
def test_mistakes_are_one_line(text, message):
    with pytest.raises(UserError, match=message) as caught:
        small_simulation(text, **ALL)
    assert "\n" not in str(caught.value)


def test_it_says_what_it_shows():
    assert Fada.sends == "features"
    assert Fada.needs_each
