"""What objectives declare beside the task's loss: teaching, and all together. rFedAvg and MOON test their own."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.algorithms.regularised import (
    a_party,
    check_loss,
    features_by_hand,
    gradient,
    layers_of,
    loss_by_hand,
    random,
    small_task,
    some_rows,
)
from tests.helpers import ENGINES as HERE
from tests.helpers import EVERY_ENGINE, PROBE, NormBody, probe
from unalike.algorithms import Algorithm, Phase
from unalike.errors import UserError
from unalike.runs.check import check_algorithm
from unalike.runs.small import play, small_simulation

assert HERE


class Taught(Algorithm):
    """FedAvg with the terms that it is made with."""

    def __init__(self, **terms):
        for name, value in terms.items():
            object.__setattr__(self, name, lambda party, value=value: value)


def logits_by_hand(task, w, x):
    layers = layers_of(task, w)
    return features_by_hand(task, w, x) @ layers["head.weight"].T + layers["head.bias"]


def scores(logits, heat):
    raised = np.exp(logits / heat - (logits / heat).max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("by", ["model", "table"])
def test_teaching_is_the_divergence_by_hand(by, padding):
    """lam heat^2 sum_k p_k log(p_k / q_k), the mean over rows; a table is read at the rows' own places."""
    task, (batch, x, y) = small_task(), some_rows(padding)
    place = torch.arange(len(batch.y)).flip(0) + 2
    batch = replace(batch, index=place)
    teacher = task.initial(1) + 0.3 * random(task.size, seed=8) if by == "model" else 2 * random(20, 3, seed=8)

    def by_hand(w):
        fixed = teacher[place[: len(y)]].numpy() if by == "table" else logits_by_hand(task, teacher, x)
        p, q = scores(fixed, 1.7), scores(logits_by_hand(task, w, x), 1.7)
        return loss_by_hand(task, w, x, y) + 0.6 * 1.7**2 * (p * np.log(p / q)).sum(axis=1).mean()

    w = task.initial() + 0.3 * random(task.size, seed=3)
    check_loss(Taught(teach=(0.6, 1.7, teacher)), a_party(task, {}), w, batch, by_hand)


def test_a_teacher_is_not_taught():
    task, (batch, _, _) = small_task(), some_rows()
    for teacher in (task.initial(1).requires_grad_(), random(7, 3).requires_grad_()):
        w = task.initial().requires_grad_()
        rows = replace(batch, index=torch.arange(7))
        value = Taught(teach=(1.0, 1.0, teacher)).loss(a_party(task, {}), w, rows)
        grads = torch.autograd.grad(value, [w, teacher], allow_unused=True)
        assert grads[0].norm() > 0
        assert grads[1] is None


def test_who_agrees_with_the_teacher_stays():
    task, (batch, _, _) = small_task(), some_rows()
    w = task.initial()
    value, found = gradient(Taught(teach=(3.0, 2.0, w)), a_party(task, {}), w, batch)
    plain, expected = gradient(Algorithm(), a_party(task, {}), w, batch)
    assert value == pytest.approx(plain, abs=1e-12)
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


def test_terms_are_added():
    task, (batch, _, _) = small_task(), some_rows()
    w, party = task.initial() + 0.3 * random(task.size, seed=3), a_party(task, {})
    terms = {
        "near": (0.5, random(4, seed=9)),
        "teach": (0.6, 1.7, task.initial(1)),
        "contrast": (0.3, 0.5, task.initial(2), task.initial(3)),
        "proximal": (0.2, task.initial(4)),
    }
    plain, slope = gradient(Algorithm(), party, w, batch)
    each = [gradient(Taught(**{name: term}), party, w, batch) for name, term in terms.items()]
    value, found = gradient(Taught(**terms), party, w, batch)
    assert value - plain == pytest.approx(sum(one - plain for one, _ in each), abs=1e-12)
    assert torch.allclose(found - slope, sum(one - slope for _, one in each), rtol=0, atol=1e-12)


