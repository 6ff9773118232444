"""FedAwS: the loss by hand, rows that never come closer, and rows that only those move who have the class."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.regularised import (
    a_party,
    check_loss,
    features_by_hand,
    gradient,
    layers_of,
    random,
    small_task,
    some_rows,
)
from unalike.algorithms import FedAws, Replies
from unalike.algorithms.fedaws import class_rows, least_distance, spread, unit, with_rows
from unalike.errors import UserError
from unalike.runs.small import play, small_simulation


def task_of_three():
    task = small_task()
    task.classes = 3
    return task


def start_of(task):
    """Weights whose features are positive, so that none is zero."""
    w = task.initial() + 0.3 * random(task.size, seed=3)
    for layer in ("body.0.bias", "body.2.bias"):
        w[task.slices[layer]] += 2
    return w


@pytest.mark.parametrize("padding", [0, 3])
def test_the_loss_is_the_papers_and_its_gradient_equals_finite_differences(padding):
    task, (batch, x, y) = task_of_three(), some_rows(padding)

    def by_hand(w):
        z, rows = features_by_hand(task, w, x), layers_of(task, w)["head.weight"][y]
        cosines = (z * rows).sum(axis=1) / np.linalg.norm(z, axis=1) / np.linalg.norm(rows, axis=1)
        return (np.maximum(0.9 - cosines, 0) ** 2).mean()

    check_loss(FedAws(), a_party(task, {}), start_of(task), batch, by_hand)


def test_rows_of_other_classes_have_no_gradient_and_fixed_ones_none_at_all():
    task, (batch, _, _) = task_of_three(), some_rows()
    batch.y[:] = 2
    for how, moved in (("trained", [False, False, True]), ("fixed", [False] * 3)):
        found = gradient(FedAws(rows=how), a_party(task, {}), start_of(task), batch)[1]
        assert (class_rows(task, found).norm(dim=1) > 0).tolist() == moved
        assert found[task.slices["head.bias"]].norm() == 0
        assert found[task.slices["body"]].norm() > 0


@given(st.integers(2, 8), st.integers(1, 5), st.floats(0, 2), st.floats(0, 10), st.integers(0, 99))
def test_the_least_distance_never_falls_up_to_the_margin(classes, features, margin, rate, seed):
    rows = unit(random(classes, features, seed=seed) + 1)
    after = spread(rows, margin, rate)
    assert least_distance(after, margin) >= least_distance(rows, margin)
    assert torch.allclose(after.norm(dim=1), torch.ones(classes, dtype=torch.float64))


def test_rows_that_are_apart_stay_and_close_ones_part():
    apart = torch.eye(4, 6, dtype=torch.float64)
    for margin in (0.5, 1.0):
        assert torch.equal(spread(apart, margin, 0.1), apart)
    close = unit(torch.eye(4, 6, dtype=torch.float64) + 0.5)
    for _ in range(200):
        close = spread(close, 1.0, 0.1)
    assert least_distance(close, 1.0) == pytest.approx(1.0, abs=1e-3)


def test_a_step_is_that_of_the_regulariser():
    """Against torch's autograd of reg(W) with d(u, v) = 1 - u . v, then back to length 1."""
    rows = unit(random(3, 5, seed=4) + 0.8)
    leaf = rows.clone().requires_grad_()
    regulariser = sum(
        (1.2 - 1 + leaf[a].dot(leaf[b])).clamp(min=0) ** 2 for a in range(3) for b in range(3) if a != b
    )
    (found,) = torch.autograd.grad(regulariser, leaf)
    assert torch.allclose(spread(rows, 1.2, 0.05), unit(rows - 0.05 * found), rtol=0, atol=1e-12)


def test_a_class_that_nobody_has_keeps_its_row():
    task = task_of_three()
    algorithm = FedAws(margin=0.0)
    server = algorithm.init_server(task, start_of(task))
    sums = {
        "delta": 7.0 * random(task.size, seed=5),
        "labels": 7.0 * torch.tensor([1.0, 0.0, 0.5], dtype=torch.float64),
    }
    sums["delta"][task.slices["head.weight"]].reshape(3, -1)[1] = 0
    replies = Replies(sums, {}, weight=7.0, size=2, population=2, buffers=torch.zeros(0))
    before, after = (class_rows(task, w) for w in (server["w"], algorithm.fold(task, server, replies)["w"]))
    assert torch.allclose(after[1], before[1], rtol=0, atol=1e-12)
    assert torch.isfinite(after).all()
    assert not torch.allclose(after[0], before[0], atol=1e-3)


def test_each_row_is_the_mean_of_those_who_have_its_class():
    """Without a spread; by hand from single uploads: a party alone in its class has its own row there."""
    fields = {"dtype": "float64", "partition": "label-count(1)", "parties": 6, "sample": 1.0}
    simulation = small_simulation("fedaws(steps=0)", **fields)
    before, federation = simulation.state.server["w"], simulation.federation
    task = simulation.task
    uploads = {}
    receiver = simulation.receiver.add

    def watched(orders, replies):
        replies = list(replies)
        uploads.update(
            {r.party: (r.message.vectors["delta"] / r.message.weight, r.message.weight) for r in replies}
        )
        return receiver(orders, replies)

    object.__setattr__(simulation.receiver, "add", watched)
    after = play(simulation, 1).state.server["w"]
    for label in range(task.classes):
        own = [k for k in uploads if label in federation.dataset.y[federation.parties[k].train]]
        weights = torch.tensor([uploads[k][1] for k in own], dtype=torch.float64)
        row = class_rows(task, before)[label]
        if own:
            steps = torch.stack([class_rows(task, uploads[k][0])[label] for k in own])
            row = row + (weights[:, None] * steps).sum(0) / weights.sum()
        assert torch.allclose(class_rows(task, after)[label], row / row.norm(), atol=1e-12)
    assert after[task.slices["head.bias"]].norm() == 0


def test_scores_are_cosines_but_for_the_features_length():
    task, (batch, _, _) = task_of_three(), some_rows()
    w = with_rows(task, start_of(task), unit(class_rows(task, start_of(task))))
    scores, features = task.logits(w, batch), task.features(w, batch)
    assert torch.allclose(scores, features @ class_rows(task, w).T)
    assert torch.equal(w[task.slices["body"]], start_of(task)[task.slices["body"]])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"margin": 2.5}, "margin must be from 0 to 2"),
        ({"rate": -1.0}, "rate and steps must be 0 or more"),
        ({"steps": -1}, "rate and steps must be 0 or more"),
        ({"close": 1.5}, "close must be above -1"),
    ],
)
def test_bad_numbers(fields, words):
    with pytest.raises(UserError, match=words):
        FedAws(**fields)


def test_a_head_that_is_frozen_is_refused():
    with pytest.raises(UserError, match="one linear layer and is trained"):
        small_simulation("fedaws", freeze="head")


def test_noise_is_refused_since_the_server_divides():
    with pytest.raises(UserError, match="divides by sums"):
        small_simulation("fedaws", channel="clip(1.0)+gauss(1.0)")
