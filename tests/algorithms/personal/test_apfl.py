import pytest
import torch

from tests.algorithms.regularised import a_party, loss_by_hand, random, slope, small_task, some_rows
from tests.helpers import ENGINES, EVERY_ENGINE, one_round, quadratic_federation, rounds_by_hand, use_algorithm
from unalike.algorithms import ALGORITHMS, Apfl, Phase
from unalike.errors import UserError
from unalike.rounds.optimisers import Sgd
from unalike.rounds.work import LocalWork
from unalike.runs.small import distance, play, small_simulation

CENTRES, CURVATURES, SIZES = [[1.0, 2.0], [-1.0, 0.5], [3.0, -2.0]], [0.5, 1.0, 2.0], [4, 8, 2]
C, A = torch.tensor(CENTRES, dtype=torch.float64), torch.tensor(CURVATURES, dtype=torch.float64)[:, None]
WEIGHT = torch.tensor(SIZES, dtype=torch.float64)[:, None] / sum(SIZES)


def played(algorithm, rounds, *, steps=2, lr=0.1, momentum=0.0, **how):
    """The server's model, and the parties' own models and shares, after each of some rounds from zero."""
    federation = quadratic_federation(CENTRES, CURVATURES, SIZES)
    how |= {"work": LocalWork(8, steps=steps), "lr": lr, "optimiser": Sgd(momentum=momentum)}
    for server, states in rounds_by_hand(algorithm, federation, rounds=rounds, **how):
        yield server["w"], *(torch.stack([states[k][key] for k in sorted(states)]) for key in ("v", "a"))


def by_hand(alpha, rounds, *, learn, steps=2, lr=0.1, momentum=0.0):
    """The paper's equations, with the gradient A (w - C), for all parties at once."""
    shared, own, share = C[0] * 0, C * 0, A * 0 + alpha
    for _ in range(rounds):
        local = shared.expand(3, 2)
        mixture = share * own + (1 - share) * local
        if learn:
            slope = ((own - local) * A * (mixture - C)).sum(dim=1, keepdim=True)
            share = (share - lr * slope).clamp(0, 1)
        fast, own_fast = C * 0, C * 0
        for _ in range(steps):
            mixture = share * own + (1 - share) * local
            fast = momentum * fast + A * (local - C)
            own_fast = momentum * own_fast + share * A * (mixture - C)
            local, own = local - lr * fast, own - lr * own_fast
        shared = (WEIGHT * local).sum(dim=0)
        yield shared, own, share[:, 0]


@ENGINES
@pytest.mark.parametrize("learn", [True, False])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_rounds_are_the_papers(engine, learn, momentum):
    """The second round's share has both ways to go, and no momentum."""
    alpha, how = 0.3 if momentum else 0.8, {"momentum": momentum, "lr": 0.05}
    found = played(Apfl(alpha, learn), 4, engine=engine, **how)
    for each, expected in zip(found, by_hand(alpha, 4, learn=learn, **how), strict=True):
        assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(each, expected, strict=True))
    assert bool((expected[2] != alpha).all()) == learn


@ENGINES
def test_with_a_share_of_nothing_the_own_model_never_moves(engine):
    for _, own, share in played(Apfl(alpha=0, learn=False), 3, momentum=0.9, engine=engine):
        assert torch.equal(own, C * 0)
        assert torch.equal(share, torch.zeros(3, dtype=torch.float64))


@ENGINES
def test_with_a_share_of_all_the_own_model_is_trained_alone(engine):
    *_, (_, own, _) = played(Apfl(alpha=1, learn=False), 3, engine=engine)
    assert torch.allclose(own, C - (1 - 0.1 * A) ** 6 * C, atol=1e-12)


@EVERY_ENGINE
@pytest.mark.parametrize("text", ["apfl", "apfl(alpha=0.9, learn=false)"])
def test_the_shared_model_is_fedavgs_to_the_bit(engine, text):
    beside, average = (play(small_simulation(name, engine=engine), 3).state for name in (text, "fedavg"))
    assert beside.server_digest() == average.server_digest()
    trained = [state["v"] for state in beside.parties.values() if state["known"]]
    assert len(trained) >= 4
    assert all((own != small_simulation("fedavg").initial).any() for own in trained)