def test_a_teacher_leaves_the_running_statistics_alone():
    assert NormBody
    own = {"fold": Algorithm.fold, "upload": Algorithm.upload}
    probe(**own, teach=lambda self, party: (0.0, 1.0, party.received["w"]))
    fields = {"model": "test-norm-body", "batch_size": 64, "dtype": "float64", "held_out": 0, "validation": 0}
    taught, plain = (play(small_simulation(text, **fields), 3).state for text in (PROBE, "fedavg"))
    assert torch.equal(taught.buffers, plain.buffers)


@EVERY_ENGINE
def test_beside_a_second_model_terms_are_of_the_first(engine):
    """APFL's mixture with a teacher: no kernel knows both, and the answer is that of the declaration."""
    methods = {
        "fold": Algorithm.fold,
        "init_party": lambda self, task, w: {"v": w},
        "start": lambda self, party: torch.cat([party.received["w"], party.state["v"]]),
        "beside": lambda self, party: 0.5,
        "upload": lambda self, party, w: (
            {"delta": w[: party.task.size] - party.received["w"]},
            {"v": w[party.task.size :]},
        ),
    }
    models = []
    for teach in (lambda self, party: None, lambda self, party: (2.0, 1.0, 0 * party.received["w"])):
        probe(**methods, teach=teach)
        simulation = play(small_simulation(PROBE, engine=engine, sample=1.0), 1)
        models.append((simulation.state.server["w"], simulation.state.parties[0]["v"]))
    assert not torch.allclose(models[0][0], models[1][0], atol=1e-4)
    assert not torch.equal(models[0][1], models[1][1])  # the mixture has the first model in it


@pytest.mark.parametrize(
    ("method", "value", "words"),
    [
        ("near", (1.0,), "lam .a number. and a vector"),
        ("near", (1.0, 2.0), "lam .a number. and a vector"),
        ("teach", (1.0, torch.zeros(3)), "lam and heat .numbers. and a teacher"),
        ("teach", (1.0, 1.0, torch.zeros((), dtype=torch.float32)), "lam and heat"),
        ("contrast", (1.0, 1.0, torch.zeros(3)), "mu and heat .numbers. and two vectors"),
    ],
)
def test_a_term_that_is_none_is_refused(method, value, words):
    probe(**{method: lambda self, party: value})
    with pytest.raises(UserError, match=rf"{method}.* must return None, or {words}"):
        check_algorithm(PROBE)


# --- labels ---


def relabelled(engine, **methods):
    """The parties' models after a phase on half of their rows, and one on public rows."""
    own = {
        "init_party": lambda self, task, w: {"w": w},
        "phases": lambda self, task, round: (
            Phase("own", part=(0, 2, 0)),
            Phase("public", rows="public", epochs=1),
        ),
        "start": lambda self, party: party.state["w"],
        "keep": lambda self, party, w: {"w": w},
        "upload": lambda self, party, w: ({}, {"w": w}),
    }
    probe(**own | methods)
    fields = {"sample": 1.0, "engine": engine, "optimiser": "sgd"}
    return play(small_simulation(PROBE, **fields), 2).state.parties


@EVERY_ENGINE
def test_labels_of_an_algorithms_own_are_learnt_in_place_of_the_rows(engine):
    """As by a loss that looks them up: own rows have classes by their place, public ones class 0."""

    def labels(self, party):
        rows = torch.arange(64)
        return rows % 3 if party.phase == "own" else rows[: len(party.task.public.y)] * 0

    def loss(self, party, w, batch):
        label = batch.index % 3 if party.phase == "own" else batch.index * 0
        return party.task.loss(w, replace(batch, y=label))

    declared, written, plain = (relabelled(engine, **more) for more in ({"labels": labels}, {"loss": loss}, {}))
    for number in declared:
        assert torch.allclose(declared[number]["w"], written[number]["w"], atol=1e-6)
        assert not torch.allclose(declared[number]["w"], plain[number]["w"], atol=1e-3)
