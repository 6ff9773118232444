"""DENSE: made rows that all nets know, and a student that learns what they say."""

import math

import pytest
import torch
from torch.nn import functional

from tests.algorithms.generated.helpers import pictures, simulation_of
from tests.helpers import recorded, regression_data
from unalike.algorithms import ALGORITHMS, Dense
from unalike.algorithms.generated.dense import with_gap
from unalike.algorithms.generated.gan import Gan
from unalike.algorithms.knowledge.distil import Member, Teachers
from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.runs.small import play, small_simulation

NORM = {"model": "test-norm-body", "batch_size": 16}
SHORT = "epochs=2, makes=3, learns=3"


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_without_lessons_it_is_fedavg(engine):
    ours, plain = (play(small_simulation(text, engine=engine), 2) for text in ("dense(epochs=0)", "fedavg"))
    assert torch.allclose(ours.state.server["w"], plain.state.server["w"], atol=1e-6)


def test_a_student_that_says_what_its_teachers_say_stays():
    """One party: the student begins as its net, so the divergence and its gradient are zero, whatever is made."""
    ours, plain = (simulation_of(text, [5]) for text in (f"dense({SHORT}, student_lr=1)", "fedavg"))
    ours, plain = play(ours, 1), play(plain, 1)
    assert torch.allclose(ours.state.server["w"], plain.state.server["w"], atol=1e-12)
    many, mean = (play(simulation_of(t, [3, 5]), 1) for t in (f"dense({SHORT}, student_lr=1)", "fedavg"))
    assert not torch.allclose(many.state.server["w"], mean.state.server["w"], atol=1e-3)


def members_of(text, groups, **fields):
    """A simulation after a round, and the nets that its parties sent."""
    simulation = simulation_of(text, groups, **fields)
    replies = recorded(simulation)
    simulation.play_round()
    sent = replies[0].each.values()
    return simulation, [Member(simulation.task, each["w"], each.get("statistics")) for each in sent], replies[0]


def test_the_generators_loss_is_the_papers():
    simulation, members, _ = members_of(f"dense({SHORT})", [3, 5], epochs=20)
    x, y = simulation.federation.train.take(torch.arange(40))
    told = sum(member.logits(Batch(x, y)) for member in members) / 2
    for which in range(1, 9):  # until one agrees with the mean of both nets on some rows
        student = Member(simulation.task, simulation.task.initial(which))
        guessed = student.logits(Batch(x, y))
        if 0 < int((guessed.argmax(dim=1) != told.argmax(dim=1)).sum()) < 40:
            break
    p, q = told.softmax(dim=1), guessed.softmax(dim=1)
    apart = [float((a * (a / b).log()).sum()) * int(a.argmax() != b.argmax()) for a, b in zip(p, q, strict=True)]
    assert 0 < sum(value > 0 for value in apart) < 40
    expected = float(functional.cross_entropy(told, y)) - 0.7 * sum(apart) / 40
    found = Dense(disagreement=0.7).making(members, student, Batch(x, y))
    assert float(found) == pytest.approx(expected)


def test_statistics_are_compared_before_each_batch_norm_layer():
    """Of the party's own running statistics after its training, which it sends."""
    simulation, members, replies = members_of(f"dense({SHORT})", [3, 5], **NORM)
    task = simulation.task
    sent = [each["statistics"] for each in replies.each.values()]
    assert not torch.equal(sent[0], sent[1])
    assert torch.allclose(replies.mean["statistics"], replies.buffers, atol=1e-12)
    x, y = simulation.federation.train.take(torch.arange(30))
    for member in members:
        net = task.named(member.w, member.buffers)
        before = functional.linear(x, net["body.0.weight"], net["body.0.bias"])
        far = torch.cat([before.mean(dim=0) - net["body.1.running_mean"]]).norm()
        far += (before.var(dim=0, correction=0) - net["body.1.running_var"]).norm()
        logits, gap = with_gap(member, Batch(x, y))
        assert torch.allclose(gap, far, atol=1e-12)
        assert torch.equal(logits, member.logits(Batch(x, y)))
    losses = [Dense(statistics=weight).making(members, members[0], Batch(x, y)) for weight in (0.0, 2.0)]
    gaps = sum(with_gap(member, Batch(x, y))[1] for member in members) / 2
    assert float(losses[1] - losses[0]) == pytest.approx(2 * float(gaps))
    assert not task.net.body[1]._forward_pre_hooks


