"""The ensemble of one round: who is a member, what it says, and what a net learns of it."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

import unalike
from tests.helpers import EVERY_ENGINE, recorded, regression_data
from unalike.algorithms import OneShotEnsemble
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.runs.small import play, small_dataset, small_simulation

ALL = {"sample": 1.0, "validation": 0.2, "held_out": 0.0}
TEN = {"partition": "natural", "rounds": 1, "epochs": 2, "model": "mlp(6,4)", "public": 0.1}


def played(text, **fields):
    """The simulation after a round, and what the parties sent in it."""
    simulation = small_simulation(text, **ALL | {"dtype": "float64"} | fields)
    replies = recorded(simulation)
    play(simulation, 1)
    return simulation, replies[0].each


def taught(simulation, scores, batches):
    """A net that starts at the initial weights and learns these scores of the public rows, by PyTorch alone."""
    net = MODELS.build("mlp(6,4)").build((5,), 3).double()
    net.load_state_dict(simulation.task.named(simulation.initial, simulation.state.buffers))
    steps = torch.optim.Adam(net.parameters(), lr=1e-3)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(steps, T_max=batches)
    for _ in range(batches):
        steps.zero_grad()
        functional.cross_entropy(net(simulation.task.public.x)[0], scores).backward()
        steps.step()
        falling.step()
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def said(simulation, models, x):
    """The mean of the models' probabilities."""
    return torch.stack([net_of(simulation, w)(x)[0].softmax(dim=1) for w in models]).mean(dim=0).detach()


def net_of(simulation, w):
    net = MODELS.build("mlp(6,4)").build((5,), 3).double()
    net.load_state_dict(simulation.task.named(w, simulation.state.buffers))
    return net


@EVERY_ENGINE
def test_a_net_learns_the_mean_of_what_all_members_say(engine):
    dtype = {"dtype": "float32"} if engine == "compiled" else {}
    simulation, uploads = played("ensemble(passes=8)", engine=engine, **dtype)
    assert list(uploads) == list(range(6))
    models = [uploads[k]["w"].double() for k in uploads]
    simulation.task.public = replace(simulation.task.public, x=simulation.task.public.x.double())
    expected = taught(simulation, said(simulation, models, simulation.task.public.x), 8)
    assert torch.allclose(simulation.state.server["w"].double(), expected, atol=1e-5 if dtype else 1e-10)


def test_one_partys_ensemble_is_its_own_net_distilled():
    simulation, uploads = played("ensemble(members=largest, count=1, passes=8)")
    largest = max(uploads, key=lambda k: len(simulation.federation.parties[k].train))
    alone = said(simulation, [uploads[largest]["w"]], simulation.task.public.x)
    assert torch.allclose(simulation.state.server["w"], taught(simulation, alone, 8), atol=1e-10)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize("members", ["largest", "best"])
def test_members_are_chosen_by_rows_or_by_their_own_validation_rows(members, engine):
    simulation, uploads = played(f"ensemble(members={members}, count=2)", engine=engine)
    federation, by = simulation.federation, {}
    for k, party in enumerate(federation.parties):
        x, y = federation.train.take(torch.from_numpy(party.validation))
        loss = functional.cross_entropy(net_of(simulation, uploads[k]["w"])(x)[0], y).item()
        by[k] = len(party.train) if members == "largest" else -loss
        assert float(uploads[k]["by"]) == pytest.approx(by[k], rel=1e-9)
    best = sorted(sorted(by, key=lambda k: -by[k])[:2])
    assert simulation.algorithm.chosen(uploads) == best
    assert OneShotEnsemble(members=members, count=99).chosen(uploads) == list(range(6))


def test_equal_candidates_are_taken_by_number():
    same = {k: {"by": torch.tensor(3.0)} for k in (4, 1, 2)}
    assert OneShotEnsemble(members="largest", count=2).chosen(same) == [1, 2]


def test_an_ensemble_that_is_not_distilled_is_judged_by_the_mean_of_its_answers():
    simulation = small_simulation("ensemble(distil=false)", **ALL | {"dtype": "float64", "public": 0.0})
    replies = recorded(simulation)
    simulation.state, row = simulation.play_round()
    x, y = simulation.federation.test.take(torch.arange(len(simulation.federation.test)))
    scores = said(simulation, [upload["w"] for upload in replies[0].each.values()], x)
    assert row["accuracy"] == pytest.approx(float((scores.argmax(dim=1) == y).double().mean()))
    assert row["loss"] == pytest.approx(float(functional.nll_loss(scores.log(), y)), rel=1e-9)


def test_a_kept_ensemble_answers_with_all_of_its_nets(tmp_path):
    result = unalike.run(data=small_dataset(), algorithm="ensemble(distil=false)", runs=tmp_path, **TEN)
    model = unalike.load(result.run_dir)
    x, y = small_dataset().x_test, small_dataset().y_test
    assert result.accuracy == pytest.approx(float((model.predict_proba(x, party=0).argmax(axis=1) == y).mean()))
    with pytest.raises(UserError, match="does not fit the net") as caught:
        unalike.run(data=small_dataset(), init=str(result.run_dir), **TEN)
    assert "\n" not in str(caught.value)


def test_labels_of_public_rows_are_never_looked_at():
    ends = []
    for turn in (0, 1):
        simulation = small_simulation("ensemble(passes=5)", **ALL)
        simulation.task.public = replace(simulation.task.public, y=(simulation.task.public.y + turn) % 3)
        ends.append(play(simulation, 1).state.digest())
    assert ends[0] == ends[1]


def test_a_later_round_begins_at_the_student():
    simulation, _ = played("ensemble(passes=5)")
    replies, before = recorded(simulation), simulation.state.server["w"]
    simulation.spec = replace(simulation.spec, lr=1e-19)
    play(simulation, 1)
    sent = replies[0].each[0]["w"]
    assert torch.allclose(sent, before, atol=1e-12)
    assert not torch.allclose(sent, simulation.initial, atol=1e-3)


def test_the_long_training_may_be_longer_than_the_runs():
    """Twice the epochs, twice the steps of one whole batch each: another model."""
    fields = {"batch_size": 256, "optimiser": "sgd"}
    _, one = played("ensemble(passes=0)", **fields, epochs=4)
    _, other = played("ensemble(passes=0, epochs=4)", **fields, epochs=1)
    assert all(torch.allclose(one[k]["w"], other[k]["w"], atol=1e-12) for k in one)


def test_numbers_are_learnt_by_their_squared_distance():
    result = unalike.run(
        data=regression_data(),
        algorithm="ensemble",
        partition="natural",
        model="mlp(8)",
        rounds=1,
        public=0.2,
    )
    assert result.figures["rmse"] < 25


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        ("ensemble(count=0)", {}, r"OneShotEnsemble.count must be at least 1, got 0"),
        ("ensemble(epochs=-1)", {}, r"OneShotEnsemble.epochs must be at least 0, got -1"),
        ("ensemble(rate=0)", {}, r"Distillation's lr must be above 0, got 0"),
        ("ensemble", {"public": 0.0}, r"uses public rows, of which there are none\. Give some: --public 0\.1"),
        ("ensemble", {"model": "test-norm-body", "batch_size": 64}, r"running statistics .*Use --batch-norm drop"),
    ],
)
def test_mistakes_are_one_line(text, fields, message):
    with pytest.raises(UserError, match=message) as caught:
        small_simulation(text, **ALL | fields)
    assert "\n" not in str(caught.value)
