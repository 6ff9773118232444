"""Mixup's loss in plain PyTorch, its partners, and the distribution of its shares."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional

from unalike.algorithms.data.mixing import symmetric_beta
from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.runs.small import small_simulation


@pytest.mark.parametrize("alpha", [0.2, 0.5, 1.0, 4.0])
def test_shares_are_from_the_symmetric_beta(alpha):
    uniform = torch.from_numpy(np.random.default_rng(1).random((2, 4000)))
    drawn = symmetric_beta(uniform, alpha).numpy()
    assert stats.kstest(drawn, stats.beta(alpha, alpha).cdf).pvalue > 0.01
    assert torch.isfinite(symmetric_beta(torch.tensor([0.0, 0.3]), alpha))
    assert torch.isfinite(symmetric_beta(torch.tensor([1.0 - 2**-24, 0.5]), alpha))


def one_batch(rows=None, step=0):
    """The model, and nine rows of which ``rows`` are real: the first ones."""
    simulation = small_simulation("mixup", dtype="float64", engine="sequential")
    x, y = simulation.federation.train.take(torch.arange(9))
    mask = None if rows is None else (torch.arange(9) < rows).to(x.dtype)
    return simulation, Batch(x, y, mask, training=True, step=step, key=torch.tensor(3))


@pytest.mark.parametrize("rows", [None, 6, 1])
@pytest.mark.parametrize("step", [0, 5])
def test_the_loss_is_that_of_mixed_rows_and_labels(rows, step):
    """For one share, wherever it lies: the share is found from the loss of one pair alone."""
    simulation, batch = one_batch(rows, step)
    task, w, count = simulation.task, simulation.initial, rows or 9
    lam = symmetric_beta(torch.stack([batch.uniform(1, 0)[0], batch.uniform(1, 1)[0]]), 1.0)
    x, y = batch.x[:count], functional.one_hot(batch.y[:count], 3).double()
    mixed, shares = ((1 - lam) * v + lam * v.roll(-1, dims=0) for v in (x, y))
    logits = task.logits(w, replace(batch, x=mixed, mask=None))
    expected = functional.cross_entropy(logits, shares)
    assert torch.allclose(simulation.algorithm.loss(OnlyATask(task), w, batch), expected, atol=1e-12)


class OnlyATask:
    """All that Mixup looks at of a party."""

    def __init__(self, task):
        self.task = task


def test_every_step_draws_another_share():
    values = {float(one_batch(step=step)[1].uniform(1)) for step in range(5)}
    assert len(values) == 5
    assert all(0 <= value < 1 for value in values)


def test_a_batch_outside_of_training_has_no_random_numbers():
    with pytest.raises(UserError, match=r"batch.uniform is there in training only"):
        Batch(torch.zeros(1, 2), torch.zeros(1)).uniform(1)


@pytest.mark.parametrize("alpha", [0, -1.0])
def test_a_share_that_cannot_be_drawn_is_refused(alpha):
    with pytest.raises(UserError, match=r"Mixup.alpha must be above 0"):
        small_simulation(f"mixup(alpha={alpha})")
