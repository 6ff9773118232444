"""FeSEM: parties go to the nearest centre, and centres are the means of their members' models."""

import pytest
import torch

from tests.algorithms.clustered.planted import (
    GROUPS,
    centres,
    group_means,
    members,
    opposed,
    quadratics,
    rounds_from,
)
from tests.helpers import ENGINES, EVERY_ENGINE, one_round, recorded
from unalike.algorithms import FeSem
from unalike.rounds.rows import batch_of
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

WHOLE = LocalWork(8, steps=60)
"""Enough to get to the party's own optimum."""


@EVERY_ENGINE
def test_one_centre_is_fedavg_to_the_bit(engine):
    one = play(small_simulation("fesem(clusters=1)", engine=engine), 3).state
    average = play(small_simulation("fedavg", engine=engine), 3).state
    assert torch.equal(one.server["w"][0], average.server["w"])


@ENGINES
@pytest.mark.parametrize("start", ["from the groups", "at random"])
def test_planted_groups_are_found_and_centres_are_their_means(engine, start):
    """Each party's own optimum is where it ends, so a centre is the mean of those, by rows."""
    states = {}
    if start == "from the groups":  # every party has a model near its own optimum
        states = {
            k: {"member": torch.eye(3, dtype=torch.float64)[0], "w": c + 0.1} for k, c in enumerate(centres())
        }
        models = group_means() + 1
    else:
        models = torch.zeros(3, 2, dtype=torch.float64)
    found, states = rounds_from(FeSem(3), models, 8, engine=engine, states=states, work=WHOLE)
    clusters = members(states)
    assert len(set(zip(clusters, GROUPS, strict=True))) == 3  # the same, but for their names
    for cluster, group in set(zip(clusters, GROUPS, strict=True)):
        assert torch.allclose(found[cluster], group_means()[group], atol=1e-9)


@ENGINES
def test_the_nearest_is_by_squared_distance(engine):
    """(3, 3) is nearer to the first centre by the sum of squares, and to the second by the sum of differences."""
    models = torch.tensor([[0.0, 0.0], [3.0, 7.3], [50.0, 50.0]], dtype=torch.float64)
    one = {"member": torch.eye(3, dtype=torch.float64)[2], "w": torch.tensor([3.0, 3.0], dtype=torch.float64)}
    _, states = rounds_from(FeSem(3), models, 1, engine=engine, states={0: one}, cohort=[0])
    assert ((models[:2] - one["w"]).abs().sum(dim=1)).argmin() == 1
    assert members(states) == [0]


@ENGINES
def test_members_start_from_their_centre_and_an_empty_cluster_keeps_it(engine):
    """One step of rate 0.5 goes half way from the centre to the party's optimum, wherever its own model was."""
    models = torch.tensor([[1.0, 1.0], [90.0, 90.0], [-90.0, 90.0]], dtype=torch.float64)
    known = {"member": torch.eye(3, dtype=torch.float64)[0]}
    states = {k: known | {"w": c.clone()} for k, c in enumerate(centres())}
    found, states = rounds_from(FeSem(3), models, 1, engine=engine, states=states, work=LocalWork(8, steps=1))
    for k, centre in enumerate(centres()):
        assert torch.allclose(states[k]["w"], (models[0] + centre) / 2, atol=1e-12)
    assert torch.equal(found[1:], models[1:])


def test_who_has_no_model_yet_takes_a_centre_at_random():
    states = {}
    same = {"work": LocalWork(8, steps=1), "lr": 0.1}
    one_round(FeSem(3), quadratics(), {"w": torch.zeros(3, 2, dtype=torch.float64)}, states, **same)
    assert len(set(members(states))) > 1
    assert members(states) != list(GROUPS)


def test_centres_start_from_the_runs_weights():
    simulation = small_simulation("fesem(clusters=3)")
    assert torch.equal(simulation.state.server["w"], simulation.initial.expand(3, -1))


def test_a_centre_of_few_is_never_opened_where_single_uploads_are_hidden():
    hidden = opposed("fesem", (0, 0, 0, 0, 1, 1), models=(1, -1), channel="masked")
    replies = recorded(hidden)
    for _ in range(3):
        before = hidden.state.server["w"]
        play(hidden, 1)
        counted, summed = replies[-2:]
        few = counted.sum["members"] < 3
        assert not summed.weighted_sums["delta"][few].any()
        assert torch.equal(hidden.state.server["w"][few], before[few])
        assert (hidden.state.server["w"] != before).any()


def test_everybody_evaluates_the_centre_of_least_loss_newcomers_too():
    simulation = play(opposed("fesem", models=(1, -1), newcomers=0.25), 1)
    server = simulation.state.server["w"]
    assert simulation.figures(simulation.state)["newcomers"]["count"] == 2
    for number in range(8):
        w, _ = simulation.models(simulation.state).personal(number)
        losses = [simulation.task.loss(one, _rows(simulation, number)) for one in server]
        assert torch.equal(w, server[int(torch.stack(losses).argmin())])


def _rows(simulation, number):
    return batch_of(simulation.federation.train, torch.from_numpy(simulation.federation.parties[number].train))
