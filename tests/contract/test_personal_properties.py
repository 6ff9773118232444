"""What the papers of personalised algorithms, or arithmetic, say about them."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.contract import paper_algorithms
from tests.contract.personal_algorithms import Ditto, FedAmp, FedRep
from tests.helpers import ENGINES as HERE
from tests.helpers import federation_of, one_round, quadratic_federation, rounds_by_hand
from unalike.algorithms import FedAvg, Phase
from unalike.errors import UserError
from unalike.models import Net, Task
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


# --- Ditto ---


@HERE
@pytest.mark.parametrize("lam", [0.3, 2.0])
def test_ditto_ends_between_a_partys_own_optimum_and_the_shared_model(engine, lam):
    server, states = last(
        rounds_by_hand(Ditto(lam=lam), parties(), rounds=60, work=LocalWork(4, steps=4), lr=0.2, engine=engine)
    )
    expected = (A * C + lam * server["w"]) / (A + lam)
    assert torch.allclose(kept(states, "personal"), expected, atol=1e-8)


@HERE
def test_ditto_without_a_pull_is_training_alone(engine):
    federation = parties()
    _, states = last(
        rounds_by_hand(Ditto(lam=0.0), federation, rounds=3, work=LocalWork(4, steps=2), lr=0.1, engine=engine)
    )
    assert torch.allclose(kept(states, "personal"), alone(federation, steps=6, lr=0.1), atol=1e-12)


@ENGINES
@pytest.mark.parametrize("base", ["fedavg", "scaffold", "fedprox(mu=0.5)", "fedadam(server_lr=0.01)"])
def test_dittos_shared_model_is_to_the_bit_that_of_its_base(engine, base):
    alone = play(small_simulation(base, engine=engine), 3)
    for text in (f"test-ditto(base={base}, lam=0.5)", f"test-ditto(base={base}, lam=2.0, steps=2)"):
        beside = play(small_simulation(text, engine=engine), 3)
        assert beside.state.server_digest() == alone.state.server_digest()
        assert any(state["personal"].ne(beside.initial).any() for state in beside.state.parties.values())


def test_ditto_pulls_to_the_model_as_it_was_received():
    """After one round from zero, with w = 0 received: v = (1 - (1 - lr (a + lam))^s) a c / (a + lam)."""
    algorithm, states, lam, steps = Ditto(lam=0.7), {}, 0.7, 3
    server = {"w": torch.zeros(2, dtype=torch.float64)}
    states |= {k: {"personal": torch.zeros(2, dtype=torch.float64)} for k in range(3)}
    one_round(algorithm, parties(), server, states, work=LocalWork(4, steps=steps), lr=0.1)
    expected = (1 - (1 - 0.1 * (A + lam)) ** steps) * A * C / (A + lam)
    assert torch.allclose(kept(states, "personal"), expected, atol=1e-12)


def test_dittos_base_must_fit():
    with pytest.raises(UserError, match=r"Ditto's base must train one model by FedAvg's loss, got Moon"):
        small_simulation("test-ditto(base=moon)")


def test_ditto_takes_single_uploads_and_sgd_where_its_base_does():
    assert small_simulation("test-ditto(base=test-feddf)").algorithm.needs_each
    assert not small_simulation("test-ditto").algorithm.needs_each
    with pytest.raises(UserError, match="adam"):
        small_simulation("test-ditto(base=scaffold)", optimiser="adam")


# --- FedRep ---


@ENGINES
@pytest.mark.parametrize("optimiser", ["sgd(momentum=0.9, weight_decay=0.1)", "adam(weight_decay=0.1)"])
def test_fedrep_keeps_the_frozen_part_to_the_bit(engine, optimiser):
    """With the head's phase alone no body moves; with the body's alone no head does."""
    for part in ("head", "body"):
        simulation = small_simulation("test-fedrep", sample=1.0, optimiser=optimiser, engine=engine)
        body, head = simulation.task.slices["body"], simulation.task.slices["head"]
        only = (Phase(trains=part),)
        object.__setattr__(simulation.algorithm, "phases", lambda task, round, only=only: only)
        object.__setattr__(
            simulation.algorithm,
            "upload",
            lambda me, w, body=body, head=head: (
                {"delta": w[body] - me.received["body"]},
                {"head": w[head]},
            ),
        )
        after = play(simulation, 2).state
        assert torch.equal(after.server["w"][body], simulation.initial[body]) == (part == "head")
        for state in after.parties.values():
            assert torch.equal(state["head"], simulation.initial[head]) == (part == "body")


class Planted(Task):
    """Rows are (x, y) with y = h . (B x): a linear body, a linear head, squared error."""

    def __init__(self, features, rank):
        class Body(nn.Linear):
            def forward(self, x):
                return super().forward(x[..., :-1])

        def net():
            return Net(Body(features, rank, bias=False), nn.Linear(rank, 1, bias=False))

        super().__init__(net, dtype=torch.float64)

    def loss(self, w, batch, track=True):
        return batch.mean((self.logits(w, batch)[..., 0] - batch.x[..., -1]) ** 2)


def distance_to(plane, body):
    """The sine of the largest angle between the plane and that of the body's rows."""
    own = torch.linalg.qr(body.T)[0]
    return float(torch.linalg.matrix_norm(own - plane @ (plane.T @ own), ord=2))


