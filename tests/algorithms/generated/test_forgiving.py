"""F2U and F2A: which judges a generator is to pass with, and what parties train."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.algorithms.generated.helpers import simulation_of
from unalike.algorithms import ALGORITHMS, F2a, F2u
from unalike.algorithms.generated.gan import Gan
from unalike.errors import UserError
from unalike.models import noise
from unalike.randomness import stream
from unalike.runs.small import play, small_simulation

SCORES = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 0.4], [-1.0, -1.0, 0.6]], dtype=torch.float64)


def test_f2us_score_is_that_of_the_most_forgiving_judge_and_f2as_lies_between():
    assert F2u().together(SCORES).tolist() == [1.0, 3.0, 0.6]
    assert torch.allclose(F2a(lam=0).together(SCORES), SCORES.mean(dim=0))
    assert torch.allclose(F2a(lam=1e4).together(SCORES), F2u().together(SCORES))
    e = torch.exp(2 * SCORES[:, 0])
    assert float(F2a(lam=2).together(SCORES)[0]) == pytest.approx(float((e * SCORES[:, 0]).sum() / e.sum()))


@pytest.mark.parametrize("algorithm", [F2u(noise=2), F2a(noise=2, lam=3)])
def test_one_judge_is_a_plain_gan_and_more_of_the_same_change_nothing(algorithm):
    simulation = simulation_of("f2u(noise=2)", [4])
    task, gan = simulation.task, algorithm.nets(simulation.task)
    g, d = gan.generator.initial(), gan.judge.initial()
    z, none = torch.randn(5, 2, dtype=torch.float64), torch.zeros(5, dtype=torch.int64)
    one = algorithm.passing(task, g, d[None], z)
    plain = functional.binary_cross_entropy_with_logits(
        gan.score(d, gan.made(g, z, none), none), torch.ones(5).double(), reduction="none"
    )
    assert torch.allclose(one, plain, atol=1e-14)
    assert torch.allclose(algorithm.passing(task, g, d.expand(3, -1), z), one, atol=1e-14)


class _Spreads(nn.Module):
    """A generator whose row is its noise, moved and stretched."""

    def __init__(self):
        super().__init__()
        self.stretch, self.move = nn.Parameter(torch.ones(5)), nn.Parameter(torch.zeros(5))

    def forward(self, z, labels):
        return z * self.stretch + self.move


class _Plane(nn.Module):
    """A linear judge."""

    def __init__(self):
        super().__init__()
        self.score = nn.Parameter(torch.zeros(5))

    def forward(self, x, labels):
        return x @ self.score


def linear(algorithm):
    """A gradient of the generator's loss, where two judges want the first number of a row large, and small."""
    task = simulation_of("f2u", [4]).task
    nets = Gan(task.extra("spreads", _Spreads), task.extra("plane", _Plane), 5, 0)
    one = torch.tensor([1.0, 0, 0, 0, 0], dtype=torch.float64)
    z = torch.tensor([[2.0, 1, 0, 0, 0], [-2.0, 1, 0, 0, 0]], dtype=torch.float64)
    object.__setattr__(algorithm, "nets", lambda task: nets)
    g = nets.generator.initial().requires_grad_()
    return torch.autograd.grad(algorithm.passing(task, g, torch.stack([one, -one]), z).sum(), g)[0]


def test_a_row_learns_from_the_judge_that_forgives_it():
    """Both parties' sides are kept: rows are stretched away from the middle, and not moved to either side."""
    slope = 1 / (1 + math.exp(2))  # of -log sigmoid(v) at v = 2, for each of the two rows
    assert linear(F2u()).tolist() == pytest.approx([-4 * slope, *[0.0] * 9])
    assert linear(F2a(lam=50)).tolist() == pytest.approx([-4 * slope, *[0.0] * 9])
    # With as much say for both, what one judge wants the other does not.
    assert linear(F2a(lam=0)).tolist() == pytest.approx([0.0] * 10)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_a_party_trains_its_own_judge_on_from_where_it_left_it(engine):
    """Two rounds of one step are steps of plain descent, with the rows of that round's generator."""
    simulation = simulation_of("f2u(noise=2, steps=3)", [3, 5], engine=engine, epochs=None, steps=1)
    gan = simulation.algorithm.nets(simulation.task)
    d = gan.judge.initial()
    for turn in (1, 2):
        g = simulation.state.server["generator"]
        simulation.state, _ = simulation.play_round()
        x = simulation.federation.train.take(torch.from_numpy(simulation.federation.parties[1].train))[0]
        key = int(stream(0, "noise", turn, 1, 0).integers(-(2**63), 2**63))
        place = simulation.spec.work.plan(len(x), stream(0, "batches", turn, 1, 0))[0]
        z = noise.normal(noise.key_of_step(torch.tensor(key), 0), 2 * len(x), 0, torch.float64).reshape(-1, 2)
        d = d.clone().requires_grad_()
        none = torch.zeros(len(x), dtype=torch.int64)
        bce, ones = functional.binary_cross_entropy_with_logits, torch.ones(len(x)).double()
        told = bce(gan.score(d, x[place], none), ones) + bce(gan.score(d, gan.made(g, z, none), none), 0 * ones)
        (gradient,) = torch.autograd.grad(told, d)
        d = (d - 0.05 * gradient).detach()
        assert torch.allclose(simulation.state.parties[1]["judge"], d, atol=1e-12)
        assert not torch.equal(simulation.state.server["generator"], g)


def test_the_server_draws_other_noise_in_every_round():
    """With judges that never change, equal draws would give equal steps."""
    simulation = play(small_simulation("f2u(steps=1)", sample=1.0, dtype="float64"), 1)
    task, server = simulation.task, simulation.state.server
    seen = []
    algorithm = simulation.algorithm
    for rounds in (0, 1, 1):
        judges = {0: {"judge": algorithm.nets(task).judge.initial()}}
        replies = type("Replies", (), {"each": judges})()
        state = {"generator": server["generator"], "rounds": torch.tensor(float(rounds))}
        seen.append(algorithm.fold(task, state, replies)["generator"])
    assert torch.equal(seen[1], seen[2])
    assert not torch.equal(seen[0], seen[1])


def test_there_is_no_model_and_that_is_said():
    _, row = small_simulation("f2a").play_round()
    assert row["accuracy"] is None
    assert "personal" not in row


@pytest.mark.parametrize(
    "text", ["f2u(noise=0)", "f2u(steps=0)", "f2a(lr=0)", "f2a(lam=-1)", "f2a(lam=nan)", "f2u(lam=1)"]
)
def test_parameters_that_mean_nothing_are_refused(text):
    with pytest.raises(UserError, match=text.split("(")[1].split("=")[0]):
        ALGORITHMS.build(text)


def test_masks_hide_the_judges_that_it_needs():
    with pytest.raises(UserError, match="needs to see single uploads"):
        small_simulation("f2u", channel="masked", sample=1.0)
