"""Distillation on the server: steps by hand, an optimum in closed form, what stops it, what it leaves alone."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.helpers import NormBody
from unalike.algorithms.knowledge.distil import Course, Member, Teachers, distil, split, table, taken
from unalike.errors import UserError
from unalike.models import MODELS, Task
from unalike.models.batch import Batch
from unalike.models.loss import SquaredError

ROWS, CLASSES = 12, 3


def task_of(model="mlp(4)", dtype=torch.float64, **more):
    return Task(lambda: MODELS.build(model).build((5,), CLASSES), dtype=dtype, shape=(5,), classes=CLASSES, **more)


def rows_of(count=ROWS, seed=1, dtype=torch.float64):
    draw = torch.Generator().manual_seed(seed)
    return Batch(
        torch.randn(count, 5, generator=draw, dtype=torch.float64).to(dtype),
        torch.randint(CLASSES, (count,), generator=draw),
    )


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def module_of(task, w):
    module = MODELS.build("mlp(4)").build((5,), CLASSES).double()
    module.load_state_dict(task.named(w, task.initial_buffers()))
    return module


def flat(module):
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


@pytest.mark.parametrize(
    ("course", "optimiser"),
    [
        (Course(), lambda p: torch.optim.Adam(p, lr=1e-3)),
        (Course(lr=0.01, weight_decay=0.1), lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1)),
        (
            Course(optimiser="sgd", lr=0.1, momentum=0.9, weight_decay=0.01),
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        ),
    ],
)
def test_it_is_pytorchs_optimiser_under_a_cosine_on_the_divergence(course, optimiser):
    """Whole batches, whose order matters not: ten steps of torch's own optimiser, schedule and KL divergence."""
    task, rows = task_of(), rows_of()
    course, heat = replace(course, batches=10, size=ROWS, heat=2.0), 2.0
    told = torch.randn(ROWS, CLASSES, generator=stream(3), dtype=torch.float64)
    target = (told / heat).softmax(dim=1)
    student = distil(task, task.initial(), rows, target, course, stream())
    module = module_of(task, task.initial())
    steps = optimiser(module.parameters())
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(steps, T_max=10)
    for _ in range(10):
        steps.zero_grad()
        said = (module(rows.x)[0] / heat).log_softmax(dim=1)
        (heat**2 * functional.kl_div(said, target, reduction="batchmean")).backward()
        steps.step()
        falling.step()
    assert torch.allclose(student, flat(module), atol=1e-10)
    assert not torch.allclose(student, task.initial(), atol=1e-4)


def test_hard_labels_are_a_target_too_and_the_rate_may_stay():
    task, rows = task_of(), rows_of()
    course = Course(batches=3, size=ROWS, optimiser="sgd", lr=0.5, decay=False)
    student = distil(task, task.initial(), rows, rows.y, course, stream())
    module = module_of(task, task.initial())
    steps = torch.optim.SGD(module.parameters(), lr=0.5)
    for _ in range(3):
        steps.zero_grad()
        functional.cross_entropy(module(rows.x)[0], rows.y).backward()
        steps.step()
    assert torch.allclose(student, flat(module), atol=1e-12)


@pytest.mark.parametrize("distance", ["squared", "absolute"])
def test_other_distances_are_means_over_rows_and_classes(distance):
    task, rows = task_of("logistic"), rows_of()
    target = torch.ones(ROWS, CLASSES, dtype=torch.float64)
    course = Course(batches=1, size=ROWS, optimiser="sgd", lr=1.0, distance=distance)
    moved = distil(task, task.initial(), rows, target, course, stream()) - task.initial()
    off = task.logits(task.initial(), rows) - target
    slope = (2 * off if distance == "squared" else off.sign()) / off.numel()
    bias = task.parameters.unflatten(moved)["head.bias"]
    assert torch.allclose(bias, -slope.sum(dim=0), atol=1e-12)