def test_without_batch_norm_there_are_none_to_compare():
    simulation, members, replies = members_of(f"dense({SHORT})", [3, 5])
    x, y = simulation.federation.train.take(torch.arange(30))
    assert float(with_gap(members[0], Batch(x, y))[1]) == 0
    assert replies.each[0].keys() == {"w"}


@pytest.mark.parametrize(("data", "model"), [(None, "mlp(6,4)"), (pictures(), "logistic")])
def test_rows_are_made_that_the_nets_take_for_their_label(data, model):
    """The cross-entropy of made rows under the mean of the nets falls, for tables and for pictures."""
    groups = [4, 5] if data is None else [0, 1]
    simulation, members, _ = members_of(f"dense({SHORT})", groups, data=data, model=model)
    task, algorithm = simulation.task, Dense(noise=4, disagreement=0)
    classes = task.classes
    gan, y = Gan.of(task, 4), torch.arange(30) % classes
    z = torch.randn(30, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    g = gan.generator.initial()

    def loss(g):
        return algorithm.making(members, members[0], Batch(gan.made(g, z, y), y))

    from unalike.algorithms.generated import learning

    learnt = learning.learnt(task, g, lambda g, step: loss(g), 60, 0.01)
    assert float(loss(learnt)) < 0.2 * float(loss(g))
    right = Teachers(members).logits(Batch(gan.made(learnt, z, y), y)).argmax(dim=1) == y
    assert float(right.double().mean()) > 0.9


def test_the_student_comes_nearer_to_the_nets_where_rows_are_made():
    text = "dense(epochs=8, makes=10, learns=25, student_lr=0.1, noise=4)"
    simulation, members, replies = members_of(text, [4, 5], epochs=30)
    task, algorithm = simulation.task, simulation.algorithm
    start = replies.mean["w"]
    student = algorithm.taught(task, start, replies.buffers, members, 1)
    gan = Gan.of(task, 4)
    rows = gan.made(gan.generator.initial(1), torch.randn(200, 4, dtype=torch.float64), torch.arange(200) % 3)
    told = Teachers(members)(Batch(rows, rows[:, 0]))

    def apart(w):
        return float(functional.cross_entropy(task.logits(w, Batch(rows, rows[:, 0])), told))

    assert apart(student) < apart(start)
    assert math.isfinite(apart(student))
    assert torch.equal(student, algorithm.taught(task, start, replies.buffers, members, 1))
    assert not torch.equal(student, algorithm.taught(task, start, replies.buffers, members, 2))


def test_the_order_of_parties_changes_nothing():
    simulation, members, replies = members_of(f"dense({SHORT})", [3, 4, 5])
    one, other = (
        simulation.algorithm.taught(simulation.task, replies.mean["w"], replies.buffers, list(nets), 1)
        for nets in (members, members[::-1])
    )
    assert torch.allclose(one, other, atol=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        *("epochs=-1", "makes=0", "learns=0", "noise=0", "statistics=-1", "disagreement=-1"),
        *("lr=0", "student_lr=0", "lr=nan"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(text):
    with pytest.raises(UserError, match=text.split("=")[0]):
        ALGORITHMS.build(f"dense({text})")


def test_what_it_cannot_do_is_said():
    with pytest.raises(UserError, match="dense is for classes"):
        simulation_of("dense", [0, 1], regression_data())
    with pytest.raises(UserError, match="needs to see single uploads"):
        small_simulation("dense", channel="masked", sample=1.0)
