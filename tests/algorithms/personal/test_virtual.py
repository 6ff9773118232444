"""VIRTUAL does what its paper, or arithmetic, says."""

import pytest
import torch
from torch.distributions import Normal, kl_divergence
from torch.func import grad

from tests.helpers import quadratic_federation, rounds_by_hand
from unalike.algorithms import ALGORITHMS, Virtual
from unalike.algorithms.contract import Party
from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.rounds.optimisers import Sgd
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

CENTRES, CURVATURES, SIZES = [[1.0, 2.0], [-1.0, 0.5], [3.0, -2.0]], [0.5, 1.0, 2.0], [4, 8, 2]
C, A = torch.tensor(CENTRES, dtype=torch.float64), torch.tensor(CURVATURES, dtype=torch.float64)[:, None]
N = torch.tensor(SIZES, dtype=torch.float64)[:, None]
PRIOR = 0.5**-2
EXACT = {"precision": (PRIOR + (N * A).sum(dim=0)).expand(2), "shift": (N * A * C).sum(dim=0)}
"""The posterior of a prior at 0 and of likelihoods exp(-n a/2 ||w - c||^2)."""


def federation():
    return quadratic_federation(CENTRES, CURVATURES, SIZES)


def party_of(number, server, state, task):
    """A party in the middle of an exchange, by hand."""
    size = torch.tensor(float(SIZES[number]), dtype=torch.float64)
    key = torch.tensor(number)
    return Party(task, server, state, key, size, size, 0.1, Sgd(), key)


def best(algorithm, me, number):
    """The Gaussian that maximises a party's objective, in what is trained: cavity times likelihood."""
    precision, shift = (me.received[key] - me.state[key] for key in ("precision", "shift"))
    sure = precision + N[number] * A[number]
    mean = (shift + N[number] * A[number] * C[number]) / sure
    unit = (me.size / me.received["precision"].clamp(min=me.size)).sqrt()
    widened = (me.received["precision"].log() - sure.log()) / 2
    return torch.cat([(mean - algorithm.personal(me)) / unit, widened])


def passes(algorithm, turns):
    """The server and the parties' factors after exact trainings; those of one turn are done at once."""
    task = federation().task
    server = algorithm.init_server(task, torch.zeros(2, dtype=torch.float64))
    states = [algorithm.init_party(task, server["shift"]) for _ in CENTRES]
    for turn in turns:
        said = []
        for k in turn:
            me = party_of(k, server, states[k], task)
            change, states[k] = algorithm.upload(me, best(algorithm, me, k))
            said.append(change)
        server = {key: server[key] + sum(change[key] for change in said) for key in server}
    return server, states


@pytest.mark.parametrize("turns", [[[0], [1], [2]], [[0], [1], [2], [1], [0]], [[0, 1, 2]]])
def test_one_pass_over_gaussian_likelihoods_is_the_exact_posterior(turns):
    server, states = passes(Virtual(deviation=0.5, damping=1.0), turns)
    for key, value in EXACT.items():
        assert torch.allclose(server[key], value, atol=1e-12)
    for k, state in enumerate(states):
        assert torch.allclose(state["precision"], (N * A)[k].expand(2), atol=1e-12)
        assert torch.allclose(state["shift"], (N * A * C)[k], atol=1e-12)


def test_damped_changes_go_the_same_way_step_by_step():
    server, states = passes(Virtual(deviation=0.5, damping=0.3), [[0, 1, 2]] * 2)
    gone = 1 - 0.7**2
    assert torch.allclose(server["precision"], PRIOR + gone * (N * A).sum(dim=0).expand(2), atol=1e-12)
    assert torch.allclose(states[1]["shift"], gone * (N * A * C)[1], atol=1e-12)


class Up(Batch):
    """Rows whose draw is +1 everywhere."""

    sign = 1.0

    def normal(self, count, which=0):
        return torch.full((count,), self.sign, dtype=torch.float64)


class Down(Up):
    """Rows whose draw is -1: with +1 it has a normal's mean and variance, which is all that quadratics see."""

    sign = -1.0


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_exact_posterior_is_where_the_expected_gradient_is_zero(number):
    algorithm, task = Virtual(deviation=0.5), federation().task
    server, states = passes(algorithm, [[0, 1, 2], [0, 1]])
    me = party_of(number, server, states[number], task)
    rows = torch.cat([C[number], A[number]]).expand(SIZES[number], -1)
    w = best(algorithm, me, number)

    def expected(v):
        return sum(algorithm.loss(me, v, kind(rows, rows[:, 0])) for kind in (Up, Down)) / 2

    gradient = grad(expected)

    assert torch.allclose(gradient(w), torch.zeros(4, dtype=torch.float64), atol=1e-12)
    for place in range(4):
        assert gradient(w + 0.1 * torch.eye(4, dtype=torch.float64)[place])[place] > 1e-4


