"""Training alone, all rows at one place, and FedAvg tuned at home: what a table has beside every algorithm."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.helpers import NormBody
from unalike.errors import UserError
from unalike.federation.plan import Plan
from unalike.models import MODELS
from unalike.runs.run import run
from unalike.runs.small import play, small_dataset, small_simulation

WHOLE = {"batch_size": 256, "optimiser": "sgd", "epochs": 2, "dtype": "float64"}
"""Every step sees all rows, so that training is gradient descent."""


def by_hand(simulation, rows, steps):
    """Gradient descent of plain PyTorch from the run's initial weights."""
    net = MODELS.build("mlp(6,4)").build((5,), 3).double()
    net.load_state_dict(simulation.task.named(simulation.initial, torch.zeros(0)))
    optimiser = torch.optim.SGD(net.parameters(), lr=simulation.spec.lr)
    x, y = simulation.federation.train.take(torch.from_numpy(rows))
    for _ in range(steps):
        optimiser.zero_grad()
        functional.cross_entropy(net(x)[0], y).backward()
        optimiser.step()
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def personal(simulation, number):
    """The model that a party would deploy."""
    return simulation.models(simulation.state).personal(number)[0]


# --- local ---


@pytest.mark.parametrize("newcomers", [0.0, 0.34])
def test_alone_a_party_descends_on_its_own_rows_and_newcomers_do_as_long(newcomers):
    simulation = play(small_simulation("local", sample=1.0, newcomers=newcomers, **WHOLE), 3)
    for number, own in enumerate(simulation.federation.parties):
        assert torch.allclose(personal(simulation, number), by_hand(simulation, own.train, 6), atol=1e-12)


def test_alone_a_party_trains_when_it_is_asked():
    simulation = play(small_simulation("local", **WHOLE), 3)
    asked = [sum(number in simulation.cohort(round) for round in (1, 2, 3)) for number in range(6)]
    assert sorted(set(asked)) != [3]
    for number, rounds in enumerate(asked):
        rows = simulation.federation.parties[number].train
        assert torch.allclose(personal(simulation, number), by_hand(simulation, rows, 2 * rounds), atol=1e-12)


def test_alone_nothing_is_sent_whatever_the_channel():
    for channel in (None, "masked", "clip(1.0)+gauss(1.0)"):
        simulation = small_simulation("local", channel=channel)
        _, row = simulation.play_round()
        assert row["bytes_up"] == row["bytes_down"] == 0
        assert "epsilon" not in row
        assert simulation.state.server == {}


def test_alone_newcomers_are_reported_apart_and_select_nothing():
    result = run(data=small_dataset(), partition="natural", algorithm="local", rounds=2, newcomers=0.34)
    here, away = result.figures["personal"], result.figures["newcomers"]
    assert here["count"] + away["count"] <= 6
    assert 1 <= away["count"] <= 2
    assert all(one is None or other is None for one, other in zip(here["each"], away["each"], strict=True))
    assert result.figures["accuracy"] is None


def test_alone_statistics_of_batch_norm_are_each_partys_own():
    assert NormBody  # the net is registered
    simulation = play(small_simulation("local", model="test-norm-body", sample=1.0, batch_size=64), 1)
    assert len(simulation.state.own_buffers) == 6
    assert len({tuple(each.tolist()) for each in simulation.state.own_buffers.values()}) == 6


# --- pooled ---


@pytest.mark.parametrize("newcomers", [0.0, 0.34])
def test_pooled_is_descent_on_all_training_rows(newcomers):
    simulation = play(small_simulation("pooled", sample=1.0, newcomers=newcomers, **WHOLE), 3)
    federation = simulation.federation
    rows = np.concatenate([federation.parties[number].train for number in federation.population.members])
    assert len(federation.population.members) == (4 if newcomers else 6)
    assert simulation.population.most_rows == len(rows)
    assert torch.allclose(simulation.state.server["w"], by_hand(simulation, rows, 6), atol=1e-12)


