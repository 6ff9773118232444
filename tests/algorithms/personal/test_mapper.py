"""Mapper and Dapper: choices are made on validation rows, and trainings are the papers'."""

from dataclasses import replace

import pytest
import torch

from tests.helpers import ENGINES, EVERY_ENGINE, quadratic_federation, rounds_by_hand
from unalike.algorithms import ALGORITHMS, Dapper, Mapper
from unalike.errors import UserError
from unalike.models import Batch
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

CENTRES, CURVATURES, SIZES = [[1.0, 2.0], [-1.0, 0.5], [3.0, -2.0]], [0.5, 1.0, 2.0], [8, 16, 4]
C, A = torch.tensor(CENTRES, dtype=torch.float64), torch.tensor(CURVATURES, dtype=torch.float64)[:, None]
WEIGHT = torch.tensor(SIZES, dtype=torch.float64)[:, None] / sum(SIZES)
WORK = LocalWork(16, steps=2)
VALIDATED = {"validation": 0.4, "dtype": "float64"}


def parties():
    """Three parties with quadratics of their own; a quarter of the rows, all alike, is for validation."""
    return quadratic_federation(CENTRES, CURVATURES, SIZES, validation=0.25)


def kept(states, key):
    return torch.stack([states[k][key] for k in sorted(states)])


def rows_of(simulation, number, part):
    """A party's rows of one part of its split."""
    own = getattr(simulation.federation.parties[number], part)
    return Batch(*simulation.federation.train.take(torch.from_numpy(own)))


def least(task, models, batch):
    return int(torch.stack([task.loss(w, batch) for w in models]).argmin())


# --- Mapper ---


def mapper_by_hand(grid, rounds, steps, lr=0.1):
    """Own models of all shares, with the choice by the loss, and the shared model through the mixture."""
    shared, own = C[0] * 0, [C * 0 for _ in grid]
    for _ in range(rounds):
        for at, share in enumerate(grid):
            for _ in range(steps):
                own[at] = own[at] - lr * share * A * (share * own[at] + (1 - share) * shared - C)
        losses = [
            A[:, 0] / 2 * ((a * v + (1 - a) * shared - C) ** 2).sum(dim=1) for a, v in zip(grid, own, strict=True)
        ]
        chosen = torch.stack(losses, dim=1).argmin(dim=1)
        share = C.new_tensor(grid)[chosen][:, None]
        v, local = torch.stack(own, dim=1)[torch.arange(3), chosen], shared.expand(3, 2)
        for _ in range(2):
            local = local - lr * (1 - share) * A * (share * v + (1 - share) * local - C)
        shared = (WEIGHT * local).sum(dim=0)
        yield shared, torch.stack(own, dim=1), chosen


@ENGINES
@pytest.mark.parametrize(("grid", "steps"), [((0.2, 0.7), None), ((0.0, 0.5, 1.0), 1), ((0.4,), 3)])
def test_mappers_rounds_are_the_papers(engine, grid, steps):
    algorithm = Mapper(grid, steps)
    found = rounds_by_hand(algorithm, parties(), rounds=4, work=WORK, lr=0.1, engine=engine)
    for (server, states), (shared, own, chosen) in zip(found, mapper_by_hand(grid, 4, steps or 2), strict=True):
        assert torch.allclose(server["w"], shared, atol=1e-12)
        assert torch.equal(kept(states, "chosen").argmax(dim=1), chosen)
        trained = [at for at, share in enumerate(grid) if share]
        assert torch.allclose(kept(states, "v")[:, trained], own[:, trained], atol=1e-12)


@EVERY_ENGINE
def test_mapper_with_no_share_is_fedavg(engine):
    fields = {"engine": engine, "batch_size": 64, "validation": 0.0}
    mapped, average = (play(small_simulation(name, **fields), 3).state for name in ("mapper(grid=0)", "fedavg"))
    assert torch.allclose(mapped.server["w"], average.server["w"], atol=1e-6)


@ENGINES
def test_mapper_with_all_of_the_share_is_training_alone(engine):
    *_, (server, states) = rounds_by_hand(Mapper((1.0,)), parties(), rounds=3, work=WORK, lr=0.1, engine=engine)
    assert torch.equal(server["w"], C[0] * 0)
    assert torch.allclose(kept(states, "v")[:, 0], C - (1 - 0.1 * A) ** 6 * C, atol=1e-12)


def test_mapper_chooses_on_validation_rows():
    simulation = play(small_simulation("mapper(grid=(0.1,0.5,0.9))", sample=1.0, **VALIDATED), 3)
    before = simulation.state.server["w"]
    state, task, other = play(simulation, 1).state, simulation.task, 0
    for number, own in state.parties.items():
        mixtures = [share * v + (1 - share) * before for share, v in zip((0.1, 0.5, 0.9), own["v"], strict=True)]
        best = least(task, mixtures, rows_of(simulation, number, "validation"))
        assert own["chosen"].tolist() == [float(k == best) for k in range(3)]
        other += best != least(task, mixtures, rows_of(simulation, number, "train"))
        share = (0.1, 0.5, 0.9)[best]
        personal = simulation.models(state).personal(number)[0]
        assert torch.allclose(personal, share * own["v"][best] + (1 - share) * state.server["w"], atol=1e-12)
    assert other > 0


