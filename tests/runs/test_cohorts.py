"""Cohorts in whole runs: resumed to the same bits, counted bytes, what the record says, what privacy loses."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.helpers import regression_data
from unalike.channels.accountant import gauss_epsilon
from unalike.errors import UserError
from unalike.models import Batch
from unalike.rounds.state import State
from unalike.runs.run import run
from unalike.runs.simulation import Simulation
from unalike.runs.small import play, small_dataset, small_simulation
from unalike.runs.spec import RunSpec

RULES = ["label-balanced", "clustered", "clustered(by=rows)", "power-of-choice"]
SMALL = {"partition": "label-count(1)", "parties": 6, "sample": 0.5, "epochs": 1, "rounds": 4}


def test_uniform_is_the_default_and_changes_no_key():
    assert RunSpec(sample=0.5).key == RunSpec(sample=0.5, cohort="uniform").key
    assert RunSpec(sample=0.5, cohort="clustered").key != RunSpec(sample=0.5).key
    old = RunSpec(sample=0.5).to_toml().replace('cohort = "uniform"\n', "")
    assert RunSpec(sample=0.5).same_run(old)
    rows = small_simulation("fedavg", **SMALL).play_round()[1]
    assert "members" not in rows


@pytest.mark.parametrize("cohort", RULES)
def test_a_resumed_run_has_the_same_bits(cohort):
    whole = play(small_simulation("scaffold", cohort=cohort, **SMALL), 4)
    first = play(small_simulation("scaffold", cohort=cohort, **SMALL), 2)
    second = small_simulation("scaffold", cohort=cohort, **SMALL)
    second.state = State.of(2, {name: value.clone() for name, value in first.state.tensors().items()})
    assert play(second, 2).state.digest() == whole.state.digest()


@pytest.mark.parametrize("cohort", RULES)
def test_the_record_says_who_was_asked_and_what_was_looked_at(cohort):
    made = run(algorithm="fedavg", data=small_dataset(), cohort=cohort, **SMALL)
    told = made.figures["cohorts"]
    shares = np.bincount([n for row in made.rows for n in row["members"]], minlength=6) / 4
    assert told["participation"] == {"least": shares.min(), "most": shares.max(), "uniform": 0.5}
    assert "every party" in told["revealed"] or "every candidate" in told["revealed"]
    assert all(row["cohort"] == len(row["members"]) == 3 for row in made.rows)


def test_power_of_choice_asks_those_with_the_highest_loss_by_hand_and_counts_the_bytes():
    simulation = play(small_simulation("fedavg", cohort="power-of-choice(d=6)", engine="sequential", **SMALL), 1)
    before, federation, task = simulation.state.server["w"], simulation.federation, simulation.task
    losses = []
    for party in federation.parties:
        x, y = federation.train.take(torch.from_numpy(party.train))
        losses.append(float(task.loss(before, Batch(x, y))))
    simulation.state, row = simulation.play_round()
    assert row.get("members") == sorted(np.argsort(losses)[-3:].tolist())
    plain = small_simulation("fedavg", **SMALL).play_round()[1]["traffic"]
    model = before.numel() * before.element_size()
    assert row["traffic"]["up"] == plain["up"] | {"loss": 6 * before.element_size()}
    assert row["traffic"]["down"]["w"] == plain["down"]["w"] + 6 * model


def test_being_asked_for_a_loss_changes_nothing_at_a_party():
    """With candidates of whom all are chosen, the run is uniform's with everybody, bit for bit."""
    fields = SMALL | {"sample": 0.99, "parties": 6}
    simulation = small_simulation("scaffold", cohort="power-of-choice(d=6)", **fields)
    assert simulation.cohort_size == 6
    plain = small_simulation("scaffold", **fields)
    assert play(simulation, 2).state.digest() == play(plain, 2).state.digest()


@pytest.mark.parametrize("cohort", ["label-balanced", "clustered"])
def test_sampling_adds_no_privacy_where_cohorts_are_not_uniform(cohort):
    fields = SMALL | {"channel": "clip(1.0)+gauss(1.0)", "data": small_dataset(), "algorithm": "fedavg"}
    made = run(cohort=cohort, **fields)
    most = max(np.bincount([n for row in made.rows for n in row["members"]]))
    told = made.figures["privacy"]
    assert "nothing is claimed for sampling" in told["sampling"]
    assert told["epsilon"] == gauss_epsilon(0.5, int(most), told["delta"])
    assert "sampling" not in run(**fields).figures["privacy"]


@pytest.mark.parametrize("channel", ["masked", "clip(1.0)+gauss(1.0)"])
def test_losses_of_single_parties_are_not_for_channels_that_hide_them(channel):
    with pytest.raises(UserError, match="looks at the loss of single parties"):
        small_simulation("fedavg", cohort="power-of-choice", channel=channel, **SMALL)


def test_what_cannot_be_chosen_by_is_refused():
    with pytest.raises(UserError, match="chooses among parties, but all take part"):
        RunSpec(cohort="clustered")
    with pytest.raises(UserError, match="no one model whose losses"):
        small_simulation("local", cohort="power-of-choice", **SMALL)
    spec = RunSpec(cohort="label-balanced", sample=0.5, partition="iid", parties=4)
    with pytest.raises(UserError, match="label counts of each party, which are not known"):
        Simulation(spec, data=regression_data())
    Simulation(replace(spec, cohort="clustered(by=rows)"), data=regression_data(), say=lambda line: None)


def test_newcomers_are_never_asked_and_have_no_say():
    simulation = small_simulation("fedavg", cohort="label-balanced", newcomers=0.34, **SMALL)
    away = set(simulation.population.newcomers)
    assert len(away) == 2
    for _ in range(4):
        simulation.state, row = simulation.play_round()
        assert not away & set(row["members"])
    counts = simulation.federation.label_counts[simulation.population.members]
    assert np.array_equal(simulation.cohorts.known.labels, counts)
