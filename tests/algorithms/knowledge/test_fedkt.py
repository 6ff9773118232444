"""FedKT: votes by hand, votes that must agree, hidden and noised votes, and what the last net learns."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional

from tests.helpers import EVERY_ENGINE, recorded
from unalike.algorithms import FedKt, Phase, Replies
from unalike.algorithms.knowledge.distil import distil, taken
from unalike.algorithms.knowledge.ensemble import course_of
from unalike.algorithms.knowledge.fedkt import laplace, votes_of
from unalike.channels.accountant import laplace_epsilon
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.rounds.order import Order
from unalike.runs.small import play, small_simulation

ALL = {"sample": 1.0, "held_out": 0.0, "validation": 0.0}
LINEAR = {"model": "logistic"}
WILD = {**LINEAR, "lr": 2.0, "epochs": 1}
"""Students that do not agree on every row."""
STEP = {"batch_size": 256, "optimiser": "sgd", "lr": 2.0, "epochs": None, "steps": 1, **LINEAR}


def party_of(simulation, phase="student", **state):
    order = Order(0, 1, 0, "train", {"w": simulation.initial}, {}, simulation.state.buffers, lr=0.1)
    worker = simulation.crew.worker(0)
    return replace(worker.party(order, worker.own(order), phase), state=state)


def replies_of(votes):
    return Replies({}, {"votes": votes}, 1.0, 1, 1, torch.zeros(0))


def stepped(simulation, w, x, y):
    """A gradient step of an ordinary PyTorch module, and what it then says of the public rows."""
    net = MODELS.build("logistic").build((5,), 3).to(w.dtype)
    net.load_state_dict(simulation.task.named(w, simulation.state.buffers))
    functional.cross_entropy(net(x)[0], y).backward()
    torch.optim.SGD(net.parameters(), lr=2.0).step()
    return net(simulation.task.public.x)[0].argmax(dim=1)


def once(text, **fields):
    simulation = small_simulation(text, **ALL | fields)
    replies = recorded(simulation)
    play(simulation, 1)
    return simulation, replies[0]


@EVERY_ENGINE
def test_one_teacher_and_one_student_are_hard_label_distillation(engine):
    """A step on all own rows, a step on its own labels of the public rows, and the votes of what comes of it."""
    dtype = "float32" if engine == "compiled" else "float64"
    simulation, replies = once("fedkt(partitions=1, teachers=1)", **STEP, engine=engine, dtype=dtype)
    public, expected = simulation.task.public, torch.zeros(len(simulation.task.public.y), 3)
    for own in simulation.federation.parties:
        x, y = simulation.federation.train.take(torch.from_numpy(own.train))
        label = stepped(simulation, simulation.initial, x, y)
        vote = stepped(simulation, simulation.initial, public.x, label)
        expected += functional.one_hot(vote, 3)
    assert torch.equal(replies.sum["votes"].float(), expected)
    assert len(expected.argmax(dim=1).unique()) > 1
    assert float(expected.amax(dim=1).min()) < 6


@EVERY_ENGINE
def test_teachers_are_trained_on_their_part_and_most_votes_count(engine):
    """Three teachers, each a step on a third of the rows; the student a step on the label of most."""
    dtype = "float32" if engine == "compiled" else "float64"
    text = "fedkt(partitions=2, teachers=3, consistent=false)"
    simulation, replies = once(text, **STEP, engine=engine, dtype=dtype)
    public, expected = simulation.task.public, torch.zeros(len(simulation.task.public.y), 3)
    for number, own in enumerate(simulation.federation.parties):
        worker = simulation.crew.worker(number)
        for deal in (0, 1):
            counts = torch.zeros_like(expected)
            for which in range(3):
                part = worker.dealt((which, 3, deal), len(own.train))
                x, y = simulation.federation.train.take(torch.from_numpy(own.train[part]))
                counts += functional.one_hot(stepped(simulation, simulation.initial, x, y), 3)
            vote = stepped(simulation, simulation.initial, public.x, counts.argmax(dim=1))
            expected += functional.one_hot(vote, 3)
    assert torch.equal(replies.sum["votes"].float(), expected)


def test_parts_of_a_deal_share_no_row_leave_none_out_and_are_drawn():
    worker = small_simulation("fedkt").crew.worker(0)
    one, other = ([worker.dealt((which, 3, deal), 10) for which in range(3)] for deal in (0, 1))
    for parts in (one, other):
        assert sorted(len(part) for part in parts) == [3, 3, 4]
        assert sorted(row for part in parts for row in part) == list(range(10))
    assert any(list(a) != list(b) for a, b in zip(one, other, strict=True))


def test_the_phases_are_the_papers():
    found = FedKt(partitions=2, teachers=2, epochs=7, student_epochs=3).phases(None, 1)
    teachers = [phase for phase in found if phase.rows == "own"]
    assert [phase.part for phase in teachers] == [(0, 2, 0), (1, 2, 0), (0, 2, 1), (1, 2, 1)]
    assert [phase.rows for phase in found] == ["own", "own", "public"] * 2
    assert found[2] == found[5] == Phase("student", epochs=3, rows="public")
    assert {phase.epochs for phase in teachers} == {7}


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_a_party_whose_students_differ_on_a_row_has_no_vote_there(engine):
    _, loose = once("fedkt(teachers=2, consistent=false)", **WILD, engine=engine)
    simulation, strict = once("fedkt(teachers=2)", **WILD, engine=engine)
    one, two = (votes_of(simulation.task, simulation.task.initial(which)) for which in (0, 1))
    me = party_of(simulation, taught=one * 0, votes=one)
    agreed, _ = FedKt().upload(me, simulation.task.initial(1))
    assert torch.equal(agreed["votes"], 2 * one * two)
    assert 0 < float(agreed["votes"].sum()) < 2 * len(one)
    votes, all_votes = strict.sum["votes"], loose.sum["votes"]
    assert torch.equal(all_votes.sum(dim=1), torch.full((len(one),), 12.0))
    assert not (votes % 2).any()
    assert (votes <= all_votes).all()
    assert float(votes.sum()) < float(all_votes.sum())


def test_the_last_net_learns_the_label_of_most_on_the_rows_that_got_a_vote():
    simulation = small_simulation("fedkt(passes=9)", **ALL)
    algorithm, task, server = simulation.algorithm, simulation.task, simulation.state.server
    votes = torch.zeros(len(task.public.y), 3)
    votes[:4] = torch.tensor([[0, 1, 4], [2, 2, 0], [0, 9, 1], [3, 0, 0]])
    after = algorithm.fold(task, server, replies_of(votes))
    rows, label = taken(task.public, torch.arange(4)), torch.tensor([2, 0, 1, 0])
    expected = distil(task, server["w"], rows, label, course_of(task, 4, 9, 1e-3), task.generator(1))
    assert torch.equal(after["w"], expected)
    assert not torch.equal(after["w"], server["w"])
    none = algorithm.fold(task, server, replies_of(votes * 0))
    assert torch.equal(none["w"], server["w"])
    assert int(none["rounds"]) == 1


def test_labels_of_public_rows_are_never_looked_at():
    ends = []
    for turn in (0, 1):
        simulation = small_simulation("fedkt(teachers=2, passes=5)", **ALL)
        for rows in (simulation.task.public, simulation.federation.public):
            rows.y.add_(turn).remainder_(3)
        ends.append(play(simulation, 1).state.digest())
    assert ends[0] == ends[1]


def test_votes_alone_leave_a_party_and_nothing_of_them_is_kept():
    simulation, replies = once("fedkt(teachers=2)")
    assert set(replies.sum) == {"votes"}
    assert not any(value.any() for state in simulation.state.parties.values() for value in state.values())


# --- hidden and noised ---


def test_hidden_votes_are_the_votes():
    plain, one = once("fedkt(teachers=2, passes=5)")
    hidden, other = once("fedkt(teachers=2, passes=5)", channel="masked")
    assert torch.equal(one.sum["votes"], other.sum["votes"].round())
    assert torch.equal(plain.state.server["w"], hidden.state.server["w"])


def test_noise_of_the_channel_has_the_epsilon_of_its_accountant():
    """L1: noise of scale 1/g on every count of the sum hides a party with g s rows, delta aside; less is less."""
    rate = 0.05
    simulation, plain = once("fedkt(teachers=2, passes=5)", epochs=1)
    rows = len(simulation.task.public.y)
    bound = 2 * rows
    channel = f"clip({bound}, l1)+laplace({1 / (rate * bound)})"
    noised = small_simulation("fedkt(teachers=2, passes=5)", **ALL | {"epochs": 1, "channel": channel})
    replies = recorded(noised)
    noised.state, row = noised.play_round()
    noise = replies[0].sum["votes"] - plain.sum["votes"]
    assert float(noise.abs().mean()) == pytest.approx(1 / rate, rel=0.5)
    assert row["epsilon"] == pytest.approx(rate * 2 * rows, rel=0.02)
    assert row["epsilon"] == laplace_epsilon(1 / (rate * bound), 1, 1e-5)


def test_noise_at_the_party_is_laplaces_and_another_in_each_partition():
    simulation = small_simulation("fedkt", **ALL | {"dtype": "float64"})
    me = party_of(simulation)
    one, two = (laplace(me, 20_000, deal).numpy() for deal in (0, 1))
    for drawn in (one, two):
        assert stats.kstest(drawn, stats.laplace.cdf).pvalue > 1e-3
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.03


def test_gamma_puts_noise_of_that_scale_on_the_last_teachers_counts_alone():
    simulation = small_simulation("fedkt(gamma=0.25)", **ALL | {"dtype": "float64"})
    w, zero = simulation.initial, torch.zeros(len(simulation.task.public.y), 3, dtype=torch.float64)
    for gamma, phase in ((0.25, "teacher"), (0.0, "last teacher 1")):
        kept = FedKt(gamma=gamma).keep(party_of(simulation, phase, taught=zero, votes=zero), w)
        assert torch.equal(kept["taught"], votes_of(simulation.task, w))
    me = party_of(simulation, "last teacher 1", taught=zero, votes=zero)
    noise = FedKt(gamma=0.25).keep(me, w)["taught"] - votes_of(simulation.task, w)
    assert torch.allclose(noise, 4 * laplace(me, noise.numel(), 1).reshape(noise.shape))
    assert torch.equal(FedKt(gamma=0.25).keep(me, w)["votes"], zero)


def test_vanishing_noise_is_none():
    plain, one = once("fedkt(teachers=2, passes=5)")
    tiny, other = once("fedkt(teachers=2, passes=5, gamma=1e9)")
    assert torch.equal(one.sum["votes"], other.sum["votes"])
    assert torch.equal(plain.state.server["w"], tiny.state.server["w"])


@pytest.mark.parametrize(("gamma", "partitions", "rows"), [(0.1, 2, 3), (0.02, 3, 5)])
def test_a_rows_epsilon_is_the_accountants_for_a_row_that_is_replaced(gamma, partitions, rows):
    """Pure: it holds at every delta, and composing the same releases as the accountant does gives no more."""
    found = FedKt(gamma=gamma, partitions=partitions).row_epsilon(rows)
    moved = 2  # counts that one changed vote moves by one
    composed = laplace_epsilon(1 / (gamma * moved), partitions * rows, 1e-9)
    assert composed <= found * (1 + 1e-9)
    assert composed == pytest.approx(found, rel=0.02)
    assert FedKt().row_epsilon(rows) == float("inf")


def test_another_row_in_its_place_changes_one_teacher_of_each_partition(monkeypatch):
    """What row_epsilon counts: per public row and partition, two counts by one at most."""
    ends, keep = [], FedKt.keep
    for turn in (0, 1):
        kept = []
        simulation = small_simulation("fedkt(teachers=3)", **ALL | {"engine": "sequential", "lr": 0.5})
        own = simulation.federation.parties[3].train
        simulation.federation.train.y[own[4]] = (simulation.federation.train.y[own[4]] + turn) % 3

        def watched(self, party, w, kept=kept, keep=keep):
            state = keep(self, party, w)
            kept.append((int(party.number), state))
            return state

        monkeypatch.setattr(FedKt, "keep", watched)
        play(simulation, 1)
        monkeypatch.undo()
        ends.append([state["taught"] for number, state in kept if number == 3])
    moved = [(one - other).abs().sum(dim=1) for one, other in zip(*ends, strict=True)]
    # teachers 0, 1, 2, the student (which empties the counts), and all of it again for the second partition
    for counts in moved:
        assert float(counts.max()) <= 2
    assert max(float(counts.max()) for counts in moved) > 0


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        ("fedkt(partitions=0)", {}, r"FedKt.partitions must be at least 1, got 0"),
        ("fedkt(teachers=0)", {}, r"FedKt.teachers must be at least 1, got 0"),
        ("fedkt(gamma=-1)", {}, r"FedKt.gamma must be at least 0, got -1"),
        ("fedkt(passes=-1)", {}, r"FedKt.passes must be at least 0, got -1"),
        ("fedkt", {"public": 0.0}, r"uses public rows, of which there are none\. Give some: --public 0\.1"),
        ("fedkt", {"model": "test-norm-body", "batch_size": 64}, r"FedKt .*Use --batch-norm drop"),
    ],
)
def test_mistakes_are_one_line(text, fields, message):
    with pytest.raises(UserError, match=message) as caught:
        small_simulation(text, **ALL | fields)
    assert "\n" not in str(caught.value)
