import numpy as np
import pytest
import torch

from tests.algorithms.test_adaptive import check_steps, fold_all, updates
from unalike.algorithms import FedAdam, FedYogi


@pytest.mark.parametrize(("beta1", "beta2", "tau"), [(0.9, 0.99, 1e-3), (0.0, 0.5, 0.5), (0.5, 0.9, 2.0)])
def test_moments_by_hand(beta1, beta2, tau):
    """Line 12, number by number."""
    squares, v = updates().numpy() ** 2, np.full(6, tau**2)
    seconds = []
    for square in squares:
        for i in range(6):
            change = (1 - beta2) * square[i]
            v[i] = v[i] - change if v[i] > square[i] else v[i] + change
        seconds.append(v.copy())
    assert (np.diff(seconds, axis=0) > 0).any()
    check_steps(FedYogi(0.3, beta1, tau, beta2), updates(), seconds)


def test_the_second_moment_moves_by_a_fixed_share_of_the_update_towards_it():
    part = FedYogi(tau=0.7, beta2=0.9)
    servers, deltas = fold_all(part, updates(20)), updates(20)
    for before, after, square in zip(servers, servers[1:], deltas**2, strict=False):
        moved = after["v"] - before["v"]
        assert torch.allclose(moved.abs(), 0.1 * square, rtol=1e-9, atol=1e-14)
        assert (moved.sign() == (square - before["v"]).sign()).all()


def test_a_second_moment_that_is_the_square_stays():
    deltas = torch.full((3, 2), 0.5, dtype=torch.float64)
    for server in fold_all(FedYogi(tau=0.5), deltas):
        assert server["v"].tolist() == [0.25, 0.25]
        assert torch.isfinite(server["w"]).all()


def test_falls_more_slowly_than_adam_after_a_large_update():
    """The paper's reason for Yogi: v does not forget at once."""
    deltas = torch.full((30, 1), 0.01, dtype=torch.float64)
    deltas[0] = 10.0
    yogi, adam = (fold_all(cls(beta2=0.9), deltas) for cls in (FedYogi, FedAdam))
    assert adam[-1]["v"] < 0.1 * adam[1]["v"]
    assert yogi[-1]["v"] > 0.99 * yogi[1]["v"]
    assert torch.allclose(yogi[1]["v"], adam[1]["v"], rtol=1e-4)
