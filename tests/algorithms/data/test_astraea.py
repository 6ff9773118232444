"""Astraea's copies of rare classes, the mediators' choice of parties, and chains of training."""

import itertools

import numpy as np
import pytest
import torch

from tests.helpers import EVERY_ENGINE, PROBE, probe
from unalike.algorithms import Phase
from unalike.algorithms.data.astraea import mediators, unevenness
from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.rounds.order import Order
from unalike.runs.small import play, small_simulation

WHOLE = {"batch_size": 256, "optimiser": "sgd", "sample": 1.0, "held_out": 0.0, "epochs": None, "steps": 1}


def labels_of(simulation):
    """By party, its training rows by class."""
    rows = [torch.from_numpy(party.train) for party in simulation.federation.parties]
    return torch.stack([torch.bincount(simulation.federation.train.y[own], minlength=3) for own in rows]).double()


@EVERY_ENGINE
def test_without_copies_and_mediators_it_is_fedavg_to_the_bit(engine):
    one, other = (play(small_simulation(text, engine=engine), 2) for text in ("fedavg", "astraea(alpha=0)"))
    assert torch.equal(one.state.server["w"], other.state.server["w"])


@EVERY_ENGINE
@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
def test_rows_of_a_rare_class_are_copied_by_the_ratio_of_the_mean_to_its_count(engine, alpha):
    simulation = play(small_simulation(f"astraea(alpha={alpha})", engine=engine), 1)
    total = labels_of(simulation).sum(dim=0)
    expected = torch.where(total < total.mean(), (total.mean() / total) ** alpha, 1)
    assert expected.max() > 1
    assert torch.allclose(simulation.state.server["copies"].double(), expected, rtol=1e-5)


def test_a_class_that_nobody_has_is_left_alone():
    simulation = small_simulation("astraea(alpha=1)", sample=1.0)
    train = simulation.federation.train
    train.y[train.y == 2] = 1
    after = play(simulation, 1).state.server["copies"]
    assert float(after[2]) == 1
    assert torch.isfinite(after).all()


def counting(copies, most=10, **fields):
    """Parties whose vector counts how often each row was seen, and their labels."""
    probe(
        send=lambda self, task, server: {"w": server["w"], "often": torch.tensor(copies, dtype=task.dtype)},
        phases=lambda self, task, round: (Phase(copies="often", most=most),),
        init_party=lambda self, task, w: {"seen": w.new_zeros(64)},
        start=lambda self, party: torch.zeros(64, dtype=party.task.dtype),
        loss=lambda self, party, w, batch: batch.mean(w[batch.index]),
        upload=lambda self, party, w: ({}, {"seen": party.state["seen"] - w}),
    )
    settings = {"sample": 1.0, "optimiser": "sgd", "lr": 1.0, "dtype": "float64", "batch_size": 1, "epochs": 1}
    simulation = small_simulation(PROBE, **settings | fields)
    rows = [torch.from_numpy(party.train) for party in simulation.federation.parties]
    return simulation, [simulation.federation.train.y[own] for own in rows]


@EVERY_ENGINE
def test_each_row_is_seen_as_often_as_its_class_says(engine):
    fields = {"dtype": "float32"} if engine == "compiled" else {}
    simulation, labels = counting([1.0, 3.0, 0.2], engine=engine, **fields)
    for number, state in play(simulation, 1).state.parties.items():
        expected = torch.tensor([1.0, 3.0, 1.0])[labels[number]].to(state["seen"])
        assert torch.allclose(state["seen"][: len(expected)], expected)
        assert not state["seen"][len(expected) :].any()


