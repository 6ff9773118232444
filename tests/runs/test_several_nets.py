"""Nets that differ between parties: ``--model "a|b|c"`` gives party k the k-th, counted round and round."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.helpers import EVERY_ENGINE, frozen_model
from unalike.engines.sequential import Sequential
from unalike.errors import UserError
from unalike.models import Batch, Net
from unalike.models.model import register_model
from unalike.rounds.state import State
from unalike.runs.run import Watcher, run
from unalike.runs.saving import _origin
from unalike.runs.small import distance, play, small_dataset, small_simulation

NETS = ["mlp(6,4)", "mlp(8)", "logistic"]


def test_each_party_has_its_net_and_its_own_initial_weights():
    simulation = small_simulation("fedmd", model="|".join(NETS))
    alone = [small_simulation("fedavg", model=net) for net in NETS]
    for number in range(6):
        task = simulation.task_of(number)
        assert task is simulation.federation.task_of(number) is simulation.crew.worker(number).task
        assert torch.equal(simulation.party_state(number)["w"], alone[number % 3].initial)
        assert task.population == 6
        assert torch.equal(task.public.x, simulation.task.public.x)


@EVERY_ENGINE
def test_a_party_trains_as_it_would_among_parties_of_its_own_net(engine):
    """FedMD without a digest that moves: before round 1 a party depends on its own rows and net alone."""
    mixed = small_simulation("fedmd", model="|".join(NETS), engine=engine, sample=1.0)
    states = {}
    for net in NETS:
        same = small_simulation("fedmd", model=net, engine=engine, sample=1.0)
        script = same.algorithm.prepare(same.task, same.state.server)
        states[net] = prepared(same, script)
    together = prepared(mixed, mixed.algorithm.prepare(mixed.task, mixed.state.server))
    for number in range(6):
        expected = states[NETS[number % 3]][number]["w"]
        assert distance({"w": together[number]["w"]}, {"w": expected})[0] <= 1e-6


def prepared(simulation, script):
    """The parties' states after the exchanges of a script in round 0."""
    from unalike.rounds.ledger import Ledger

    ledger = Ledger(simulation.state.buffers, cohort=tuple(range(6)))
    simulation._converse(script, 0, ledger)
    return ledger.states


@EVERY_ENGINE
def test_resumed_to_the_bit(engine):
    fields = {"model": "|".join(NETS), "engine": engine}
    whole = play(small_simulation("fedmd", **fields), 3)
    first = play(small_simulation("fedmd", **fields), 1)
    second = small_simulation("fedmd", **fields)
    second.state = State.of(1, {name: value.clone() for name, value in first.state.tensors().items()})
    assert play(second, 2).state.digest() == whole.state.digest()


def test_one_model_for_all_is_refused():
    for text in ("fedavg", "scaffold", "ditto", "fedrep", "fedamp", "ifca", "cfl"):
        with pytest.raises(
            UserError, match=r"has models to share, which nets that differ .* cannot share\. Name one"
        ):
            small_simulation(text, model="mlp(6,4)|mlp(8)")


@pytest.mark.parametrize("model", ["test-norm-body|mlp(8)", "mlp(8)|test-norm-body"])
def test_batch_norm_in_any_of_the_nets_needs_statistics_of_ones_own(model):
    with pytest.raises(UserError, match=r"no common statistics of batch norm\. Use --batch-norm local\."):
        small_simulation("fedmd", model=model)
    fields = {"model": model, "batch_norm": "local", "batch_size": 64, "sample": 1.0, "engine": "sequential"}
    simulation = play(small_simulation("fedmd", **fields), 2)
    norm = model.split("|").index("test-norm-body")
    for number, statistics in simulation.state.own_buffers.items():
        if number % 2 == norm:
            assert len(statistics) == 8
            assert (statistics != simulation.task_of(number).initial_buffers()).any()
        else:
            assert not len(statistics)
    _, row = simulation.play_round()
    assert row["personal"]["count"] > 0
    assert "running statistics" not in row["traffic"]["up"]


def test_uploads_that_differ_are_refused_in_one_line():
    with pytest.raises(UserError, match=r"party 1 uploads .*All parties must upload the same keys and shapes\."):
        play(small_simulation("def-kt", model="mlp(6,4)|mlp(8)", sample=1.0, engine="sequential"), 4)


def test_each_nets_parties_are_judged_on_as_many_rows_as_the_net_needs():
    """Batch norm without statistics cannot judge a row alone; an mlp can."""
    fields = {"batch_norm": "drop", "batch_size": 64, "sample": 1.0, "held_out": 0.3, "engine": "sequential"}
    simulation = play(small_simulation("fedmd", model="mlp(8)|test-norm-body", **fields), 1)
    parties, rows = list(simulation.federation.parties), simulation.federation.train
    parties[1] = replace(parties[1], held_out=parties[1].held_out[:1])
    simulation.federation.parties = parties
    figures = simulation.figures(simulation.state)
    assert figures["personal"]["each"][1] is None
    models = simulation.models(simulation.state).personal
    for number in (0, 2, 3, 4, 5):
        x, y = rows.take(torch.from_numpy(parties[number].held_out))
        logits = simulation.task_of(number).logits(models(number)[0], Batch(x, y))
        right = (logits.argmax(1) == y).double().mean()
        assert figures["personal"]["each"][number] == pytest.approx(float(right))


@register_model("test-branches")
class Branching:
    """A net that cannot be stacked, which only shows when it is tried."""

    def build(self, shape, classes):
        class Branch(nn.Module):
            def forward(self, x):
                return x if x.sum() > 0 else x * 1

        return Net(nn.Sequential(nn.Linear(5, 4), Branch()), nn.Linear(4, classes))


@pytest.mark.parametrize("model", ["test-branches|mlp(8)", "mlp(8)|test-branches"])
def test_a_run_goes_on_where_one_of_its_nets_has_fallen_back(model, tmp_path):
    class Stopped(Watcher):
        def round_done(self, row):
            if row["round"] == 2:
                raise KeyboardInterrupt

    fields = {"algorithm": "fedmd", "model": model, "engine": "vectorised", "public": 0.1, "rounds": 4}
    spec = {**fields, "partition": "natural", "data": small_dataset(), "held_out": 0.2, "batch_size": 8}
    whole = run(**spec, runs=tmp_path / "whole").figures
    with pytest.raises(KeyboardInterrupt):
        run(**spec, runs=tmp_path / "cut", watcher=Stopped())
    resumed = run(**spec, runs=tmp_path / "cut").figures
    assert resumed["weights_sha256"] == whole["weights_sha256"]
    assert sorted(resumed["engine"].split("|")) == ["sequential", "vectorised"]
    assert resumed["engine"] == whole["engine"]


def test_frozen_layers_of_every_net_are_the_runs():
    """A checkpoint is one of another run where the second net's frozen layers have changed."""
    model = f"mlp(8)|{frozen_model('body.1')}"
    one, other = (small_simulation("fedmd", model=model, seed=seed) for seed in (1, 2))
    assert _origin(one)["constants_sha256"] != _origin(other)["constants_sha256"]
    assert "constants_sha256" not in _origin(small_simulation("fedmd", model="mlp(8)|logistic"))


def test_engines_are_those_of_each_net():
    simulation = small_simulation(
        "fedmd", model="mlp(6,4)|test-norm-body", batch_norm="local", engine="vectorised"
    )
    names = [type(engine) for engine in simulation.engine._engines]
    assert names[0] is not Sequential
    assert names[1] is Sequential
