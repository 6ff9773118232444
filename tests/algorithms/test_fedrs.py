"""FedRS: the restricted softmax by hand, FedAvg at its ends, and the same in one compiled call."""

import numpy as np
import pytest
import torch

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
from tests.engines.compiled.helpers import NEEDS_COMPILER
from tests.helpers import EVERY_ENGINE, regression_data
from unalike.algorithms import FedAvg, FedRs
from unalike.errors import UserError
from unalike.runs.small import play, small_simulation


def labelled():
    """A task of three classes, and a party that has the first and the last."""
    task = small_task()
    task.classes = 3
    batch, x, y = some_rows()
    batch.y[batch.y == 1] = 2
    y[y == 1] = 2
    measured = {"labels": torch.tensor([0.3, 0.0, 0.7], dtype=torch.float64)}
    return task, batch, x, y, a_party(task, {}, measured=measured)


def test_the_loss_is_equation_8_and_its_gradient_equals_finite_differences():
    task, batch, x, y, party = labelled()

    def by_hand(w):
        layers = layers_of(task, w)
        z = features_by_hand(task, w, x) @ layers["head.weight"].T + layers["head.bias"]
        raised = np.exp(z * np.array([1, 0.25, 1]))
        return -np.log(raised[np.arange(len(y)), y] / raised.sum(axis=1)).mean()

    w = task.initial() + 0.3 * random(task.size, seed=3)
    check_loss(FedRs(alpha=0.25), party, w, batch, by_hand)


def test_the_push_on_an_absent_class_grows_with_alpha_from_nothing():
    task, batch, _, _, party = labelled()
    w, head = task.initial() + 0.3 * random(task.size, seed=3), task.slices["head.weight"]
    still, half, plain = (
        gradient(FedRs(alpha=alpha), party, w, batch)[1][head].reshape(3, -1)[1].norm() for alpha in (0, 0.5, 1)
    )
    assert still == 0
    assert 0 < half < plain
    assert torch.equal(gradient(FedRs(alpha=1), party, w, batch)[1], gradient(FedAvg(), party, w, batch)[1])


def test_labels_are_counted_over_real_rows_alone():
    task, (batch, _, y) = small_task(), some_rows(padding=3)
    task.classes = 3
    found = FedRs().measure(a_party(task, {}), batch)["labels"]
    assert torch.allclose(found, torch.tensor(np.bincount(y, minlength=3) / len(y)))


@EVERY_ENGINE
def test_alpha_one_is_fedavg_to_the_bit_and_half_is_not(engine):
    fields = {"engine": engine, "partition": "label-count(1)", "parties": 6}
    whole, half, plain = (
        play(small_simulation(text, **fields), 3).state.server["w"]
        for text in ("fedrs(alpha=1)", "fedrs(alpha=0.5)", "fedavg")
    )
    assert torch.equal(whole, plain)
    assert not torch.allclose(half, plain, atol=1e-3)


@NEEDS_COMPILER
def test_it_trains_whole_in_the_kernels():
    from unalike.engines.compiled.engine import trains_whole

    simulation = small_simulation("fedrs", engine="compiled")
    assert trains_whole(simulation.task, simulation.algorithm, simulation.recipe.optimiser)


def test_it_costs_no_byte_more_than_fedavg():
    rows = [small_simulation(text).play_round()[1] for text in ("fedrs", "fedavg")]
    assert rows[0]["traffic"] == rows[1]["traffic"]


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_alpha_is_a_fraction(alpha):
    with pytest.raises(UserError, match="alpha must be from 0 to 1"):
        FedRs(alpha=alpha)


@pytest.mark.parametrize("name", ["fedrs", "fedaws"])
def test_numbers_to_predict_are_refused(name):
    from unalike.runs.simulation import Simulation
    from unalike.runs.spec import RunSpec

    spec = RunSpec(algorithm=name, partition="iid", parties=3)
    with pytest.raises(UserError, match=f"{name} is for classes"):
        Simulation(spec, data=regression_data())
