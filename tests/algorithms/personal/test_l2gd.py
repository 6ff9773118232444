from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.algorithms.regularised import a_party
from tests.helpers import ENGINES, EVERY_ENGINE, one_round, quadratic_federation, rounds_by_hand
from unalike.algorithms import ALGORITHMS, L2gd
from unalike.errors import UserError
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

CENTRES, CURVATURES, SIZES = [[1.0, 2.0], [-1.0, 0.5], [3.0, -2.0]], [0.5, 1.0, 2.0], [4, 8, 2]
C, A = torch.tensor(CENTRES, dtype=torch.float64), torch.tensor(CURVATURES, dtype=torch.float64)[:, None]
WORK = LocalWork(8, epochs=1)


def parties(curvatures=CURVATURES):
    return quadratic_federation(CENTRES, curvatures, SIZES)


def models(states):
    return torch.stack([states[k]["x"] for k in sorted(states)])


def tosses(algorithm, task, rounds):
    """The coin of every iteration: 1 is a pull."""
    for number in range(1, rounds + 1):
        pulls, steps = algorithm.coins(task, number)
        yield [1] * pulls + [0] * steps


@ENGINES
@pytest.mark.parametrize(("lam", "p"), [(1.0, 0.4), (0.3, 0.8), (2.0, 0.15)])
def test_rounds_are_the_papers_iterations(engine, lam, p):
    """Algorithm 1 coin by coin, with the mean of that very iteration."""
    federation, lr, n = parties(), 0.04, 3
    a, x, algorithm = lr * n * (1 - p), C * 0, L2gd(lam, p)
    found = rounds_by_hand(algorithm, federation, rounds=8, work=WORK, lr=lr, engine=engine)
    for (server, states), coins in zip(found, tosses(algorithm, federation.task, 8), strict=True):
        for pulled in coins:
            if pulled:
                x = (1 - a * lam / (n * p)) * x + a * lam / (n * p) * x.mean(dim=0)
            else:
                x = x - a / (n * (1 - p)) * A * (x - C)
        assert torch.allclose(models(states), x, atol=1e-12)
        assert torch.allclose(server["w"], x.mean(dim=0), atol=1e-12)


@pytest.mark.parametrize("p", [0.2, 0.7])
def test_coins_are_fair_and_public(p):
    """The coins of all rounds in a row are independent: a pull after a pull is as likely as after a step."""
    algorithm, task = L2gd(p=p), parties().task
    coins = np.concatenate(list(tosses(algorithm, task, 3000)))
    assert coins.mean() == pytest.approx(p, abs=0.02)
    assert coins[1:][coins[:-1] == 1].mean() == pytest.approx(p, abs=0.02)
    assert [algorithm.coins(parties().task, k) for k in (1, 2, 3)] == [algorithm.coins(task, k) for k in (1, 2, 3)]
    assert algorithm.phases(task, 7)[0].steps == algorithm.coins(task, 7)[1]


def test_iterates_surround_the_optimum_closer_with_a_smaller_rate():
    """With curvature 1 it is x_i = (c_i + lam mean c) / (1 + lam)."""
    lam, gaps = 0.8, {}
    expected = (C + lam * C.mean(dim=0)) / (1 + lam)
    for lr in (0.2, 0.05):
        sums, rounds = C * 0, 600
        for number, (_, states) in enumerate(
            rounds_by_hand(L2gd(lam, 0.5), parties([1.0] * 3), rounds=rounds, work=WORK, lr=lr), start=1
        ):
            sums = sums + models(states) * (number > rounds // 2)
        gaps[lr] = float((sums / (rounds // 2) - expected).abs().max())
    assert gaps[0.05] < gaps[0.2] / 2
    assert gaps[0.05] < 0.1


@ENGINES
def test_without_a_pull_it_is_training_alone(engine):
    federation, algorithm = parties(), L2gd(0.0, 0.4)
    *_, (_, states) = rounds_by_hand(algorithm, federation, rounds=4, work=WORK, lr=0.1, engine=engine)
    steps = sum(algorithm.coins(federation.task, number)[1] for number in range(1, 5))
    assert torch.allclose(models(states), C - (1 - 0.1 * A) ** steps * C, atol=1e-12)


@ENGINES
def test_the_server_has_the_mean_of_all_who_ever_took_part(engine):
    cohorts = [[0, 1], [1], [1, 2], [0], [2, 0]]
    found = rounds_by_hand(
        L2gd(1.0, 0.5), parties(), rounds=5, cohort_of=lambda k: cohorts[k - 1], work=WORK, lr=0.1, engine=engine
    )
    for server, states in found:
        assert torch.allclose(server["w"], models(states).mean(dim=0), atol=1e-14)
        assert float(server["count"]) == len(states)


def test_who_comes_late_begins_with_the_mean():
    federation, algorithm, states = parties(), L2gd(0.5, 0.5), {}
    server = algorithm.init_server(federation.task, C[0] * 0)
    server = one_round(algorithm, federation, server, states, cohort=[0, 1], work=WORK, lr=0.1)
    nobody = algorithm.init_party(federation.task, C[0] * 7)
    assert torch.equal(algorithm.personal(a_party(federation.task, server, nobody)), server["w"])
    one_round(algorithm, federation, server, states, cohort=[2], number=2, work=WORK, lr=0.1)
    steps = algorithm.coins(federation.task, 2)[1]
    assert torch.allclose(states[2]["x"], C[2] + (1 - 0.1 * A[2]) ** steps * (server["w"] - C[2]), atol=1e-14)
    assert torch.equal(algorithm.personal(a_party(federation.task, server, states[2])), states[2]["x"])


def test_one_message_a_round():
    _, row = small_simulation("l2gd", sample=1.0).play_round()
    size = small_simulation("l2gd").task.size * 4 * 6
    assert row["traffic"] == {"up": {"x": size, "new": 24}, "down": {"w": size}}


@EVERY_ENGINE
def test_newcomers_take_local_steps_from_the_mean(engine):
    fields = {"newcomers": 0.34, "sample": 1.0, "batch_size": 64, "engine": engine}
    simulation = play(small_simulation("l2gd(p=0.2)", **fields), 2)
    tuned = small_simulation("fedavg", fine_tune=5, **fields)
    tuned.state = replace(play(tuned, 2).state, server={"w": simulation.state.server["w"]})
    newcomers = simulation.federation.population.newcomers
    for number in range(6):
        one, other = (each.models(each.state).personal(number)[0] for each in (simulation, tuned))
        assert torch.allclose(one, other, atol=1e-6) == (number in newcomers)
        assert torch.equal(one, simulation.party_state(number)["x"]) == (number not in newcomers)


def test_noise_is_refused():
    with pytest.raises(UserError):
        small_simulation("l2gd", channel="clip(1)+gauss(1)")


@pytest.mark.parametrize("text", ["lam=-1", "p=0", "p=1"])
def test_what_means_nothing_is_refused(text):
    with pytest.raises(UserError, match=r"L2gd\.(lam must be >= 0|p must be above 0 and below 1), got"):
        ALGORITHMS.build(f"l2gd({text})")


@EVERY_ENGINE
def test_pulls_beyond_the_mean_are_refused(engine):
    with pytest.raises(UserError, match=r"must be at most 1, got 4.5. Lower lam or --lr, or raise p"):
        play(small_simulation("l2gd(lam=10)", engine=engine), 1)
