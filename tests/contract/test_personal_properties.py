"""What the papers of personalised algorithms, or arithmetic, say about them."""

import pytest
import torch

from tests.contract import paper_algorithms
from tests.contract.personal_algorithms import FedAmp
from tests.helpers import ENGINES as HERE
from tests.helpers import quadratic_federation, rounds_by_hand
from unalike.errors import UserError
from unalike.rounds.work import LocalWork
from unalike.runs.small import small_simulation

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
