"""FedCurv does what its paper says."""

import pytest
import torch
from torch.nn import functional

from tests.helpers import ENGINES, EVERY_ENGINE, one_round, quadratic_federation, rounds_by_hand
from unalike.algorithms import FedCurv, fedcurv
from unalike.algorithms.contract import Party
from unalike.errors import UserError
from unalike.rounds.optimisers import Sgd
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

CENTRES, CURVATURES = [[1.0, 2.0], [-1.0, 0.5], [3.0, -2.0]], [0.5, 1.0, 2.0]
C, A = torch.tensor(CENTRES, dtype=torch.float64), torch.tensor(CURVATURES, dtype=torch.float64)[:, None]


def party_of(task, received, state):
    """Party 0 with ten rows, in float64."""
    ten = torch.tensor(10.0, dtype=torch.float64)
    key = torch.tensor(0)
    return Party(task, received, state, key, ten, ten, 0.1, Sgd(), key)


@EVERY_ENGINE
def test_without_the_penalty_it_is_fedavg_to_the_bit(engine):
    one, other = (play(small_simulation(text, engine=engine), 3) for text in ("fedcurv(lam=0)", "fedavg"))
    assert torch.equal(one.state.server["w"], other.state.server["w"])


@EVERY_ENGINE
def test_the_first_round_is_fedavgs_as_nobody_has_learnt_anything(engine):
    one, two = (small_simulation(text, engine=engine) for text in ("fedcurv(lam=5)", "fedavg"))
    assert torch.equal(play(one, 1).state.server["w"], play(two, 1).state.server["w"])
    assert not torch.equal(play(one, 1).state.server["w"], play(two, 1).state.server["w"])


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_the_servers_sums_are_those_of_all_parties_absent_ones_too(engine):
    simulation = play(small_simulation("fedcurv", engine=engine, dtype="float64"), 4)
    server, states = simulation.state.server, simulation.state.parties
    assert len(set(simulation.cohort(4))) < len(states)
    for key in ("fisher", "anchor"):
        total = sum(state[key] for state in states.values())
        assert torch.allclose(server[key], total, atol=1e-12)
        assert total.abs().max() > 1e-3
    assert all(bool((state["fisher"] >= 0).all()) for state in states.values())


def test_the_gradient_is_that_of_the_papers_penalty():
    """By finite differences of lam sum_{j != 0} (w - w_j)^T F_j (w - w_j)."""
    torch.manual_seed(0)
    f, ends = torch.rand(4, 5, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64)
    x, w = torch.randn(2, 5, dtype=torch.float64)
    algorithm, lam = FedCurv(lam=0.7), 0.7
    sums = {"w": x, "fisher": f.sum(dim=0), "anchor": (f * ends).sum(dim=0)}
    me = party_of(None, sums, {"fisher": f[0], "anchor": f[0] * ends[0]})

    def penalty(v):
        return lam * sum((f[j] * (v - ends[j]) ** 2).sum() for j in (1, 2, 3))

    steps = 1e-5 * torch.eye(5, dtype=torch.float64)
    expected = torch.stack([(penalty(w + step) - penalty(w - step)) / 2e-5 for step in steps])
    strength, centre = algorithm.proximal(me)
    assert torch.allclose(strength * (w - centre) + algorithm.linear(me), expected, atol=1e-8)


@ENGINES
def test_parties_minimise_their_loss_and_the_penalty(engine):
    """On a/2 ||w - c||^2 that is at (a c + 2 lam B) / (a + 2 lam A), weight by weight, and F is a^2 (w - c)^2."""
    lam, federation = 0.3, quadratic_federation(CENTRES, CURVATURES, (4, 4, 4))
    how = {"work": LocalWork(4, steps=4), "lr": 0.1, "engine": engine}
    rounds = rounds_by_hand(FedCurv(lam=lam), federation, rounds=1, **how)
    server, states = next(rounds)
    f = torch.stack([states[k]["fisher"] for k in range(3)])
    ends = C - (1 - 0.1 * A) ** 4 * C
    assert torch.allclose(f, A**2 * (ends - C) ** 2, atol=1e-12)
    assert torch.allclose(server["fisher"], f.sum(dim=0), atol=1e-12)
    assert torch.allclose(server["anchor"], (f * ends).sum(dim=0), atol=1e-12)
    kept = dict(states)
    one_round(FedCurv(lam=lam), federation, server, kept, **how | {"work": LocalWork(4, steps=300)})
    others, anchor = f.sum(dim=0) - f, (f * ends).sum(dim=0) - f * ends
    expected = (A * C + 2 * lam * anchor) / (A + 2 * lam * others)
    reached = torch.stack([kept[k]["anchor"] / kept[k]["fisher"] for k in range(3)])
    assert torch.allclose(reached, expected, atol=1e-8)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize("block", [1, 150, 2**20])
def test_the_fisher_information_of_a_logistic_model(engine, block):
    """The gradient of row (x, y) is (p - onehot(y)) x^T and p - onehot(y): squared row by row, then averaged."""
    fields = {"engine": engine, "dtype": "float64", "model": "logistic", "sample": 1.0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fedcurv, "BLOCK_NUMBERS", block)
        simulation = play(small_simulation("fedcurv", **fields), 1)
    rows, task = simulation.federation.train, simulation.task
    for number, state in simulation.state.parties.items():
        x, y = rows.take(torch.from_numpy(simulation.federation.parties[number].train))
        weight, bias = task.parameters.unflatten(state["anchor"] / state["fisher"]).values()
        error = torch.softmax(x @ weight.T + bias, dim=1) - functional.one_hot(y, 3)
        expected = torch.cat([(error[:, :, None] * x[:, None]).flatten(1), error], dim=1) ** 2
        assert torch.allclose(state["fisher"], expected.mean(dim=0), atol=1e-10)


def test_rounding_never_makes_a_strength_negative():
    task = small_simulation("fedcurv").task
    tiny = {"fisher": torch.tensor([0.3]), "anchor": torch.tensor([0.1])}
    own = {**tiny, "fisher": tiny["fisher"] + 1e-7}
    strength, _ = FedCurv().proximal(party_of(task, {"w": torch.zeros(1), **tiny}, own))
    assert strength.item() == 0


def test_batch_norm_without_statistics_is_refused_as_it_cannot_take_rows_one_by_one():
    with pytest.raises(UserError, match=r"FedCurv looks at rows one by one.*Use --batch-norm average or local"):
        play(small_simulation("fedcurv", model="test-norm-body", batch_size=64, batch_norm="drop"), 1)


def test_a_negative_lam_is_refused():
    with pytest.raises(UserError, match=r"FedCurv.lam must be >= 0, got -1.0. Use 0 for FedAvg"):
        small_simulation("fedcurv(lam=-1)")
