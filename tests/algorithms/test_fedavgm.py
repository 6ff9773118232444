import numpy as np
import pytest
import torch

from tests.algorithms.test_adaptive import fold_all, updates
from unalike.algorithms import FedAvgM
from unalike.runs.small import play, small_simulation


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_no_momentum_and_rate_one_are_fedavg(engine):
    fields = {"engine": engine}
    texts = ("fedavgm(momentum=0, server_lr=1)", "fedavg")
    one, other = (play(small_simulation(text, **fields), 4).state.server["w"] for text in texts)
    assert torch.equal(one, other)


@pytest.mark.parametrize(("momentum", "server_lr"), [(0.9, 1.0), (0.5, 0.3), (0.0, 2.0)])
def test_the_velocity_is_a_sum_of_decaying_updates(momentum, server_lr):
    """v_t = sum_i momentum^(t-i) Delta_i, and w_t = w_0 + server_lr sum_t v_t."""
    servers, deltas = fold_all(FedAvgM(momentum, server_lr), updates()), updates().numpy()
    w = servers[0]["w"].numpy()
    for t in range(1, len(servers)):
        velocity = sum(momentum ** (t - i) * deltas[i - 1] for i in range(1, t + 1))
        w = w + server_lr * velocity
        assert np.allclose(servers[t]["velocity"], velocity, rtol=1e-12)
        assert np.allclose(servers[t]["w"], w, rtol=1e-12)


def test_is_torchs_momentum():
    servers = fold_all(FedAvgM(0.9, 0.3), updates())
    parameter = torch.nn.Parameter(servers[0]["w"].clone())
    optimiser = torch.optim.SGD([parameter], lr=0.3, momentum=0.9)
    for delta, server in zip(updates(), servers[1:], strict=True):
        parameter.grad = -delta
        optimiser.step()
        assert torch.allclose(server["w"], parameter.detach(), rtol=0, atol=1e-12)


def test_the_same_update_again_and_again_is_taken_one_over_one_less_momentum_times():
    deltas = updates(1).expand(200, -1)
    servers = fold_all(FedAvgM(momentum=0.9), deltas)
    assert torch.allclose(servers[-1]["w"] - servers[-2]["w"], 10 * deltas[0], rtol=1e-6)
