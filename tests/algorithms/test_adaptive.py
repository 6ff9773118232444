"""What FedAdagrad, FedAdam and FedYogi share, and how server steps are tried without parties."""

import numpy as np
import pytest
import torch

from tests.algorithms.regularised import random
from unalike.algorithms import ALGORITHMS, FedAdagrad, FedAdam, FedYogi, Replies
from unalike.runs.small import play, small_simulation

FAMILY = pytest.mark.parametrize("cls", [FedAdagrad, FedAdam, FedYogi])


def updates(count=8, seed=0):
    """Mean updates of several sizes, coordinate by coordinate."""
    return random(count, 6, seed=seed) * torch.tensor([1e-3, 0.1, 0.5, 1.0, 3.0, 20.0], dtype=torch.float64)


def fold_all(algorithm, deltas, start=None):
    """The server after each mean update; the sums are those of parties that weigh 40 together."""
    w = random(deltas.shape[1], seed=9) if start is None else start
    servers = [algorithm.init_server(None, w)]
    for delta in deltas:
        replies = Replies({"delta": 40 * delta}, {}, 40.0, 3, 5, torch.zeros(0))
        servers.append(algorithm.fold(None, servers[-1], replies))
    return servers


def first_moments(deltas, beta):
    """m_t = (1 - beta) sum_i beta^(t-i) Delta_i, without recursion."""
    count = np.arange(len(deltas))
    powers = np.tril((1 - beta) * float(beta) ** np.maximum(count[:, None] - count, 0))
    return powers @ deltas.numpy()


def check_steps(algorithm, deltas, seconds):
    """w moves by server_lr m_t / (sqrt(v_t) + tau), for the given v_t; the moments are what they should be."""
    servers, m = fold_all(algorithm, deltas), first_moments(deltas, algorithm.beta1)
    for t in range(len(deltas)):
        assert np.allclose(servers[t + 1]["m"], m[t], rtol=1e-10, atol=1e-14)
        assert np.allclose(servers[t + 1]["v"], seconds[t], rtol=1e-10, atol=1e-14)
        moved = (servers[t + 1]["w"] - servers[t]["w"]).numpy()
        expected = algorithm.server_lr * m[t] / (np.sqrt(seconds[t]) + algorithm.tau)
        assert np.allclose(moved, expected, rtol=1e-8, atol=1e-12)


@FAMILY
def test_starts_at_the_least_adaptivity(cls):
    server = cls(tau=0.3).init_server(None, torch.zeros(3, dtype=torch.float64))
    assert torch.allclose(server["v"], torch.full((3,), 0.09, dtype=torch.float64))
    assert not server["m"].any()


@FAMILY
def test_a_large_tau_is_scaled_fedavg(cls):
    """Without momentum, the step times tau / server_lr tends to the mean update."""
    for tau, tolerance in ((1e3, 0.06), (1e6, 1e-4)):
        part = cls(server_lr=2.0, beta1=0.0, tau=tau) if cls is FedAdagrad else cls(2.0, 0.0, tau, 0.0)
        before, after = fold_all(part, updates(1))
        scaled = (after["w"] - before["w"]) * (tau + before["v"].sqrt() * (cls is not FedAdam)) / 2.0
        assert torch.allclose(scaled, updates(1)[0], rtol=tolerance)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_fedadam_as_fedavg_in_a_run(engine):
    """Betas zero and server_lr = tau large: FedAvg, by size and with absent parties."""
    fields = {"engine": engine, "dtype": "float64"}
    texts = ("fedadam(server_lr=1e8, beta1=0, tau=1e8, beta2=0)", "fedavg")
    one, other = (play(small_simulation(text, **fields), 4).state.server["w"] for text in texts)
    assert torch.allclose(one, other, rtol=0, atol=1e-7)


@FAMILY
def test_a_small_tau_forgets_the_scale(cls):
    """Updates ten times as large move the weights as far: only directions over time count."""
    part = cls(tau=1e-15)
    one, other = (
        fold_all(part, factor * updates(), torch.zeros(6, dtype=torch.float64))[-1] for factor in (1, 10)
    )
    assert torch.allclose(one["w"], other["w"], rtol=1e-6)


@FAMILY
def test_the_moments_stay_on_the_server(cls):
    name = ALGORITHMS.describe(cls()).split("(")[0]
    _, row = small_simulation(name).play_round()
    assert set(row["traffic"]["down"]) == {"w"}
    assert set(row["traffic"]["up"]) == {"delta"}