def test_fedrep_finds_a_planted_subspace_that_fedavg_does_not():
    rng = np.random.default_rng(0)
    plane = np.linalg.qr(rng.normal(size=(10, 2)))[0]
    rows = []
    for _ in range(20):
        x = rng.normal(size=(40, 10))
        rows.append(np.concatenate([x, x @ plane @ rng.normal(size=(2, 1))], axis=1))
    federation = federation_of(Planted(10, 2), rows)
    start, ends = federation.task.initial(), {}
    for algorithm in (FedRep(head_epochs=10, body_epochs=1), FedAvg()):
        server = last(
            rounds_by_hand(algorithm, federation, rounds=60, start=start, work=LocalWork(40, epochs=1), lr=0.1)
        )[0]
        ends[type(algorithm)] = distance_to(torch.from_numpy(plane), server["w"][:20].reshape(2, 10))
    assert distance_to(torch.from_numpy(plane), start[:20].reshape(2, 10)) > 0.5
    assert ends[FedRep] < 1e-3
    assert ends[FedAvg] > 0.1


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


# --- FedBN ---

NORM = {"model": "test-norm-body", "batch_size": 64}


def test_fedbn_that_keeps_nothing_is_fedavg():
    for fields in (NORM, {"model": "test-layer-norm"}):
        local = {} if fields is not NORM else {"batch_norm": "local"}
        bn = play(small_simulation("test-fedbn(own=nothing)", **fields), 3)
        avg = play(small_simulation("fedavg", **fields, **local), 3)
        assert torch.equal(bn.state.server["w"], avg.state.server["w"])
        assert bn.state.own_buffers.keys() == avg.state.own_buffers.keys()
        for number, statistics in avg.state.own_buffers.items():
            assert torch.equal(bn.state.own_buffers[number], statistics)


def test_fedbns_scales_shifts_and_statistics_stay_at_home():
    simulation = small_simulation("test-fedbn", **NORM, sample=1.0)
    norm = simulation.task.positions("norm")
    assert len(norm) == 8  # four scales, four shifts
    _, row = play(simulation, 1).play_round()
    shared = (simulation.task.size - 8) * 4 * 6
    assert row["traffic"] == {"up": {"delta": shared}, "down": {"shared": shared}}
    state = simulation.state
    assert torch.equal(state.server["w"][norm], simulation.initial[norm])
    assert torch.equal(state.buffers, simulation.task.initial_buffers())
    for kept in (state.own_buffers, {k: v["own"] for k, v in state.parties.items()}):
        assert sorted(kept) == list(range(6))
        assert (kept[0] != kept[1]).any()
    models = simulation.models(state)
    w, statistics = models.personal(4)
    assert torch.equal(w[norm], state.parties[4]["own"])
    assert torch.equal(statistics, state.own_buffers[4])


@pytest.mark.parametrize("model", ["mlp(6,4)", "logistic", "test-layer-norm|mlp(6,4)"])
def test_fedbn_refuses_nets_that_do_not_normalise(model):
    with pytest.raises(UserError, match=r"this net has none: it would be FedAvg\. Choose another --model"):
        small_simulation("test-fedbn", model=model)
