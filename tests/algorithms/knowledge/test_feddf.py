"""FedDF: what the server's student starts as, learns from whom, and on which rows."""

import pytest
import torch

from tests.algorithms.knowledge.played import NETS, own_rows, same_public_rows, simulation_of
from tests.helpers import EVERY_ENGINE, recorded
from unalike.algorithms.knowledge.distil import Course, Member, Teachers, distil
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.runs.small import play, small_simulation

PLAIN = {"optimiser": "sgd", "epochs": None, "steps": 1, "batch_size": 256}


@EVERY_ENGINE
def test_without_a_step_it_is_fedavg_to_the_bit(engine):
    one, other = (play(small_simulation(name, engine=engine), 3) for name in ("feddf(batches=0)", "fedavg"))
    assert torch.equal(one.state.server["w"], other.state.server["w"])
    learnt = play(small_simulation("feddf(lr=0.01)", engine=engine), 3)
    assert not torch.allclose(learnt.state.server["w"], other.state.server["w"], atol=1e-3)


def test_one_party_moves_nothing(monkeypatch):
    same_public_rows(monkeypatch)
    one, other = (play(simulation_of(name, [4], public=0.1), 2) for name in ("feddf", "fedavg"))
    assert torch.equal(one.state.server["w"], other.state.server["w"])


def test_of_a_linear_model_the_student_is_the_average(monkeypatch):
    """Squared distance of logits, rows of full rank, parties of equal size: the mean of all is at the average."""
    same_public_rows(monkeypatch, 30)
    text, groups = "feddf(distance=squared, optimiser=sgd, lr=0.2)", [4, 4, 4]
    one, other = (play(simulation_of(name, groups, public=0.1, model="logistic"), 1) for name in (text, "fedavg"))
    assert torch.allclose(one.state.server["w"], other.state.server["w"], atol=1e-10)
    # Parties of unequal size count the same in the ensemble: its optimum is the plain mean of their models.
    unequal = simulation_of(text.replace("0.2", "0.2, batches=600"), [3, 5], public=0.1, model="logistic")
    said, w = recorded(unequal), unequal.state.server["w"]
    after, _ = unequal.play_round()
    plain = w + sum(each["delta"] for each in said[0].each.values()) / 2
    average = w + said[0].mean["delta"]
    assert float((after.server["w"] - plain).norm()) < 1e-2 * float((average - plain).norm())


@pytest.mark.parametrize(("size", "batches"), [(4, 5), (4, 2)])
def test_the_student_learns_the_mean_of_the_logits_from_the_average(size, batches):
    """Uploads by hand: one step on all of a party's rows. Then the course, on rows that the round draws."""
    text = f"feddf(batches={batches}, size={size}, heat=2, lr=0.01)"
    simulation = small_simulation(text, dtype="float64", sample=1.0, engine="sequential", **PLAIN)
    task = simulation.task
    models, sizes = [], []
    for number in range(6):
        x, y = own_rows(simulation, number)
        net = MODELS.build("mlp(6,4)").build((5,), 3).double()
        net.load_state_dict(task.named(simulation.initial, simulation.state.buffers))
        torch.nn.functional.cross_entropy(net(x)[0], y).backward()
        models.append(torch.cat([(p - 0.05 * p.grad).detach().reshape(-1) for p in net.parameters()]))
        sizes.append(len(y))
    average = sum(n * w for n, w in zip(sizes, models, strict=True)) / sum(sizes)

    def told(batch):
        return (sum(task.logits(w, batch) for w in models) / 6 / 2).softmax(dim=1)

    course = Course(batches=batches, size=size, lr=0.01, heat=2)
    expected = distil(task, average, task.public, told, course, task.generator(1, 2, 0))
    assert torch.allclose(play(simulation, 1).state.server["w"], expected, atol=1e-10)
    again = distil(task, average, task.public, told, course, task.generator(2, 2, 0))
    assert not torch.allclose(again, expected, atol=1e-6)  # the next round draws others


