"""Ditto: where it ends, its limits, and that its base never notices it."""

import pytest
import torch
from torch import nn

from tests.helpers import ENGINES, EVERY_ENGINE, one_round, quadratic_federation, rounds_by_hand
from unalike.algorithms import Ditto, FedAvg, Scaffold
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

CENTRES, CURVATURES = [[1.0, 2.0], [-1.0, 0.5], [3.0, -2.0]], [0.5, 1.0, 2.0]
C, A = torch.tensor(CENTRES, dtype=torch.float64), torch.tensor(CURVATURES, dtype=torch.float64)[:, None]
NORM = {"model": "test-norm-body", "batch_size": 64}
WHOLE = {"sample": 1.0, "optimiser": "sgd", "dtype": "float64", "batch_size": 64, "validation": 0.0, "public": 0}


def parties():
    """Three parties, each with a quadratic of its own."""
    return quadratic_federation(CENTRES, CURVATURES, (4, 4, 4))


def personal(states):
    """The personal models as a stack."""
    return torch.stack([states[k]["personal"] for k in sorted(states)])


@ENGINES
@pytest.mark.parametrize("lam", [0.3, 2.0])
def test_ends_between_a_partys_own_optimum_and_the_shared_model(engine, lam):
    *_, (server, states) = rounds_by_hand(
        Ditto(lam=lam), parties(), rounds=60, work=LocalWork(4, steps=4), lr=0.2, engine=engine
    )
    assert torch.allclose(personal(states), (A * C + lam * server["w"]) / (A + lam), atol=1e-8)


@ENGINES
@pytest.mark.parametrize("base", [FedAvg(), Scaffold()])
def test_without_a_pull_it_is_training_alone(engine, base):
    federation = parties()
    *_, (_, states) = rounds_by_hand(
        Ditto(base, lam=0.0), federation, rounds=3, work=LocalWork(4, steps=2), lr=0.1, engine=engine
    )
    alone = C + (1 - 0.1 * A) ** 6 * (federation.task.initial() - C)
    assert torch.allclose(personal(states), alone, atol=1e-12)


def test_the_pull_is_to_the_model_as_it_was_received():
    """After one round from zero, with w = 0 received: v = (1 - (1 - lr (a + lam))^s) a c / (a + lam)."""
    lam, steps, zero = 0.7, 3, torch.zeros(2, dtype=torch.float64)
    states = {k: {"personal": zero, "known": zero[0]} for k in range(3)}
    one_round(Ditto(lam=lam), parties(), {"w": zero}, states, work=LocalWork(4, steps=steps), lr=0.1)
    expected = (1 - (1 - 0.1 * (A + lam)) ** steps) * A * C / (A + lam)
    assert torch.allclose(personal(states), expected, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 5])
def test_the_personal_model_has_steps_of_its_own(steps):
    *_, (_, states) = rounds_by_hand(
        Ditto(lam=0.0, steps=steps), parties(), rounds=1, work=LocalWork(4, steps=2), lr=0.1
    )
    alone = C + (1 - 0.1 * A) ** steps * (parties().task.initial() - C)
    assert torch.allclose(personal(states), alone, atol=1e-12)


@EVERY_ENGINE
@pytest.mark.parametrize("base", ["fedavg", "scaffold(option=i)", "fedprox(mu=0.5)", "fedadam(server_lr=0.01)"])
def test_the_shared_model_is_to_the_bit_that_of_its_base(engine, base):
    alone = play(small_simulation(base, engine=engine), 3)
    beside = play(small_simulation(f"ditto(base={base}, lam=2.0, steps=2)", engine=engine), 3)
    assert beside.state.server_digest() == alone.state.server_digest()
    assert any(state["personal"].ne(beside.initial).any() for state in beside.state.parties.values())


