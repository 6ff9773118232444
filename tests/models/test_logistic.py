import dataclasses

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from unalike.models import Batch, Logistic, Task
from unalike.runs.check import check_algorithm
from unalike.runs.simulation import Simulation
from unalike.runs.small import distance, play, small_dataset
from unalike.runs.spec import RunSpec


def test_the_features_are_the_row_and_the_body_is_empty():
    task = Task(lambda: Logistic().build((2, 3, 4), 5))
    assert task.slices["body"] == slice(0, 0)
    assert task.slices["head"] == slice(0, 125)
    w, x = task.initial(), torch.randn(6, 2, 3, 4)
    assert torch.equal(task.join(w[task.slices["body"]], w[task.slices["head"]]), w)
    logits, features = task.forward(w, Batch(x, torch.zeros(6)))
    assert torch.equal(features, x.flatten(1))
    assert torch.allclose(logits, x.flatten(1) @ w[:120].view(5, 24).T + w[120:], atol=1e-5)


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox(mu=0.1)"])
def test_keeps_the_contract(algorithm):
    check_algorithm(algorithm, model="logistic")


def test_full_batches_reach_the_optimum():
    """One step a round on all rows is gradient descent on the pooled data: scikit-learn knows where it ends.

    Weight decay d adds d/2 ||w||^2 to the mean loss, intercepts included; scikit-learn's C is 1 / (d x rows), and
    a column of ones instead of the intercept is then regularised as ours is.
    """
    data, decay = small_dataset(), 0.05
    spec = RunSpec(
        partition="natural", model="logistic", rounds=400, steps=1, batch_size=64, lr=0.5, dtype="float64",
        optimiser=f"sgd(momentum=0, weight_decay={decay})", validation=0, held_out=0, evaluate_every=400,
    )  # fmt: skip
    found = play(Simulation(spec, data=data), 400).state.server["w"].numpy()
    ones = np.concatenate([data.x, np.ones((data.size, 1))], axis=1).astype(np.float64)
    reference = LogisticRegression(C=1 / (decay * data.size), fit_intercept=False, tol=1e-10, max_iter=10_000)
    optimum = reference.fit(ones, data.y).coef_
    assert np.allclose(found[:15].reshape(3, 5), optimum[:, :5], atol=1e-5)
    assert np.allclose(found[15:], optimum[:, 5], atol=1e-5)


def test_engines_agree_on_images():
    small = small_dataset(features=8)
    x, x_test = (rows.reshape(-1, 2, 2, 2) for rows in (small.x, small.x_test))
    data = dataclasses.replace(small, name="images", x=x, x_test=x_test)
    fields = {"partition": "natural", "model": "logistic", "epochs": 2, "batch_size": 8, "dtype": "float64"}
    states = [
        play(Simulation(RunSpec.from_mapping({**fields, "engine": engine}), data=data), 2).state.tensors()
        for engine in ("sequential", "vectorised")
    ]
    assert distance(*states)[0] < 1e-10