def test_a_linear_student_of_an_ensemble_comes_to_the_mean_of_its_weights():
    """Squared distance of logits, rows of full rank: the one optimum is the mean of the members."""
    task, rows = task_of("logistic"), rows_of(40)
    weights = torch.tensor([3.0, 1.0])
    members = [Member(task, task.initial(which)) for which in (1, 2)]
    teacher = Teachers(members, weights=weights)
    course = Course(batches=400, size=40, optimiser="sgd", lr=1.0, decay=False, distance="squared")
    student = distil(task, task.initial(), rows, teacher.logits, course, stream())
    assert torch.allclose(student, (3 * members[0].w + members[1].w) / 4, atol=1e-8)


def test_an_ensemble_has_the_mean_of_logits_or_of_scores():
    one, two, rows = task_of(), task_of("logistic", seed=5), rows_of()
    members = [Member(one, one.initial()), Member(two, two.initial())]
    first, second = one.logits(one.initial(), rows), two.logits(two.initial(), rows)
    assert torch.allclose(Teachers(members).logits(rows), (first + second) / 2)
    assert torch.allclose(Teachers(members, heat=3.0)(rows), ((first + second) / 6).softmax(dim=1))
    mean = (0.25 * (first / 3).softmax(dim=1)) + 0.75 * (second / 3).softmax(dim=1)
    weighted = Teachers(members, mean="scores", heat=3.0, weights=torch.tensor([2.0, 6.0]))
    assert torch.allclose(weighted(rows), mean)


def test_a_table_is_what_is_said_of_each_row_and_is_read_at_its_own_place():
    """Small batches in a drawn order: a table and a function say the same."""
    task, rows = task_of(), rows_of(2100)
    teacher = Teachers([Member(task, task.initial(1))])
    written = table(teacher, rows)
    assert written.shape == (2100, CLASSES)
    assert not written.requires_grad
    course = Course(batches=6, size=16, optimiser="sgd", lr=0.1)
    one, other = (distil(task, task.initial(), rows, told, course, stream(4)) for told in (teacher, written))
    assert torch.allclose(one, other, atol=1e-12)


def test_each_pass_has_all_rows_once_and_is_drawn_by_the_stream_alone():
    task, rows, seen = task_of(), rows_of(), []

    def told(batch):
        seen.append(batch.index.tolist())
        assert torch.equal(batch.x, rows.x[batch.index])
        assert torch.equal(batch.y, rows.y[batch.index])
        return batch.y

    course = Course(batches=6, size=5)
    one = distil(task, task.initial(), rows, told, course, stream())
    first, second = [*chain(*seen[:3])], [*chain(*seen[3:])]
    assert sorted(first) == sorted(second) == list(range(ROWS))
    assert first != second
    torch.manual_seed(99)
    assert torch.equal(one, distil(task, task.initial(), rows, told, course, stream()))
    assert not torch.equal(one, distil(task, task.initial(), rows, told, course, stream(1)))


def test_rows_may_be_made_step_by_step_from_the_students_weights():
    task, met = task_of(), []

    def made(step, w):
        met.append((step, w.clone()))
        return rows_of(4, seed=step)

    teacher = Teachers([Member(task, task.initial(1))])
    student = distil(task, task.initial(), made, teacher, Course(batches=3), stream())
    assert [step for step, _ in met] == [0, 1, 2]
    assert torch.equal(met[0][1], task.initial())
    assert not torch.equal(met[2][1], met[1][1])
    assert not any(w.requires_grad for _, w in met)
    assert student.shape == task.initial().shape


def test_gradients_reach_rows_that_are_made_also_where_the_net_is_compiled():
    task = task_of()

    def slope():
        x = rows_of().x.requires_grad_()
        told = Teachers([Member(task, task.initial())])(replace(rows_of(), x=x))
        return torch.autograd.grad(told.square().sum(), x)[0]

    expected = slope()
    seen = []
    task.operation = lambda w, x: seen.append(x) or (x[:, :CLASSES] * w.sum(), x)  # not the net's gradient
    assert torch.equal(slope(), expected)
    assert not seen
    assert float(expected.abs().sum()) > 0


