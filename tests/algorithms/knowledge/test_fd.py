"""FD: what parties say of their labels, what they hear of the others', and what they learn from it."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.algorithms.knowledge.played import NETS, own_rows, party_of, simulation_of
from tests.helpers import EVERY_ENGINE, recorded
from unalike.algorithms import Fd
from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.runs.small import play, small_simulation


def said_by(simulation, state, number):
    """By hand: for each label the mean scores of the party's own model on its training rows that have it."""
    x, y = own_rows(simulation, number, simulation.task.dtype)
    scores = simulation.task_of(number).logits(state.parties[number]["w"], Batch(x, y)).softmax(dim=1)
    has = torch.tensor([bool((y == label).any()) for label in range(3)])
    means = [scores[y == label].mean(dim=0) if has[label] else torch.zeros(3) for label in range(3)]
    return torch.stack([mean.to(scores.dtype) for mean in means]), has.to(scores.dtype)


@EVERY_ENGINE
def test_the_server_has_the_sums_over_parties_that_have_a_label(engine):
    simulation = small_simulation("fd", model=NETS, engine=engine, sample=1.0, public=0.0)
    after, row = play(simulation, 1).play_round()  # the second: sums do not pile up
    said = [said_by(simulation, after, number) for number in range(6)]
    assert torch.allclose(after.server["scores"], sum(scores for scores, _ in said), atol=1e-5)
    assert torch.equal(after.server["parties"], sum(has for _, has in said))
    assert float(after.server["parties"].min()) < 6  # a party lacks a label: the test would not see it otherwise
    assert row["traffic"]["up"] == {"scores": 6 * 9 * 4, "parties": 6 * 3 * 4}
    assert row["accuracy"] is None
    assert row["personal"]["count"] > 0


def test_the_mean_is_that_of_the_others_who_have_the_label():
    scores = torch.arange(9.0).reshape(3, 3).double()
    own = {
        "scores": torch.eye(3).double() * torch.tensor([[1.0], [1.0], [0.0]]),
        "parties": torch.tensor([1.0, 1, 0]),
    }
    received = {"scores": scores, "parties": torch.tensor([3.0, 1, 0]), "round": torch.tensor(4.0)}
    simulation = simulation_of("fd", [4])
    for at, there in ((4.0, 1), (3.0, 0)):  # of another round: the party is not in these sums
        me = party_of(simulation, "", received=received, state=own | {"round": torch.tensor(at)})
        told, known = Fd().others(me)
        count = torch.tensor([3.0, 1, 0]) - there * own["parties"]
        assert torch.equal(known, (count > 0).to(known.dtype))
        expected = (scores - there * own["scores"]) / count.clamp(min=1)[:, None]
        assert torch.allclose(told, expected.to(told.dtype))


def test_a_row_is_taught_by_its_label_unless_nobody_else_has_it():
    """Cross-entropy with the others' mean scores by PyTorch; label 2 has no teacher."""
    simulation = simulation_of("fd", [4])
    task, draw = simulation.task, torch.Generator().manual_seed(1)
    table = torch.rand(3, 3, generator=draw, dtype=torch.float64).softmax(dim=1)
    zero = torch.zeros((), dtype=torch.float64)
    sums = {"scores": table * 2, "parties": torch.tensor([2.0, 2, 0]), "round": zero + 2}
    own = {"scores": table * 0, "parties": torch.zeros(3), "round": zero}
    me = party_of(simulation, "", received=sums, state=own)
    x, y = own_rows(simulation, 0)
    assert set(y.tolist()) == {0, 1, 2}
    logits = task.logits(simulation.initial, Batch(x, y))
    taught = functional.cross_entropy(logits, table[y], reduction="none") * (y < 2)
    expected = functional.cross_entropy(logits, y) + 0.7 * taught.mean()
    assert torch.allclose(Fd(gamma=0.7).loss(me, simulation.initial, Batch(x, y)), expected, atol=1e-12)
    padded = Batch(torch.cat([x, x[:2] + 9]), torch.cat([y, y[:2]]), torch.tensor([1.0] * len(y) + [0.0] * 2))
    assert torch.allclose(Fd(gamma=0.7).loss(me, simulation.initial, padded), expected, atol=1e-12)


@EVERY_ENGINE
def test_without_a_teacher_it_is_training_alone(engine):
    """gamma 0, a single party, and the first round: nobody else has said anything."""
    runs = {name: play(small_simulation(name, engine=engine, public=0.0), 2) for name in ("fd(gamma=0)", "local")}
    alone = {name: play(simulation_of(name, [4], engine=engine), 2) for name in ("fd(gamma=5)", "local")}
    first = {name: play(small_simulation(name, engine=engine, public=0.0), 1) for name in ("fd(gamma=5)", "local")}
    for each in (runs, alone, first):
        models = [run.models(run.state).personal for run in each.values()]
        for number in range(next(iter(each.values())).population.size):
            assert torch.allclose(models[0](number)[0], models[1](number)[0], atol=1e-6)
    taught = play(small_simulation("fd(gamma=5)", engine=engine, public=0.0), 2).state
    free = runs["fd(gamma=0)"].state
    gaps = [float((taught.parties[k]["w"] - free.parties[k]["w"]).norm()) for k in taught.parties]
    assert max(gaps) > 1e-3


def test_absent_parties_hear_the_sums_of_those_who_were_there():
    """Nobody's own share is taken out of sums that it is not in."""
    simulation = play(small_simulation("fd", sample=0.5, dtype="float64", engine="sequential"), 1)
    there, said = simulation.cohort(1), simulation.state.server
    states = simulation.state.parties
    for number in range(6):
        state = states.get(number) or simulation.party_state(number)
        me = party_of(simulation, "", number, received=dict(said), state=dict(state))
        told, _ = Fd().others(me)
        own = said_by(simulation, simulation.state, number) if number in there else (0.0, 0.0)
        count = (said["parties"] - own[1]).clamp(min=1)
        assert torch.allclose(told, (said["scores"] - own[0]) / count[:, None], atol=1e-12)


def test_masked_sums_are_enough():
    hidden, shown = (
        play(small_simulation("fd", sample=1.0, public=0.0, **more), 3) for more in ({"channel": "masked"}, {})
    )
    for number in range(6):
        one, other = (run.state.parties[number]["w"] for run in (hidden, shown))
        assert torch.allclose(one, other, atol=1e-3)


def test_the_server_divides_by_what_is_added_so_noise_is_refused():
    with pytest.raises(UserError, match=r"divides by sums that --channel .* adds noise to"):
        small_simulation("fd", sample=1.0, channel="clip(1.0)+gauss(0.5)")


def test_what_leaves_a_party_is_small_and_told_in_words():
    assert Fd.sends == "scores by label"
    simulation = small_simulation("fd", sample=1.0)
    said = recorded(simulation)
    simulation.play_round()
    assert set(said[0].sum) == {"scores", "parties"}
    assert np.isfinite(said[0].sum["scores"]).all()


@pytest.mark.parametrize("value", [-1, "inf"])
def test_values_that_mean_nothing_are_refused(value):
    with pytest.raises(UserError, match="gamma must be >= 0"):
        Fd(gamma=float(value))