def test_rows_to_stop_by_are_public_and_apart_from_those_to_learn_from(monkeypatch):
    met = {}

    def watched(task, w, rows, target, course, generator, *, buffers, validation):
        met["learnt"], met["apart"], met["table"] = rows, validation, target
        return w

    monkeypatch.setattr("unalike.algorithms.knowledge.feddf.distil", watched)
    simulation = play(small_simulation("feddf(validation=0.25, patience=3)"), 2)
    public = simulation.task.public
    places = [met[name].index.tolist() for name in ("learnt", "apart")]
    assert sorted(places[0] + places[1]) == list(range(12))
    assert len(places[1]) == 3
    assert torch.equal(met["apart"].x, public.x[places[1]])
    assert torch.equal(met["apart"].y, public.y[places[1]])
    assert met["table"].shape == (9, 3)
    test = {tuple(row.tolist()) for row in simulation.federation.test.take(torch.arange(40))[0]}
    assert not test & {tuple(row.tolist()) for row in public.x}


@EVERY_ENGINE
def test_each_kind_of_net_has_a_student_that_all_kinds_teach(engine):
    """Nothing is learnt in the students' course: they are the means of their kinds, by rows."""
    simulation = small_simulation("feddf-nets(batches=0)", model=NETS, engine=engine, sample=1.0)
    said, before = recorded(simulation), simulation.state.server["w"]
    after, row = simulation.play_round()
    sizes = [task.size for task in simulation.tasks]
    for kind, size in enumerate(sizes):
        assert torch.equal(before[kind, :size], simulation.tasks[kind].initial())
        assert not after.server["w"][kind, size:].any()
        own = {k: each for k, each in said[0].each.items() if k % 3 == kind}
        rows = [float(each["rows"]) for each in own.values()]
        assert rows == [len(simulation.federation.parties[k].train) for k in own]
        mean = sum(n * each["delta"] for n, each in zip(rows, own.values(), strict=True)) / sum(rows)
        assert torch.allclose(after.server["w"][kind], before[kind] + mean, atol=1e-6)
        assert float(mean.abs().max()) > 1e-3
    assert row["accuracy"] is None
    assert row["personal"]["count"] > 0
    assert row["traffic"]["down"] == {"w": 6 * max(sizes) * 4}
    personal = simulation.models(after).personal
    assert torch.equal(personal(4)[0], after.server["w"][1, : sizes[1]])


def test_a_kinds_student_learns_from_the_models_of_the_others():
    """Two kinds, a party each: both students get the mean logits of both models."""
    simulation = simulation_of("feddf-nets(lr=0.01)", [4, 5], model="mlp(6,4)|mlp(8)", public=0.3)
    said, w = recorded(simulation), simulation.state.server["w"]
    after, _ = simulation.play_round()
    tasks = simulation.tasks
    models = [w[k, : tasks[k].size] + said[0].each[k]["delta"][: tasks[k].size] for k in (0, 1)]
    teachers = Teachers([Member(task, model) for task, model in zip(tasks, models, strict=True)])
    for kind, task in enumerate(tasks):
        stream = task.generator(1, 2, kind)
        student = distil(task, models[kind], task.public, teachers, Course(lr=0.01), stream)
        assert torch.allclose(after.server["w"][kind, : task.size], student, atol=1e-10)


def test_a_kind_of_which_nobody_took_part_stays_where_nothing_is_learnt():
    simulation = small_simulation("feddf-nets(batches=0)", model=NETS, sample=0.17)
    (number,) = simulation.cohort(1)
    before = simulation.state.server["w"].clone()
    after, _ = simulation.play_round()
    assert [not torch.equal(after.server["w"][k], before[k]) for k in range(3)] == [
        k == number % 3 for k in range(3)
    ]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("feddf(batches=-1)", "batches must be a whole number from 0"),
        ("feddf(validation=1)", "validation must be at least 0 and below 1"),
        ("feddf(patience=5)", "no rows are kept to stop by. Use validation=0.2"),
        ("feddf(distance=absolute)", "distance must be one of scores, squared"),
        ("feddf(heat=0)", "heat must be above 0"),
    ],
)
def test_values_that_mean_nothing_are_refused(text, rule):
    with pytest.raises(UserError, match=rule):
        small_simulation(text)


def test_what_does_not_fit_is_refused():
    with pytest.raises(UserError, match="uses public rows, of which there are none"):
        play(small_simulation("feddf", public=0.0), 1)
    with pytest.raises(UserError, match="needs to see single uploads"):
        small_simulation("feddf", channel="masked", sample=1.0)
    with pytest.raises(UserError, match=r"Use --batch-norm drop\."):
        small_simulation("feddf-nets", model="test-norm-body", batch_norm="local")