def test_mappers_newcomers_train_the_shared_model():
    fields = {"newcomers": 0.34, "sample": 1.0, "validation": 0.4, "dtype": "float64"}
    simulation = play(small_simulation("mapper(grid=(0.5,1))", **fields), 2)
    tuned = play(small_simulation("fedavg", fine_tune=2, **fields), 2)
    tuned.state = replace(tuned.state, server=simulation.state.server)
    newcomers = simulation.federation.population.newcomers
    for number in range(6):
        one, other = (each.models(each.state).personal(number)[0] for each in (simulation, tuned))
        assert torch.allclose(one, other, atol=1e-12) == (number in newcomers)


def test_a_choice_needs_validation_rows():
    for text in ("mapper", "dapper"):
        with pytest.raises(UserError, match=r"has no validation rows to measure\. Use --validation"):
            play(small_simulation(text, validation=0.0), 1)


# --- Dapper ---


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize("text", ["dapper", "dapper(grid=0.5)"])
def test_dappers_shared_model_is_fedavgs_to_the_bit(engine, text):
    fields = {"engine": engine, "validation": 0.4}
    beside, average = (play(small_simulation(name, **fields), 3).state for name in (text, "fedavg"))
    assert beside.server_digest() == average.server_digest()


@EVERY_ENGINE
def test_dapper_on_own_rows_alone_is_fine_tuning(engine):
    dapper = play(small_simulation("dapper(grid=1)", engine=engine), 2)
    tuned = play(small_simulation("fedavg", engine=engine, fine_tune=2), 2)
    for number in range(6):
        one, other = (each.models(each.state).personal(number)[0] for each in (dapper, tuned))
        assert torch.allclose(one, other, atol=1e-6)
        assert not torch.equal(one, dapper.state.server["w"])


@ENGINES
def test_dappers_models_are_trained_on_the_mixture_of_rows(engine):
    """Two steps of the public rows' three: the first sees two of them, the second the last and again the first."""
    federation, grid = parties(), (0.3, 0.8)
    public = torch.tensor([[5.0, 5.0, 1.0], [0.0, 4.0, 2.0], [-3.0, 1.0, 0.5]], dtype=torch.float64)
    federation.task.public = Batch(public, torch.zeros(3, dtype=torch.int64))
    *_, (_, states) = rounds_by_hand(Dapper(grid, rows=2), federation, rounds=1, work=WORK, lr=0.1, engine=engine)
    for at, share in enumerate(grid):
        w = C * 0
        for which in ([0, 1], [2, 0]):
            c, a = public[which, :2], public[which, 2:]
            theirs = torch.stack([(a * (each - c)).mean(dim=0) for each in w])
            w = w - 0.1 * (share * A * (w - C) + (1 - share) * theirs)
        assert torch.allclose(kept(states, "models")[:, at], w, atol=1e-12)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_dapper_chooses_on_validation_rows_and_deploys_with_its_choice(engine):
    """What is deployed is what a grid of the chosen value alone would be."""
    grid, other = (0.2, 0.6, 1.0), set()
    simulation = play(small_simulation(f"dapper(grid={grid})", engine=engine, sample=1.0, lr=0.3, **VALIDATED), 3)
    state, task = simulation.state, simulation.task
    single = {
        share: play(small_simulation(f"dapper(grid={share})", engine=engine, sample=1.0, lr=0.3, **VALIDATED), 3)
        for share in grid
    }
    for number, own in state.parties.items():
        best = least(task, own["models"], rows_of(simulation, number, "validation"))
        assert float(own["lam"]) == grid[best]
        other.add(best == least(task, own["models"], rows_of(simulation, number, "train")))
        deployed, expected = (
            each.models(each.state).personal(number)[0] for each in (simulation, single[grid[best]])
        )
        assert torch.allclose(deployed, expected, atol=1e-12)
    assert other == {True, False}


def test_dappers_newcomers_take_the_middle_of_the_grid():
    simulation = play(small_simulation("dapper", newcomers=0.34, sample=1.0, validation=0.4), 1)
    single = play(small_simulation("dapper(grid=0.5)", newcomers=0.34, sample=1.0, validation=0.4), 1)
    for number in simulation.federation.population.newcomers:
        one, other = (each.models(each.state).personal(number)[0] for each in (simulation, single))
        assert torch.equal(one, other)


def test_dapper_needs_public_rows():
    with pytest.raises(UserError, match="public rows"):
        play(small_simulation("dapper", public=0.0, validation=0.4), 1)


@pytest.mark.parametrize("name", ["mapper", "dapper"])
@pytest.mark.parametrize("grid", ["()", "(0.5,1.5)", "(-0.1,)", "(0.5,0.5)"])
def test_a_grid_is_of_different_shares(name, grid):
    with pytest.raises(
        UserError, match=r"\.grid must be different shares from 0 to 1, got .* Try 0.25, 0.5, 0.75"
    ):
        ALGORITHMS.build(f"{name}(grid={grid})")


@pytest.mark.parametrize("text", ["mapper(steps=0)", "dapper(rows=0)"])
def test_there_is_work_to_do(text):
    with pytest.raises(UserError, match=r"(Mapper.steps|Dapper.rows) must be 1 or more, got 0"):
        ALGORITHMS.build(text)
