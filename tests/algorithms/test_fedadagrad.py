from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.algorithms.test_adaptive import check_steps, fold_all, updates
from unalike.algorithms import FedAdagrad


@pytest.mark.parametrize(("server_lr", "tau"), [(0.1, 1e-3), (1.0, 0.5)])
def test_is_torchs_adagrad_on_the_mean_updates(server_lr, tau):
    servers = fold_all(FedAdagrad(server_lr=server_lr, tau=tau), updates())
    parameter = torch.nn.Parameter(servers[0]["w"].clone())
    optimiser = torch.optim.Adagrad([parameter], lr=server_lr, eps=tau, initial_accumulator_value=tau**2)
    for delta, server in zip(updates(), servers[1:], strict=True):
        parameter.grad = -delta
        optimiser.step()
        assert torch.allclose(server["w"], parameter.detach(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("beta1", [0.0, 0.8])
def test_the_second_moment_is_the_sum_of_squares(beta1):
    part = FedAdagrad(server_lr=0.3, beta1=beta1, tau=0.01)
    check_steps(part, updates(), 0.01**2 + np.cumsum(updates().numpy() ** 2, axis=0))


def test_the_second_moment_never_falls_so_steps_on_equal_updates_shrink():
    deltas = updates(1).expand(10, -1)
    servers = fold_all(FedAdagrad(), deltas)
    steps = torch.stack([(b["w"] - a["w"]).abs() for a, b in pairwise(servers)])
    assert (steps.diff(dim=0) < 0).all()
    assert all((b["v"] >= a["v"]).all() for a, b in pairwise(servers))
    assert torch.allclose(steps[-1, -1] / steps[0, -1], torch.tensor(0.1, dtype=torch.float64).sqrt(), rtol=1e-2)