def test_the_loss_is_that_of_a_draw_and_the_divergence_from_the_cavity():
    algorithm, task = Virtual(deviation=0.5), federation().task
    server, states = passes(algorithm, [[0, 1, 2]])
    me = party_of(1, server, states[1], task)
    rows = torch.cat([C[1], A[1]]).expand(8, -1)
    w = torch.tensor([0.3, -0.2, 0.4, 0.1], dtype=torch.float64)
    mean, width = algorithm.gaussian(me, w)
    deviation = width * server["precision"] ** -0.5
    assert torch.allclose(width, w[2:].exp())
    precision, shift = (me.received[key] - me.state[key] for key in ("precision", "shift"))
    divergence = kl_divergence(Normal(mean, deviation), Normal(shift / precision, precision**-0.5)).sum()
    expected = task.loss(mean + deviation, Batch(rows, rows[:, 0])) + divergence / 8
    found = algorithm.loss(me, w, Up(rows, rows[:, 0]))
    assert torch.allclose(found, expected, atol=1e-12)
    assert torch.equal(algorithm.gaussian(me, algorithm.start(me))[0], server["shift"] / server["precision"])
    assert torch.equal(algorithm.gaussian(me, algorithm.start(me))[1], torch.ones(2, dtype=torch.float64))


def test_every_step_has_a_draw_of_its_own():
    algorithm, task = Virtual(), federation().task
    server = algorithm.init_server(task, torch.zeros(2, dtype=torch.float64))
    me = party_of(0, server, algorithm.init_party(task, server["shift"]), task)
    rows = torch.cat([C[0], A[0]]).expand(4, -1)
    one, again, two = (
        algorithm.loss(me, algorithm.start(me), Batch(rows, rows[:, 0], step=step, key=torch.tensor(7)))
        for step in (0, 0, 1)
    )
    assert one == again
    assert one != two


def test_trained_by_steps_it_comes_near_the_exact_posterior():
    how = {"cohort_of": lambda n: [n % 3], "work": LocalWork(8, steps=300), "lr": 0.05}
    *_, (server, _) = rounds_by_hand(Virtual(deviation=0.5, damping=1.0), federation(), rounds=3, **how)
    assert torch.allclose(server["precision"], EXACT["precision"], rtol=0.15)
    exact, found = (v["shift"] / v["precision"] for v in (EXACT, server))
    assert torch.allclose(found, exact, atol=0.15)


def test_a_gaussian_wider_than_the_cavity_takes_no_precision_away():
    algorithm, task = Virtual(deviation=0.5, damping=1.0), federation().task
    server, states = passes(algorithm, [[0, 1]])
    me = party_of(2, server, states[2], task)
    wide = torch.tensor([0.3, -0.2, 1.5, 0.0], dtype=torch.float64)  # the second is as wide as the cavity
    mean, _ = algorithm.gaussian(me, wide)
    change, state = algorithm.upload(me, wide)
    assert torch.allclose(state["precision"], torch.zeros(2, dtype=torch.float64), atol=1e-12)
    after = {key: server[key] + change[key] for key in server}
    assert torch.allclose(after["shift"] / after["precision"], mean, atol=1e-12)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_the_posterior_is_the_prior_and_all_factors_absent_ones_too(engine):
    simulation = play(small_simulation("virtual", engine=engine, dtype="float64", newcomers=0.34), 4)
    server, states = simulation.state.server, simulation.state.parties
    assert len(set(simulation.cohort(4))) < len(states)
    prior = simulation.algorithm.init_server(simulation.task, simulation.initial)
    for key in ("precision", "shift"):
        total = prior[key] + sum(state[key] for state in states.values())
        assert torch.allclose(server[key], total, atol=1e-10)
    assert bool((server["precision"] >= prior["precision"] - 1e-9).all())
    models = simulation.models(simulation.state)
    for number in range(6):  # newcomers too
        assert torch.equal(models.personal(number)[0], server["shift"] / server["precision"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("virtual(deviation=0)", r"Virtual.deviation must be above 0, got 0.0. The default is 0.1"),
        ("virtual(damping=0)", r"Virtual.damping must be in \(0, 1\], got 0.0. 1 makes the whole change"),
        ("virtual(damping=1.5)", r"Virtual.damping must be in \(0, 1\], got 1.5"),
    ],
)
def test_values_that_mean_nothing_are_refused(text, message):
    with pytest.raises(UserError, match=message):
        ALGORITHMS.build(text)
