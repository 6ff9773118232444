import numpy as np
import pytest
import torch

from tests.algorithms.test_adaptive import check_steps, first_moments, fold_all, updates
from unalike.algorithms import FedAdam


@pytest.mark.parametrize(("beta1", "beta2", "tau"), [(0.9, 0.99, 1e-3), (0.0, 0.5, 0.1), (0.5, 0.0, 1.0)])
def test_moments_are_decaying_means(beta1, beta2, tau):
    """v_t = beta2^t tau^2 + (1 - beta2) sum_i beta2^(t-i) Delta_i^2: a mean, whose weights sum to one."""
    decay = float(beta2) ** np.arange(1, 9)[:, None]
    check_steps(FedAdam(0.3, beta1, tau, beta2), updates(), decay * tau**2 + first_moments(updates() ** 2, beta2))


def test_is_torchs_adam_but_for_the_bias_correction():
    """torch divides m by 1 - beta1^t and v by 1 - beta2^t; undone through the rate and epsilon of one step."""
    beta1, beta2, tau, lr = 0.9, 0.99, 1e-12, 0.2
    servers = fold_all(FedAdam(lr, beta1, tau, beta2), updates())
    parameter = torch.nn.Parameter(servers[0]["w"].clone())
    optimiser = torch.optim.Adam([parameter], lr=lr, betas=(beta1, beta2), eps=tau)
    for t, (delta, server) in enumerate(zip(updates(), servers[1:], strict=True), 1):
        optimiser.param_groups[0]["lr"] = lr * (1 - beta1**t) / (1 - beta2**t) ** 0.5
        parameter.grad = -delta
        optimiser.step()
        assert torch.allclose(server["w"], parameter.detach(), rtol=0, atol=1e-6)


def test_the_same_update_again_and_again_is_a_step_of_the_servers_rate():
    deltas = updates(1).expand(1500, -1)
    servers = fold_all(FedAdam(server_lr=0.1, tau=1e-9), deltas)
    last = servers[-1]["w"] - servers[-2]["w"]
    assert torch.allclose(last, 0.1 * torch.sign(deltas[0]), rtol=1e-4)