@pytest.mark.parametrize("padding", [0, 3])
def test_gradients_at_the_mixture_of_the_weights_equal_finite_differences(padding):
    task, (batch, x, y) = small_task(), some_rows(padding)
    shared, own = task.initial(0), task.initial(1)
    state = {"v": own, "a": torch.tensor(0.3, dtype=torch.float64), "known": torch.ones((), dtype=torch.float64)}
    party, algorithm = a_party(task, {"w": shared}, state), Apfl(learn=False)

    def mixed(own, share=0.3):
        return loss_by_hand(task, share * own + (1 - share) * shared, x, y)

    w = algorithm.start(party).requires_grad_()
    loss = algorithm.loss(party, w, batch)
    assert float(loss.detach()) == pytest.approx(loss_by_hand(task, shared, x, y))
    for found, start, function in zip(
        torch.autograd.grad(loss, w)[0].chunk(2),
        (shared, own),
        (lambda w: loss_by_hand(task, w, x, y), mixed),
        strict=True,
    ):
        way = random(task.size, seed=5)
        assert float(found.dot(way)) == pytest.approx(slope(function, start, way), abs=1e-7)
    measured = algorithm.measure(party, batch)["slope"]
    assert float(measured) == pytest.approx(slope(lambda share: mixed(own, share), 0.3, 1), abs=1e-7)
    assert torch.allclose(algorithm.personal(party), 0.3 * own + 0.7 * shared)


def test_the_share_is_clipped():
    """With a high rate the first move of the share goes beyond an end."""
    ends = torch.cat([share for _, _, share in played(Apfl(alpha=0.5), 6, lr=0.4)])
    assert bool(((ends == 0) | (ends == 1)).any())
    assert bool(((ends >= 0) & (ends <= 1)).all())


def test_who_comes_late_begins_with_what_it_receives():
    federation, algorithm, states = quadratic_federation(CENTRES, CURVATURES, SIZES), Apfl(0.5, learn=False), {}
    how = {"work": LocalWork(8, steps=1), "lr": 0.1}
    server = one_round(algorithm, federation, {"w": C[0] * 0}, states, cohort=[0, 1], **how)
    nobody = algorithm.init_party(federation.task, C[0] * 7)
    assert torch.equal(algorithm.personal(a_party(federation.task, server, nobody)), server["w"])
    one_round(algorithm, federation, server, states, cohort=[2], number=2, **how)
    expected = server["w"] - 0.1 * 0.5 * A[2] * (server["w"] - C[2])
    assert torch.allclose(states[2]["v"], expected, atol=1e-14)


@EVERY_ENGINE
def test_newcomers_train_the_shared_model_and_nobody_else_does(engine):
    fields = {"newcomers": 0.34, "sample": 1.0, "engine": engine}
    simulation = play(small_simulation("apfl", **fields), 2)
    tuned = play(small_simulation("fedavg", fine_tune=2, **fields), 2)
    newcomers = simulation.federation.population.newcomers
    assert len(newcomers) == 2
    for number in range(6):
        one, other = (each.models(each.state).personal(number)[0] for each in (simulation, tuned))
        assert torch.equal(one, other) == (number in newcomers)
        if number not in newcomers:
            own, w = simulation.party_state(number), simulation.state.server["w"]
            assert torch.equal(one, own["a"] * own["v"] + (1 - own["a"]) * w)


@pytest.mark.parametrize("alpha", ["-0.1", "1.1"])
def test_a_share_is_from_0_to_1(alpha):
    with pytest.raises(UserError, match=r"Apfl.alpha must be from 0 to 1, got .* Use 0 for FedAvg, 1 for alone"):
        ALGORITHMS.build(f"apfl(alpha={alpha})")


TERMS = {
    "a linear term": {"linear": lambda self, party: torch.full((2 * party.task.size,), 0.01)},
    "a proximal term": {"proximal": lambda self, party: (0.5, self.start(party))},
    "a part that trains": {"phases": lambda self, task, round: (Phase(trains="head"),)},
    "another share in each party": {"beside": lambda self, party: party.size / 100},
}


@pytest.mark.parametrize("term", TERMS)
def test_what_kernels_do_not_know_beside_a_second_model_runs_step_by_step(term):
    ends = []
    for engine in ("sequential", "compiled"):
        simulation = small_simulation("fedavg", engine=engine, sample=1.0)
        algorithm = type("Beside", (Apfl,), {**TERMS[term], "__module__": __name__})(learn=False)
        ends.append(play(use_algorithm(simulation, algorithm), 2).state.tensors())
    assert distance(*ends)[0] < 1e-5