def test_a_fraction_is_the_chance_of_one_more_drawn_anew_in_every_round():
    simulation, labels = counting([2.25, 1.0, 2.25], rounds=30)
    one = {key: state["seen"] for key, state in play(simulation, 1).state.parties.items()}
    assert {float(v) for k, label in enumerate(labels) for v in one[k][: len(label)]} == {1.0, 2.0, 3.0}
    many = play(simulation, 29).state.parties
    often = torch.cat([many[k]["seen"][: len(label)][label != 1] for k, label in enumerate(labels)]) / 30
    assert 1.9 < float(often.min()) < 2.25 < float(often.max()) < 2.8
    assert float(often.mean()) == pytest.approx(2.25, abs=0.04)
    other = torch.cat([many[k]["seen"][: len(label)][label == 1] for k, label in enumerate(labels)]) / 30
    assert torch.equal(other, torch.ones_like(other))


def test_no_server_can_make_a_party_see_a_row_more_often_than_the_plan_says():
    simulation, labels = counting([1e6, -5.0, float("inf")], most=4)
    for number, state in play(simulation, 1).state.parties.items():
        expected = torch.tensor([4.0, 1.0, 4.0])[labels[number]].double()
        assert torch.allclose(state["seen"][: len(expected)], expected)


def test_one_full_step_is_gradient_descent_on_levelled_classes():
    """At alpha 1, with whole copies, every class has the same weight in the whole: by hand on all rows."""
    simulation = small_simulation("astraea(alpha=1)", dtype="float64", **WHOLE)
    after, _ = simulation.play_round()
    copies = after.server["copies"]
    task, w, held = simulation.task, simulation.initial, labels_of(simulation)
    sizes = held @ copies
    assert torch.allclose(held.sum(dim=0) * copies, (held.sum(dim=0) * copies).max().expand(3), rtol=0.5)
    for number, state in after.parties.items():
        assert torch.equal(state["counts"], held[number])
    total = torch.zeros_like(w)
    for number in range(6):
        worker = simulation.crew.worker(number)
        order = _order(simulation, number, {"w": w, "copies": copies})
        seen = worker.rows_of(order.phases[0], order)
        x, y = seen.rows.take(torch.from_numpy(seen.index))
        total += sizes[number] * -0.05 * task.gradient(w, Batch(x, y, training=True))
    assert torch.allclose(after.server["w"], w + total / sizes.sum(), atol=1e-12)


def _order(simulation, number, payload):
    phases = simulation.algorithm.phases(simulation.task, 1)
    return Order(number, 1, 0, "train", payload, {}, simulation.state.buffers, lr=0.1, phases=phases)


# --- mediators ---


def kl(counts):
    p = torch.tensor(counts, dtype=torch.float64)
    p = p / p.sum()
    q = torch.full_like(p, 1 / len(p))
    return float(sum(a * (a / b).log() for a, b in zip(p, q, strict=True) if a > 0))


def test_the_unevenness_of_labels_is_the_divergence_from_uniform():
    for counts in ([3, 0, 1], [2, 2, 2], [7, 0, 0]):
        assert float(unevenness(torch.tensor(counts).double())) == pytest.approx(kl(counts), abs=1e-12)


def test_one_label_each_is_grouped_into_even_mediators():
    labels = (0, 1, 0, 2, 1, 2)
    found = mediators({number: torch.eye(3)[label] * 5 for number, label in enumerate(labels)}, 3)
    assert sorted(map(len, found)) == [3, 3]
    assert all(sorted(labels[number] for number in chain) == [0, 1, 2] for chain in found)


@pytest.mark.parametrize("gamma", [1, 2, 4, 9])
def test_everybody_is_in_one_mediator_and_none_is_less_even_than_its_worst_party(gamma):
    drawn = torch.from_numpy(np.random.default_rng(gamma).integers(0, 9, (7, 4))).double()
    counts = {number + 10: row for number, row in enumerate(drawn)}
    found = mediators(counts, gamma)
    assert sorted(itertools.chain(*found)) == sorted(counts)
    assert all(len(chain) == gamma for chain in found[:-1])
    for chain in found:
        whole = float(unevenness(sum(counts[number] for number in chain)))
        assert whole <= max(float(unevenness(counts[number])) for number in chain) + 1e-12
    first = found[0][0]
    assert unevenness(counts[first]) == min(unevenness(row) for row in counts.values())