def test_no_step_is_no_change_and_a_student_that_agrees_stays():
    task, rows = task_of(), rows_of()
    w = task.initial()
    teacher = Teachers([Member(task, w)])
    assert torch.equal(distil(task, w, rows, teacher, Course(batches=0), stream()), w)
    agreed = distil(task, w, rows, teacher.logits, Course(batches=3, distance="squared"), stream())
    assert torch.equal(agreed, w)


def test_the_best_on_validation_rows_is_kept_and_patience_ends_it():
    """Wrong labels make it worse on the right ones from the first step on: the start is kept."""
    task, rows, asked = task_of(), rows_of(), []
    wrong = replace(rows, y=(rows.y + 1) % CLASSES)

    def told(batch):
        asked.append(1)
        return batch.y

    good = Course(batches=40, size=ROWS, lr=0.05, decay=False)
    w = distil(task, task.initial(), rows, rows.y, good, stream())
    course = Course(batches=60, size=ROWS, lr=0.05, decay=False, look=5, patience=10)
    assert torch.equal(distil(task, w, wrong, told, course, stream(), validation=rows), w)
    assert len(asked) == 10
    patient = replace(course, patience=0)
    assert torch.equal(distil(task, w, wrong, wrong.y, patient, stream(), validation=rows), w)
    better = distil(task, task.initial(), rows, rows.y, replace(good, look=5), stream(), validation=rows)
    assert torch.equal(better, w)


def test_running_statistics_are_used_and_left_alone():
    task = Task(lambda: NormBody().build((5,), CLASSES), dtype=torch.float64, classes=CLASSES)
    rows, kept = rows_of(), task.initial_buffers() + torch.rand(task.buffers.size, generator=stream(2))
    before = kept.clone()
    course = Course(batches=4, size=4, optimiser="sgd", lr=0.1)
    one = distil(task, task.initial(), rows, rows.y, course, stream(), buffers=kept)
    assert torch.equal(kept, before)
    other = distil(task, task.initial(), rows, rows.y, course, stream())
    assert not torch.allclose(one, other, atol=1e-6)
    single = distil(task, task.initial(), rows, rows.y, replace(course, size=1), stream(), buffers=kept)
    assert torch.isfinite(single).all()  # a batch of one row has no statistics of its own


def test_frozen_layers_stay_and_the_type_is_that_of_the_start():
    def make():
        net = MODELS.build("mlp(4)").build((5,), CLASSES)
        net.head.requires_grad_(False)
        return net

    task, rows = Task(make, dtype=torch.float32), rows_of(dtype=torch.float32)
    student = distil(task, task.initial(), rows, rows.y, Course(batches=2), stream())
    assert student.dtype == torch.float32
    assert len(student) == task.size < task_of().size
    assert not student.requires_grad


def test_rows_to_stop_by_are_none_of_those_to_learn_from():
    rows = rows_of(40)
    learnt, stops = split(rows, 0.25, stream())
    assert (len(learnt.y), len(stops.y)) == (30, 10)
    assert {*learnt.index.tolist(), *stops.index.tolist()} == set(range(40))
    assert split(rows, 0.0, stream()) == (rows, None)
    assert torch.equal(taken(rows, learnt.index).x, learnt.x)
    with pytest.raises(UserError, match=r"0\.01 of 40 public rows leaves none"):
        split(rows, 0.01, stream())


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("batches", -1, "a whole number from 0"),
        ("size", 0, "at least 1"),
        ("lr", 0.0, "above 0"),
        ("heat", np.inf, "above 0"),
        ("momentum", 1.0, "below 1"),
        ("weight_decay", -0.1, "at least 0"),
        ("patience", -1, "from 0"),
        ("optimiser", "rprop", "adam or sgd"),
        ("distance", "far", "scores, squared or absolute"),
    ],
)
def test_values_that_mean_nothing_are_refused(field, value, rule):
    with pytest.raises(UserError, match=f"Distillation's {field} must be .*{rule}, got {value}"):
        Course(**{field: value})


def test_scores_need_classes():
    task = task_of(objective=SquaredError())
    with pytest.raises(UserError, match=r"Scores of classes need classes.* Use distance squared\."):
        distil(task, task.initial(), rows_of(), rows_of().y, Course(batches=1), stream())
