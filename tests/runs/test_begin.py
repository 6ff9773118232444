"""Runs that begin with given weights, some layers frozen: ``--init`` and ``--freeze``."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import unalike
from unalike.algorithms import ALGORITHMS
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.runs.begin import read_weights, weights_sha256
from unalike.runs.record import WEIGHTS
from unalike.runs.simulation import Simulation
from unalike.runs.small import distance, play, small_dataset
from unalike.runs.spec import RunSpec

FIELDS = {"partition": "natural", "epochs": 1, "batch_size": 64, "lr": 0.05, "rounds": 2}


class Own(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.fc = nn.Linear(4, classes)
        self.one, self.norm, self.two = nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(torch.tanh(self.two(torch.relu(self.norm(self.one(x))))))


def go(**fields):
    return unalike.run(data=small_dataset(), **(FIELDS | fields))


@pytest.fixture
def weights(tmp_path):
    torch.manual_seed(3)
    save_file(Own(3).state_dict(), tmp_path / "own.safetensors")
    return tmp_path / "own.safetensors"


@pytest.mark.parametrize("engine", ["sequential", "vectorised", "compiled"])
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "fedper"])
def test_frozen_layers_are_never_trained_nor_sent(weights, algorithm, engine):
    spec = RunSpec.from_mapping(
        {
            **FIELDS,
            "model": Own,
            "init": str(weights),
            "freeze": "norm, one",
            "algorithm": algorithm,
            "engine": engine,
        }
    )
    simulation = Simulation(spec, data=small_dataset(), say=lambda line: None)
    assert simulation.task.size == 4 * 4 + 4 + 4 * 3 + 3
    assert simulation.task.buffers.size == 0
    assert torch.equal(simulation.initial[:16], load_file(weights)["two.weight"].reshape(-1))
    reference = play(Simulation(spec, data=small_dataset(), say=lambda line: None), 2)
    simulation.use("sequential", lambda line: None)
    play(simulation, 2)
    assert distance(simulation.state.tensors(), reference.state.tensors())[0] < 1e-5
    named = simulation.task.named(simulation.initial, simulation.state.buffers)
    for name, value in load_file(weights).items():
        if name.startswith(("one", "norm")) and value.is_floating_point():
            assert torch.equal(named[f"body.{name}"], value)
    if algorithm == "fedavg":
        assert simulation.state.server["w"].numel() == simulation.task.size


def test_a_run_goes_on_from_another_runs_model(tmp_path):
    first = go(model="mlp(4)", runs=tmp_path / "runs")
    second = go(model="mlp(4)", init=str(first.run_dir), rounds=1, runs=tmp_path / "runs")
    began = Simulation(second.spec, data=small_dataset(), say=lambda line: None)
    final = load_file(first.run_dir / WEIGHTS)
    assert torch.equal(began.initial[-3:], final["head.bias"])
    assert second.run_dir != first.run_dir
    assert RunSpec.from_toml(second.run_dir / "spec.toml") == second.spec


@pytest.mark.parametrize(
    ("first", "fields"),
    [
        ("ensemble(passes=2)", {"public": 0.2}),
        ("fedkt(student_epochs=1, passes=2)", {"public": 0.2}),
        ("dense(epochs=1, makes=1)", {}),
        ("feddf(batches=2)", {"public": 0.2}),
    ],
)
@pytest.mark.parametrize("then", ["fedavg", "scaffold"])
def test_few_rounds_of_one_algorithm_are_the_start_of_another(first, fields, then, tmp_path):
    """To the bit: what the first run ended with is what the second one's parties are sent first."""
    few = go(model="mlp(4)", algorithm=first, rounds=1, runs=tmp_path, **fields)
    final = load_file(few.run_dir / WEIGHTS)
    spec = {
        "model": "mlp(4)",
        "algorithm": then,
        "init": str(few.run_dir),
        "partition": "natural",
        "dtype": "float32",
    }
    began = Simulation(RunSpec(**spec), data=small_dataset(), say=lambda line: None)
    assert {key: value.numel() for key, value in final.items()} == dict(
        zip(began.task.parameters.names, began.task.parameters.sizes, strict=True)
    )
    ended = torch.cat([final[name].reshape(-1) for name in began.task.parameters.names])
    assert torch.equal(began.algorithm.send(began.task, began.state.server)["w"], ended)
    assert not torch.equal(
        Simulation(RunSpec(**spec | {"init": None}), data=small_dataset(), say=print).initial, ended
    )


def test_an_ensemble_of_several_nets_is_no_start(tmp_path):
    run = go(model="mlp(4)", algorithm="ensemble(distil=false)", rounds=1, runs=tmp_path)
    with pytest.raises(UserError, match="does not fit the net") as caught:
        go(model="mlp(4)", init=str(run.run_dir))
    assert "\n" not in str(caught.value)


def test_other_weights_are_another_run_and_no_weights_the_old_one(weights):
    plain, given = RunSpec(), RunSpec(init=str(weights))
    assert plain.key == RunSpec(init=None, freeze=None).key == RunSpec(freeze=" , ").key
    assert plain.code is None
    before = weights_sha256(str(weights))
    save_file({name: value + 1 for name, value in load_file(weights).items()}, weights)
    assert weights_sha256(str(weights)) != before
    assert len({plain.key, given.key, RunSpec(init=str(weights)).key}) == 3
    assert RunSpec(init=weights) == RunSpec(init=str(weights))
    assert RunSpec(freeze="body.1, head").key == RunSpec(freeze=["head", "body.1", "head"]).key != plain.key


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"init": "absent.safetensors"}, "Cannot read the weights absent.safetensors: No such file or directory"),
        ({"init": __file__}, "is not a safetensors file"),
        ({"init": "/dev/zero"}, "/dev/zero is not a file"),
        ({"init": "."}, "Give a .safetensors file or the folder of a finished run"),
        ({"freeze": "body.9"}, "Unknown layer to freeze 'body.9'"),
        ({"freeze": "body,head"}, "The net has nothing to train"),
        ({"model": "mlp(4)|mlp(5)", "freeze": "head"}, "init and freeze are for one net, but .* is 2"),
    ],
)
def test_mistakes_are_one_line(fields, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message) as caught:
        go(**fields)
    assert "\n" not in str(caught.value)


def test_weights_of_several_models_do_not_fit(tmp_path):
    clusters = next(entry.name for entry in ALGORITHMS if entry.name == "ifca")
    run = go(algorithm=clusters, model="mlp(4)", runs=tmp_path)
    with pytest.raises(UserError, match="does not fit the net: the net has no w"):
        go(model="mlp(4)", init=str(run.run_dir))
    save_file(MODELS.build("mlp(4)").build((5,), 3).state_dict(), tmp_path / "all.safetensors")
    with pytest.raises(UserError, match="begins with several models that differ"):
        go(algorithm=clusters, model="mlp(4)", init=str(tmp_path / "all.safetensors"))
    assert read_weights(str(run.run_dir))