def test_batch_norms_shared_statistics_are_those_of_the_base():
    for batch_norm in ("average", "local"):
        fields = {**NORM, "batch_norm": batch_norm}
        alone = play(small_simulation("fedavg", **fields), 3).state
        beside = play(small_simulation("ditto(lam=0.5)", **fields), 3).state
        assert beside.server_digest() == alone.server_digest()  # the averaged statistics are in it
        assert beside.own_buffers.keys() == alone.own_buffers.keys()
        assert all(torch.equal(beside.own_buffers[k], alone.own_buffers[k]) for k in alone.own_buffers)


def test_the_personal_model_has_the_statistics_of_its_own_weights_and_rows():
    """Three rounds of two full passes without a pull: plain training of one net, in training mode all the time."""
    simulation = play(small_simulation("ditto(lam=0)", **WHOLE, model="test-norm-body"), 3)
    models = simulation.models(simulation.state)
    for number, party in enumerate(simulation.federation.parties):
        x, y = simulation.federation.train.take(torch.from_numpy(party.train))
        net = MODELS.build("test-norm-body").build((5,), 3).double()
        net.load_state_dict(simulation.task.named(simulation.initial, simulation.task.initial_buffers()))
        optimiser = torch.optim.SGD(net.train().parameters(), lr=0.05)
        for _ in range(6):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x)[0], y).backward()
            optimiser.step()
        w, statistics = models.personal(number)
        expected = dict(net.named_parameters()) | dict(net.named_buffers())
        found = simulation.task.named(w, statistics)
        for name, value in expected.items():
            if value.is_floating_point():
                assert torch.allclose(found[name], value, atol=1e-10), name


@EVERY_ENGINE
def test_a_newcomer_trains_from_the_shared_model_near_it(engine):
    fields = WHOLE | {"dtype": "float32"} if engine == "compiled" else WHOLE
    simulation = small_simulation("ditto(lam=3, steps=4)", **fields, newcomers=0.34, engine=engine)
    state, task = play(simulation, 2).state, simulation.task
    models = simulation.models(state)
    new = sorted(set(range(6)) - set(state.parties))
    assert len(new) == 2
    for number in new:
        x, y = simulation.federation.train.take(torch.from_numpy(simulation.federation.parties[number].train))
        v = state.server["w"].clone().requires_grad_()
        for _ in range(4):
            net = MODELS.build("mlp(6,4)").build((5,), 3).to(task.dtype)
            logits = torch.func.functional_call(net, task.named(v, state.buffers), (x,))[0]
            near = 3 / 2 * ((v - state.server["w"]) ** 2).sum()
            (slope,) = torch.autograd.grad(nn.functional.cross_entropy(logits, y) + near, v)
            v = (v - 0.05 * slope).detach().requires_grad_()
        assert torch.allclose(models.personal(number)[0], v, atol=1e-6)
    for number in state.parties:  # all others use what they have
        assert torch.equal(models.personal(number)[0], state.parties[number]["personal"])


def test_a_newcomer_begins_with_the_shared_statistics():
    simulation = play(small_simulation("ditto", **NORM, newcomers=0.34, sample=1.0), 2)
    (new, *_) = sorted(set(range(6)) - set(simulation.state.parties))
    _, found = simulation.models(simulation.state).personal(new)
    fresh = simulation.task.initial_buffers()
    assert (found - simulation.state.buffers).norm() < (found - fresh).norm()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ditto(base=moon)", "Ditto.base must train one model by FedAvg's loss, got Moon, which has an"),
        ("ditto(base=fedper)", "got FedPer"),
        ("ditto(lam=-1)", "Ditto.lam must be >= 0, got -1.0. Use 0 for training alone"),
        ("ditto(steps=0)", "Ditto.steps must be at least 1, got 0"),
    ],
)
def test_bad_settings_are_refused(text, message):
    with pytest.raises(UserError, match=message):
        small_simulation(text)


def test_it_takes_single_uploads_and_sgd_where_its_base_does():
    assert small_simulation("ditto(base=feddf)").algorithm.needs_each
    assert not small_simulation("ditto").algorithm.needs_each
    with pytest.raises(UserError, match="adam"):
        small_simulation("ditto(base=scaffold)", optimiser="adam")
