"""What happens to the running statistics of batch norm: average, local or drop."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.helpers import NormBody, recorded
from unalike.errors import UserError
from unalike.rounds.evaluation import evaluate
from unalike.rounds.state import State
from unalike.runs.simulation import Simulation
from unalike.runs.small import play, small_dataset
from unalike.runs.spec import RunSpec

FIELDS = {
    "partition": "natural", "model": "test-norm-body", "rounds": 4, "seed": 3,
    "epochs": 2, "batch_size": 64, "lr": 0.01, "optimiser": "sgd(momentum=0.9)",
}  # fmt: skip
NOTHING_HELD = {"held_out": 0.0, "validation": 0.0}


def simulation_of(policy, sample=0.67, **fields):
    data = small_dataset()
    data = replace(data, x=data.x * 5 + 3, x_test=data.x_test * 5 + 3)  # far from what fresh statistics expect
    spec = RunSpec(**(FIELDS | NOTHING_HELD | {"dtype": "float64"} | fields), batch_norm=policy, sample=sample)
    return Simulation(spec, data=data)


def trained_alone(simulation, number, w, buffers):
    """Weights and statistics of plain PyTorch after two steps over all rows of a party."""
    net = NormBody().build((5,), 3).double()
    net.load_state_dict(simulation.task.named(w, buffers), strict=False)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    own = simulation.federation.parties[number].train
    x, y = simulation.federation.train.take(torch.from_numpy(own))
    for _ in range(2):
        optimiser.zero_grad()
        functional.cross_entropy(net(x)[0], y).backward()
        optimiser.step()
    return torch.cat([net.body[1].running_mean, net.body[1].running_var])


def scores(simulation, w, buffers, x, y):
    """Mean loss and accuracy of plain PyTorch in evaluation."""
    net = NormBody().build((5,), 3).double().eval()
    net.load_state_dict(simulation.task.named(w, buffers), strict=False)
    logits = net(torch.as_tensor(x, dtype=torch.float64))[0].detach()
    y = torch.as_tensor(y)
    return float(functional.cross_entropy(logits, y)), float((logits.argmax(1) == y).double().mean())


def test_average_is_the_weighted_mean_of_the_partys_statistics():
    simulation = simulation_of("average")
    for number in (1, 2):
        w, before = simulation.state.server["w"], simulation.state.buffers
        cohort = simulation.cohort(number)
        each = [trained_alone(simulation, k, w, before).numpy() for k in cohort]
        sizes = [len(simulation.federation.parties[k].train) for k in cohort]
        play(simulation, 1)
        assert np.allclose(simulation.state.buffers, np.average(each, axis=0, weights=sizes), rtol=0, atol=1e-10)
    assert not simulation.state.own_buffers


def test_local_statistics_stay_where_they_are():
    """Each party goes on from its own; absent ones keep theirs; the shared ones are never touched."""
    simulation = simulation_of("local")
    fresh = simulation.task.initial_buffers()
    for number in (1, 2, 3):
        state, cohort = simulation.state, simulation.cohort(number)
        expected = dict(state.own_buffers)
        for k in cohort:
            before = state.own_buffers.get(k, fresh)
            expected[k] = trained_alone(simulation, k, state.server["w"], before)
        play(simulation, 1)
        assert torch.equal(simulation.state.buffers, fresh)
        assert set(simulation.state.own_buffers) == set(expected)
        for k, value in expected.items():
            assert torch.allclose(simulation.state.own_buffers[k], value, rtol=0, atol=1e-10)


def test_local_weights_are_those_of_average():
    """In training batch norm uses the batch: statistics only matter in evaluation."""
    one, other = (play(simulation_of(policy), 3).state.server["w"] for policy in ("average", "local"))
    assert torch.allclose(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("text", ["fedavg", "rfedavg+"])
def test_local_statistics_cost_nothing_and_the_server_sees_none(text):
    kept, shared = (simulation_of(policy, algorithm=text) for policy in ("local", "average"))
    replies = recorded(kept)
    _, row = kept.play_round()
    _, other = shared.play_round()
    for way in ("up", "down"):
        assert "running statistics" not in row["traffic"][way]
        assert other["traffic"][way].pop("running statistics") > 0
        assert row["traffic"][way] == other["traffic"][way]
    assert all(torch.equal(reply.buffers, kept.task.initial_buffers()) for reply in replies)


def test_local_statistics_are_measured_with():
    """rFedAvg+ looks at its features with the statistics that the party keeps."""
    simulation = play(simulation_of("local", algorithm="rfedavg+"), 2)
    state = simulation.state
    for k in simulation.cohort(2):
        x, _ = simulation.federation.train.take(torch.from_numpy(simulation.federation.parties[k].train))
        net = NormBody().build((5,), 3).double().eval()
        net.load_state_dict(simulation.task.named(state.server["w"], state.own_buffers[k]), strict=False)
        assert torch.allclose(state.parties[k]["delta_k"], net(x)[1].mean(dim=0), rtol=0, atol=1e-10)


def test_local_parties_evaluate_with_their_own_and_the_global_figure_is_their_mean():
    simulation = play(simulation_of("local", sample=1.0, held_out=0.2, validation=0.1), 3)
    state, data = simulation.state, simulation.federation.dataset
    figures = evaluate(simulation.federation, simulation.models(state))
    w, test = state.server["w"], (data.x_test, data.y_test)
    tests = [scores(simulation, w, state.own_buffers[k], *test) for k in range(6)]
    assert len({loss for loss, _ in tests}) == 6
    assert figures["loss"] == pytest.approx(np.mean([loss for loss, _ in tests]), abs=1e-8)
    assert figures["accuracy"] == pytest.approx(np.mean([accuracy for _, accuracy in tests]), abs=1e-8)
    losses, rows = [], []
    for k, party in enumerate(simulation.federation.parties):
        if len(party.held_out):
            own = party.held_out
            found = scores(simulation, state.server["w"], state.own_buffers[k], data.x[own], data.y[own])
            assert figures["parties"]["each"][k] == pytest.approx(found[1])
        if len(party.validation):
            own = party.validation
            found = scores(simulation, state.server["w"], state.own_buffers[k], data.x[own], data.y[own])
            losses.append(found[0])
            rows.append(len(own))
    assert figures["validation_loss"] == pytest.approx(np.average(losses, weights=rows), abs=1e-8)


def test_local_statistics_are_resumed():
    whole = play(simulation_of("local"), 4)
    half = play(simulation_of("local"), 2)
    resumed = simulation_of("local")
    resumed.state = State.of(2, {name: value.clone() for name, value in half.state.tensors().items()})
    play(resumed, 2)
    assert resumed.state.digest() == whole.state.digest()
    forgetful = simulation_of("local")
    forgetful.state = replace(half.state, own_buffers={})
    assert play(forgetful, 2).state.digest() != whole.state.digest()


def test_drop_has_no_statistics_at_all():
    simulation = simulation_of("drop")
    assert simulation.task.buffers.size == 0
    _, row = simulation.play_round()
    assert "running statistics" not in {*row["traffic"]["up"], *row["traffic"]["down"]}
    play(simulation, 2)
    assert simulation.state.buffers.numel() == 0
    assert not simulation.state.own_buffers
    assert {"body.1.weight", "body.1.bias"} <= set(simulation.task.named(simulation.initial, torch.zeros(0)))


def test_drop_evaluates_with_the_statistics_of_the_rows_at_hand():
    simulation = play(simulation_of("drop"), 2)
    data = simulation.federation.dataset
    net = NormBody().build((5,), 3).double().train()  # in training a layer uses the batch
    net.load_state_dict(simulation.task.named(simulation.state.server["w"], torch.zeros(0)), strict=False)
    logits = net(torch.from_numpy(data.x_test).double())[0]
    expected = functional.cross_entropy(logits, torch.from_numpy(data.y_test))
    figures = evaluate(simulation.federation, simulation.models(simulation.state))
    assert figures["loss"] == pytest.approx(float(expected.detach()), abs=1e-8)


@pytest.mark.parametrize("policy", ["local", "drop"])
def test_a_net_without_batch_norm_does_not_notice_and_says_so(policy):
    said, digests = [], []
    for which in ("average", policy):
        spec = RunSpec(**(FIELDS | {"model": "mlp(6,4)"}), batch_norm=which, algorithm="scaffold")
        digests.append(play(Simulation(spec, data=small_dataset(), say=said.append), 2).state.digest())
    assert digests[0] == digests[1]
    assert said == [f"mlp(6,4) has no batch norm: --batch-norm {policy} changes nothing."]


def test_without_running_statistics_each_party_is_evaluated_by_itself():
    """One party's figures do not depend on what the others hold."""
    simulation = play(simulation_of("drop", sample=1.0, held_out=0.3), 2)
    federation = simulation.federation
    figures = evaluate(federation, simulation.models(simulation.state))
    net = NormBody().build((5,), 3).double().train()  # in training mode the batch is what normalises
    net.load_state_dict(simulation.task.named(simulation.state.server["w"], torch.zeros(0)), strict=False)
    for k, party in enumerate(federation.parties):
        if len(party.held_out) > 1:
            x, y = federation.train.take(torch.from_numpy(party.held_out))
            right = float((net(x)[0].argmax(1) == y).double().mean())
            assert figures["parties"]["each"][k] == pytest.approx(right)