@EVERY_ENGINE
@pytest.mark.parametrize("passes", [1, 2])
def test_one_mediator_of_all_is_descent_from_party_to_party(engine, passes):
    simulation = small_simulation(f"astraea(alpha=0, gamma=6, passes={passes})", engine=engine, **WHOLE)
    w, task = simulation.initial, simulation.task
    held = labels_of(simulation)
    (chain,) = mediators(dict(enumerate(held)), 6)
    after, row = simulation.play_round()
    for number in chain * passes:
        own = torch.from_numpy(simulation.federation.parties[number].train)
        x, y = simulation.federation.train.take(own)
        w = w - 0.05 * task.gradient(w, Batch(x, y, training=True))
    assert torch.allclose(after.server["w"], w, atol=1e-6)
    assert row["traffic"]["up"]["delta"] == 6 * passes * task.size * 4


def test_mediators_are_averaged_by_their_rows():
    simulation = small_simulation("astraea(alpha=0, gamma=4)", dtype="float64", **WHOLE)
    held, task = labels_of(simulation), simulation.task
    chains = mediators(dict(enumerate(held)), 4)
    assert [len(chain) for chain in chains] == [4, 2]
    after, _ = simulation.play_round()
    ends = []
    for chain in chains:
        w = simulation.initial
        for number in chain:
            own = torch.from_numpy(simulation.federation.parties[number].train)
            w = w - 0.05 * task.gradient(w, Batch(*simulation.federation.train.take(own), training=True))
        ends.append(w)
    rows = torch.stack([held[chain].sum() for chain in chains])
    assert torch.allclose(after.server["w"], rows @ torch.stack(ends) / rows.sum(), atol=1e-12)


def test_a_cohort_that_never_told_its_counts_trains_all_the_same():
    """Who was away when counts were told is known by none: chains of such are averaged alike."""
    simulation = play(small_simulation("astraea(alpha=0, gamma=2)", dtype="float64", **WHOLE), 1)
    simulation.state.server["counts"].zero_()
    before, task, ends = simulation.state.server["w"], simulation.task, []
    for chain in ((0, 1), (2, 3), (4, 5)):
        w = before
        for number in chain:
            own = torch.from_numpy(simulation.federation.parties[number].train)
            w = w - 0.05 * task.gradient(w, Batch(*simulation.federation.train.take(own), training=True))
        ends.append(w)
    after, _ = simulation.play_round()
    assert torch.allclose(after.server["w"], sum(ends) / 3, atol=1e-12)


def test_mediators_are_made_of_those_who_are_there():
    simulation = small_simulation("astraea(gamma=3)", sample=0.5)
    _, row = simulation.play_round()
    assert row["traffic"]["up"]["delta"] == 3 * simulation.task.size * 4
    assert row["traffic"]["up"]["shares"] == 6 * 3 * 4


def test_sums_are_enough_without_mediators():
    one, other = (play(small_simulation("astraea", sample=1.0, channel=how), 2) for how in (None, "masked"))
    assert torch.allclose(one.state.server["w"], other.state.server["w"], atol=1e-3)
    with pytest.raises(UserError, match="needs to see single uploads"):
        small_simulation("astraea(gamma=2)", sample=1.0, channel="masked")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("astraea(alpha=-1)", r"Astraea.alpha must be 0 or more, got -1"),
        ("astraea(gamma=0)", r"gamma, passes and most must be 1 or more, got 0, 1, 10"),
        ("astraea(most=0)", r"must be 1 or more, got 1, 1, 0"),
    ],
)
def test_what_makes_no_sense_is_refused(text, message):
    with pytest.raises(UserError, match=message):
        small_simulation(text)