def test_pooled_from_one_party_is_fedavg_to_the_bit():
    fields = {"data": small_dataset(), "partition": "iid", "parties": 1, "rounds": 3, "engine": "sequential"}
    one, other = (run(algorithm=name, **fields).figures for name in ("pooled", "fedavg"))
    assert one["weights_sha256"] == other["weights_sha256"]
    assert one["accuracy"] == other["accuracy"]


@pytest.mark.parametrize(
    ("work", "passes"),
    [({"epochs": 2}, 2.0), ({"epochs": 2, "sample": 0.5}, 1.0), ({"epochs": None, "steps": 3}, 0)],
)
def test_pooled_passes_over_the_rows_as_often_as_the_cohort_does(work, passes):
    simulation = small_simulation("pooled", **{"sample": 1.0, **work})
    worker = simulation.crew.worker(0)
    rows = sum(len(each.train) for each in simulation.federation.parties)
    steps = worker.recipe.work.count(rows)
    assert steps == (18 if "steps" in work else round(passes * -(-rows // 8)))


def test_pooled_sends_nothing_and_has_everybodys_own_rows_to_be_tried_on():
    simulation = small_simulation("pooled", channel="masked", held_out=0.3)
    other = small_simulation("fedavg", held_out=0.3)
    _, row = simulation.play_round()
    assert row["bytes_up"] == row["bytes_down"] == 0
    assert row["parties"]["count"] == 6 - sum(not len(each.held_out) for each in simulation.federation.parties)
    for one, same in zip(simulation.federation.parties, other.federation.parties, strict=True):
        assert np.array_equal(one.held_out, same.held_out)


def test_pooled_models_can_be_tuned_at_home():
    simulation = play(small_simulation("pooled", fine_tune=1, sample=1.0, **WHOLE), 2)
    w = simulation.state.server["w"]
    x = [personal(simulation, number) for number in range(6)]
    assert all(not torch.equal(each, w) for each in x)
    assert not torch.equal(x[0], x[1])


def test_pooled_is_refused_between_sites_and_as_a_base():
    fields = {"name": "clinics", "parties": ("a", "b"), "server": "0" * 64, "address": "localhost:1", "label": "y"}
    with pytest.raises(UserError, match="pooled needs all rows at one place, but sites keep theirs") as refused:
        Plan(**fields, train={"algorithm": "pooled"})
    assert "\n" not in str(refused.value)
    with pytest.raises(UserError, match="local sends nothing that a channel could carry"):
        Plan(**fields, train={"algorithm": "local", "channel": "masked"})


def test_pooled_follows_the_seasons():
    simulation = small_simulation("pooled")
    pool = simulation.crew
    pool.federation.partition = replace(
        pool.federation.partition,
        seasons=tuple(np.arange(len(rows)) % 2 for rows in pool.federation.partition.rows),
        rounds_per_season=1,
    )
    early, late = pool.rows(1), pool.rows(2)
    assert not np.array_equal(early, late)
    assert np.array_equal(early, np.concatenate([pool.federation.train_rows(number, 1) for number in range(6)]))
    assert np.array_equal(late, np.concatenate([pool.federation.train_rows(number, 2) for number in range(6)]))


# --- fedavg-tuned ---


@pytest.mark.parametrize(("text", "epochs"), [("fedavg-tuned", 2), ("fedavg-tuned(epochs=3)", 3)])
def test_tuned_is_fedavg_with_fine_tune_to_the_bit(text, epochs):
    fields = {"data": small_dataset(), "partition": "natural", "rounds": 1, "epochs": 2, "engine": "sequential"}
    named = run(algorithm=text, **fields).figures
    by_flag = run(algorithm="fedavg", fine_tune=epochs, **fields).figures
    assert named["weights_sha256"] == by_flag["weights_sha256"]
    assert named.get("personal") == by_flag["personal"]
    assert named["validation_loss"] == by_flag["validation_loss"]


def test_tuned_twice_is_refused_and_so_are_no_epochs():
    with pytest.raises(UserError, match="adapts its models itself"):
        small_simulation("fedavg-tuned", fine_tune=1)
    with pytest.raises(UserError, match="epochs must be from 1 to 10,000, got 0"):
        small_simulation("fedavg-tuned(epochs=0)")