def test_the_policy_is_part_of_the_spec():
    keys = {RunSpec(batch_norm=policy).key for policy in ("average", "local", "drop")}
    assert len(keys) == 3
    with pytest.raises(UserError, match="batch_norm"):
        RunSpec(batch_norm="mean")


def test_parties_that_never_took_part_are_not_in_the_global_figure():
    simulation = play(simulation_of("local", sample=0.34), 1)
    state, data = simulation.state, simulation.federation.dataset
    assert len(state.own_buffers) == 2
    figures = evaluate(simulation.federation, simulation.models(state))
    each = [
        scores(simulation, state.server["w"], own, data.x_test, data.y_test) for own in state.own_buffers.values()
    ]
    assert figures["loss"] == pytest.approx(np.mean([loss for loss, _ in each]), abs=1e-8)


@pytest.mark.parametrize("policy", ["average", "drop"])
def test_a_batch_of_one_row_is_one_line(policy):
    with pytest.raises(UserError, match="batch of one row"):
        play(simulation_of(policy, batch_size=1), 1)


def test_local_figures_are_the_same_in_a_run_that_goes_on():
    """Parties take part in another order than that of their numbers, which is what a checkpoint keeps."""
    whole = play(simulation_of("local", sample=0.34, dtype="float32", seed=1), 4)
    resumed = simulation_of("local", sample=0.34, dtype="float32", seed=1)
    resumed.state = State.of(4, dict(sorted(whole.state.tensors().items())))
    assert list(whole.state.own_buffers) != list(resumed.state.own_buffers)
    one, other = (evaluate(each.federation, each.models(each.state)) for each in (whole, resumed))
    assert one == other
