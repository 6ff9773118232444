import numpy as np
import pytest
import torch

from tests.helpers import ENGINES, fixed_point, one_round, optimum, quadratic_federation, rounds_by_hand
from unalike.algorithms import FedAvg
from unalike.models import MODELS
from unalike.rounds.work import LocalWork
from unalike.runs.small import small_dataset, small_simulation

CENTRES, CURVATURES = [[1.0, -2.0], [-3.0, 0.5], [0.0, 4.0], [2.0, 2.0]], [0.5, 1.0, 1.5, 2.0]
SIZES = [8, 16, 24, 64]


def biased(lr, steps, mu=0.0):
    """FedAvg's and FedProx's fixed point, by hand.

    Party k's tau steps on a/2 ||v - c||^2 + mu/2 ||v - w||^2 go the fraction 1 - (1 - lr (a + mu))^tau of the way
    from w to (a c + mu w) / (a + mu), that is s_k = (1 - (1 - lr (a + mu))^tau) a / (a + mu) of the way to c. The
    weighted mean of these moves is zero where w is the mean of the c with weights n_k s_k.
    """
    a = np.array(CURVATURES)
    s = (1 - (1 - lr * (a + mu)) ** np.array(steps)) * a / (a + mu)
    return torch.tensor(np.average(CENTRES, axis=0, weights=np.array(SIZES) * s))


@ENGINES
@pytest.mark.parametrize(
    ("work", "steps"), [(LocalWork(8, epochs=1), [1, 2, 3, 8]), (LocalWork(8, steps=10), [10] * 4)]
)
def test_ends_in_its_own_biased_fixed_point_and_not_in_the_optimum(engine, work, steps):
    federation = quadratic_federation(CENTRES, CURVATURES, SIZES)
    expected = biased(0.1, steps)
    assert torch.allclose(
        fixed_point(FedAvg(), federation, work=work, lr=0.1, engine=engine), expected, atol=1e-10
    )
    *_, (server, _) = rounds_by_hand(FedAvg(), federation, rounds=60, work=work, lr=0.1, engine=engine)
    assert torch.allclose(server["w"], expected, rtol=0, atol=1e-6)
    assert (expected - optimum(CENTRES, CURVATURES, SIZES)).norm() > 0.1


@ENGINES
def test_one_step_is_gradient_descent_on_the_whole(engine):
    """FedSGD: with one step over all rows there is no drift, and the optimum is reached."""
    federation = quadratic_federation(CENTRES, CURVATURES, SIZES)
    how = {"work": LocalWork(64, epochs=1), "lr": 0.3, "engine": engine}
    *_, (server, _) = rounds_by_hand(FedAvg(), federation, rounds=50, **how)
    assert torch.allclose(server["w"], optimum(CENTRES, CURVATURES, SIZES), rtol=0, atol=1e-8)


def test_one_party_is_gradient_descent():
    federation = quadratic_federation([[2.0, 2.0]], [1.0], [3])
    server = {"w": torch.zeros(2, dtype=torch.float64)}
    after = one_round(FedAvg(), federation, server, {}, work=LocalWork(3, steps=1), lr=0.25)
    assert after["w"].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_a_round_over_whole_parties_is_plain_pytorch(engine):
    """Three steps over all rows of four of the six parties: torch.optim.SGD on nn.Modules, averaged by size."""
    fields = {"batch_size": 64, "epochs": 3, "public": 0, "engine": engine, "dtype": "float64"}
    simulation = small_simulation("fedavg", **fields)
    data, total, rows = small_dataset(), 0.0, 0
    for number in simulation.cohort(1):
        net = MODELS.build("mlp(6,4)").build((5,), 3).double()
        layers = simulation.task.parameters.unflatten(simulation.initial.clone())
        net.load_state_dict(layers)
        optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        own = simulation.federation.parties[number].train
        x, y = torch.from_numpy(data.x[own]).double(), torch.from_numpy(data.y[own])
        for _ in range(3):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(x)[0], y).backward()
            optimiser.step()
        total = total + len(own) * torch.cat([p.detach().reshape(-1) for p in net.parameters()])
        rows += len(own)
    after, _ = simulation.play_round()
    assert torch.allclose(after.server["w"], total / rows, rtol=0, atol=1e-12)
