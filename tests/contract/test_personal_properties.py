"""What the papers of personalised algorithms, or arithmetic, say about them."""

import pytest
import torch
from torch import nn

from tests.contract import paper_algorithms
from tests.contract.personal_algorithms import FedAmp, PerFedAvg
from tests.helpers import ENGINES as HERE
from tests.helpers import fixed_point, optimum, quadratic_federation, rounds_by_hand
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

ENGINES = pytest.mark.parametrize("engine", ["sequential", "vectorised", "compiled"])
CENTRES, CURVATURES = [[1.0, 2.0], [-1.0, 0.5], [3.0, -2.0]], [0.5, 1.0, 2.0]
C, A = torch.tensor(CENTRES, dtype=torch.float64), torch.tensor(CURVATURES, dtype=torch.float64)[:, None]
assert paper_algorithms.NAMES  # FedDF is registered, as a base of Ditto


def parties(sizes=(4, 4, 4)):
    """Three parties, each with a quadratic of its own."""
    return quadratic_federation(CENTRES, CURVATURES, sizes)


def last(rounds):
    """What the last of some rounds gives."""
    *_, end = rounds
    return end


def kept(states, key):
    """A value that every party keeps, as a stack."""
    return torch.stack([states[k][key] for k in sorted(states)])


def alone(federation, steps, lr):
    """Where parties get that train by themselves from the run's initial weights."""
    return C + (1 - lr * A) ** steps * (federation.task.initial() - C)


# --- FedAMP ---


@HERE
def test_fedamp_without_a_pull_is_training_alone(engine):
    federation = parties()
    _, states = last(
        rounds_by_hand(FedAmp(lam=0.0), federation, rounds=3, work=LocalWork(4, steps=2), lr=0.1, engine=engine)
    )
    assert torch.allclose(kept(states, "w"), alone(federation, steps=6, lr=0.1), atol=1e-12)


@HERE
def test_fedamps_parties_minimise_their_own_loss_near_their_own_mixture(engine):
    algorithm = FedAmp(lam=0.3, alpha=0.2, sigma=2.0)
    how = {"work": LocalWork(4, steps=200), "lr": 0.1, "engine": engine}
    (before, _), (after, states) = rounds_by_hand(algorithm, parties(), rounds=2, **how)
    pull = 0.3 / 0.2
    assert torch.allclose(kept(states, "w"), (A * C + pull * before["u"]) / (A + pull), atol=1e-8)
    assert torch.allclose(after["w"], kept(states, "w"))
    assert torch.allclose(after["u"], algorithm.mixture(after["w"]) @ after["w"])


def test_fedamps_mixtures_are_means_and_far_groups_do_not_see_each_other():
    w = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    w[3:] += 100
    xi = FedAmp(alpha=0.1, sigma=1.0).mixture(w)
    assert torch.allclose(xi.sum(dim=1), torch.ones(6, dtype=torch.float64))
    assert bool((xi >= 0).all())
    assert torch.equal(xi[:3, 3:], torch.zeros(3, 3, dtype=torch.float64))
    near = 0.1 * torch.exp(-((w[0] - w[1]) ** 2).sum())
    assert torch.allclose(xi[0, 1], near)


def test_fedamp_sends_each_party_its_own_mixture_alone():
    _, row = small_simulation("test-fedamp", sample=1.0).play_round()
    task = small_simulation("test-fedamp").task
    assert row["traffic"]["down"] == {"u": 6 * task.size * 4}  # all mixtures to everybody would be six times that


def test_fedamp_refuses_mixtures_in_which_a_party_counts_less_than_nothing():
    with pytest.raises(UserError, match=r"at most 1 / \(parties - 1\).*got 0.5 for 6 parties. Lower alpha"):
        small_simulation("test-fedamp(alpha=0.5)")


# --- Per-FedAvg ---


@HERE
@pytest.mark.parametrize(("order", "power"), [("fo", 1), ("hf", 2), ("exact", 2)])
def test_per_fedavgs_fixed_point_tells_its_orders_apart(engine, order, power):
    """On a/2 ||w - c||^2 the gradient is (1 - alpha a) a (w - c), and (1 - alpha a) times that in second order."""
    alpha = 0.3
    found = fixed_point(
        PerFedAvg(alpha, order), parties((4, 8, 2)), work=LocalWork(8, steps=1), lr=0.1, engine=engine
    )
    expected = optimum(CENTRES, CURVATURES, [(1 - alpha * a) ** power for a in CURVATURES])
    other = optimum(CENTRES, CURVATURES, [(1 - alpha * a) ** (3 - power) for a in CURVATURES])
    assert torch.allclose(found, expected, atol=1e-9)
    assert not torch.allclose(found, other, atol=1e-2)


@ENGINES
@pytest.mark.parametrize("order", ["fo", "hf", "exact"])
def test_per_fedavg_without_a_step_is_fedavg(engine, order):
    if (engine, order) == ("compiled", "exact"):
        pytest.skip("compiled nets have no second derivative")
    meta = small_simulation(f"test-per-fedavg(alpha=0, order={order})", engine=engine)
    object.__setattr__(meta.algorithm, "weight", lambda party: party.size)  # the paper's parties count the same
    average = play(small_simulation("fedavg", engine=engine), 2)
    assert torch.allclose(play(meta, 2).state.server["w"], average.state.server["w"], atol=1e-6)


@ENGINES
def test_per_fedavgs_parties_use_their_model_after_one_step(engine):
    fields = {"dtype": "float32" if engine == "compiled" else "float64", "batch_size": 64, "engine": engine}
    simulation = play(small_simulation("test-per-fedavg(alpha=0.2)", **fields), 2)
    state, task, rows = simulation.state, simulation.task, simulation.federation.train
    models = simulation.models(state)
    for number in range(6):
        x, y = rows.take(torch.from_numpy(simulation.federation.parties[number].train))
        net = MODELS.build("mlp(6,4)").build((5,), 3).to(task.dtype)
        net.load_state_dict(task.named(state.server["w"], state.buffers))
        nn.functional.cross_entropy(net(x)[0], y).backward()
        expected = torch.cat([(p - 0.2 * p.grad).detach().reshape(-1) for p in net.parameters()])
        assert torch.allclose(models.personal(number)[0], expected, atol=1e-6)
    assert simulation.play_round()[1]["personal"]["count"] > 0


def test_per_fedavg_exact_is_refused_by_the_compiled_engine():
    with pytest.raises(UserError, match=r"no second derivative\. Use --engine sequential"):
        play(small_simulation("test-per-fedavg(order=exact)", engine="compiled"), 1)
