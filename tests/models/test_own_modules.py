"""Modules of the user's own are trained like any net: on all engines, by algorithms of all kinds."""

import functools
import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

import unalike
from unalike import own_files
from unalike.errors import UserError
from unalike.models import MODELS, Task
from unalike.models.own import files_of, model_text, why_unkept
from unalike.runs.build import make_tasks
from unalike.runs.simulation import Simulation
from unalike.runs.small import distance, play, small_dataset
from unalike.runs.spec import RunSpec

FIELDS = {"partition": "natural", "rounds": 2, "epochs": 1, "batch_size": 64, "lr": 0.05}


@pytest.fixture(autouse=True)
def _nothing_is_named_before(monkeypatch):
    monkeypatch.setattr(own_files, "_allowed", set())


class Plain(nn.Module):
    """The head first, a width of its own."""

    def __init__(self, shape, classes, width=4):
        super().__init__()
        self.fc = nn.Linear(width, classes)
        self.one = nn.Linear(math.prod(shape), width)

    def forward(self, x):
        return self.fc(torch.tanh(self.one(x)))


class Normed(Plain):
    def __init__(self, shape, classes):
        super().__init__(shape, classes)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.fc(torch.relu(self.norm(self.one(x))))


class Dropping(Plain):
    def forward(self, x):
        return self.fc(functional.dropout(self.one(x), 0.3, self.training))


class Tied(Plain):
    def __init__(self, shape, classes):
        super().__init__(shape, classes, 5)
        self.two = nn.Linear(5, 5)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.fc(torch.tanh(self.two(torch.tanh(self.one(x)))))


class Mixing(Plain):
    def forward(self, x):
        hidden = self.one(x)
        return self.fc(torch.relu(hidden - hidden.mean(dim=0)))


class Frozen(Plain):
    def __init__(self, shape, classes):
        super().__init__(shape, classes)
        self.two = nn.Linear(4, 4)
        self.one.requires_grad_(False)

    def forward(self, x):
        return self.fc(torch.tanh(self.two(torch.tanh(self.one(x)))))


class Attends(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.fc, self.up = nn.Linear(4, classes), nn.Linear(1, 4)
        self.place = nn.Parameter(torch.zeros(5, 4))
        layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1)

    def forward(self, x):
        return self.fc(self.layers(self.up(x[..., None]) + self.place).mean(dim=1))


class Scaled(Plain):
    def forward(self, x):
        return super().forward(x) / 2


def chain(classes):
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, classes))


def played(model, engine="sequential", **fields):
    said = []
    spec = RunSpec.from_mapping({**FIELDS, "model": model, "engine": engine, **fields})
    simulation = play(Simulation(spec, data=small_dataset(), say=said.append), 2)
    return simulation, said


NETS = {
    "plain": (Plain, "vectorised"),
    "batch norm": (Normed, "sequential"),
    "dropout": (Dropping, "sequential"),
    "tied": (Tied, "vectorised"),
    "mixed rows": (Mixing, "sequential"),
    "frozen": (Frozen, "vectorised"),
    "transformer": (Attends, "vectorised"),
    "chain": (chain, "vectorised"),
    "after the head": (unalike.module(Scaled, head="fc"), "vectorised"),
    "no head": (unalike.module(Scaled, head="none"), "vectorised"),
}


@pytest.mark.parametrize(("model", "stacked"), NETS.values(), ids=NETS)
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "moon", "rfedavg", "fedper", "fedrep(2, 1)"])
def test_engines_agree(model, stacked, algorithm):
    if "head='none'" in str(model) and algorithm not in ("fedavg", "scaffold"):
        with pytest.raises(UserError, match=r"the net has no head \(head=none\)"):
            played(model, algorithm=algorithm)
        return
    reference, _ = played(model, algorithm=algorithm)
    for engine in ("vectorised", "compiled"):
        simulation, said = played(model, engine, algorithm=algorithm)
        compiled = engine == "compiled" and model is chain
        used, told = simulation.engine.name, [line for line in said if "engine" in line]
        assert used == ("compiled" if compiled else stacked) or (model is Attends and used == "sequential")
        assert bool(told) == (used != engine)
        assert distance(reference.state.tensors(), simulation.state.tensors())[0] < 1e-5
    assert distance({"w": reference.initial}, {"w": _weights(reference)})[0] > 0


def _weights(simulation):
    server = simulation.state.server
    return server["w"] if server["w"].shape == simulation.initial.shape else simulation.initial + 1


def test_the_head_is_the_last_part_of_the_vector_and_fedper_keeps_it_at_home():
    simulation, _ = played(Plain, algorithm="fedper")
    task = simulation.task
    assert task.slices["head"] == slice(task.size - 15, task.size)  # 4 x 3 weights and 3 biases
    assert task.feature_size == 4
    assert simulation.state.server["w"].numel() == task.slices["body"].stop


def test_a_class_a_factory_options_and_an_instance():
    torch.manual_seed(0)
    instance = Plain((5,), 3, width=6)
    for model, size in ((Plain, 39), (functools.partial(Plain, width=6), 57), (instance, 57), (chain, 66)):
        assert played(model)[0].task.size == size
    began = make_tasks(RunSpec(model=instance, seed=5), small_dataset(), torch.device("cpu"))[0].initial()
    assert torch.equal(began[-3:], instance.fc.bias)  # it begins with its weights, whatever the seed
    assert torch.equal(began[:30], instance.one.weight.reshape(-1))


def test_options_that_no_text_can_hold():
    """A function as an option: the net is one of this program then, with a fingerprint all the same."""
    one, other = (model_text(functools.partial(Plain, width=width)) for width in (6, math.floor))
    assert (one.split("(")[0], other.split("(")[0]) == ("module", "typed")
    assert model_text(functools.partial(Plain, width=math.floor)) == other
    assert model_text(functools.partial(Plain, width=math.ceil)) != other


def test_training_leaves_an_instance_and_the_users_stream_alone():
    instance = Normed((5,), 3)
    before = {name: value.clone() for name, value in instance.state_dict().items()}
    state = torch.random.get_rng_state()
    played(instance)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(before[name], value) for name, value in instance.state_dict().items())
    assert isinstance(instance.fc, nn.Linear)


def test_the_trained_module_is_the_users_own():
    for model in (Plain, Normed, Tied, Frozen, Plain((5,), 3)):
        simulation, _ = played(model)
        task, w = simulation.task, simulation.state.server["w"]
        module = task.module(task.named(w, simulation.state.buffers))
        kind = model if isinstance(model, type) else type(model)
        assert type(module) is kind
        assert {"fc.weight", "one.weight"} <= module.state_dict().keys()
        x = torch.randn(8, 5)
        batch = unalike.Batch(x, x, buffers=simulation.state.buffers)
        assert torch.allclose(module(x), task.logits(w, batch), atol=1e-6)


def test_the_text_names_the_file_and_nothing_is_run_for_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text("import other\nraise SystemExit('was run')")
    (tmp_path / "other.py").write_text("")
    text = "mlp(8)|module:nets.py:deep.Net(head=fc.1, width=8, sizes=(1, 2), kind=wide)"
    part = MODELS.build(text).parts[1]
    assert (part.where, part.head) == ("nets.py:deep.Net", "fc.1")
    assert dict(part.options) == {"kind": "wide", "sizes": (1, 2), "width": 8}
    assert MODELS.describe(MODELS.build(text)) == MODELS.describe(
        MODELS.build(MODELS.describe(MODELS.build(text)))
    )
    assert [file.path.name for file in files_of(text)] == ["nets.py", "other.py"]
    assert RunSpec(model=text).code
    assert files_of("mlp(8)") == ()
    with pytest.raises(UserError, match="code that nobody has named here"):
        make_tasks(RunSpec(model=text), small_dataset(), torch.device("cpu"))


def test_changed_code_is_another_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "import torch\ndef make(classes):\n    return torch.nn.Linear(5, classes)\n"
    (tmp_path / "nets.py").write_text(text)

    def go():
        return unalike.run(data=small_dataset(), model="module:nets.py:make", runs=tmp_path / "runs", **FIELDS)

    first = go()
    assert go().run_dir == first.run_dir
    (tmp_path / "nets.py").write_text(text.replace("classes)\n", "classes, bias=False)\n"))
    second = go()
    assert second.run_dir != first.run_dir
    assert (first.figures["weights"], second.figures["weights"]) == (18, 15)


def test_an_instance_is_named_by_its_weights():
    one, other = Plain((5,), 3), Plain((5,), 3)
    assert model_text(one) != model_text(other)
    other.load_state_dict(one.state_dict())
    assert model_text(one) == model_text(other)
    assert RunSpec(model=one).key == RunSpec(model=other).key
    assert RunSpec(model=unalike.module(one, head="fc")).key != RunSpec(model=one).key


def test_what_has_no_fingerprint_is_trained_and_not_recorded(tmp_path):
    width = 6
    for model in (
        lambda classes: nn.Linear(5, classes),
        lambda: nn.Sequential(nn.Linear(5, width), nn.Linear(width, 3)),
    ):
        with pytest.warns(UserWarning, match="has no fingerprint .*a lambda.*: this run is not recorded"):
            result = unalike.run(data=small_dataset(), model=model, runs=tmp_path / "runs", **FIELDS)
        assert result.run_dir is None
        assert not (tmp_path / "runs").exists()
    assert why_unkept(model_text(Plain)) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert unalike.run(data=small_dataset(), model=Plain, runs=tmp_path / "runs", **FIELDS).run_dir.is_dir()
        unalike.run(data=small_dataset(), model=model, **FIELDS)  # nobody asked for a record


def test_an_instance_has_a_run_folder_and_is_found_again(tmp_path):
    instance = Plain((5,), 3)
    go = functools.partial(unalike.run, data=small_dataset(), runs=tmp_path / "runs", **FIELDS)
    first = go(model=instance)
    assert go(model=instance).run_dir == first.run_dir
    with torch.no_grad():
        instance.fc.bias.add_(1)
    assert go(model=instance).run_dir != first.run_dir


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("module:nets.py", "module needs a file and a name in it, got 'nets.py'"),
        ("module:absent.py:Net", "There is no Python file absent.py"),
        ("module:nets.py:Nett", "nets.py has no Nett"),
        ("module:nets.py:three", "is a int that is there already. Name a class or a function"),
        ("module:nets.py:made", "is a Linear that is there already. Name a class or a function"),
        ("module:nets.py:Net(widht=3)", "cannot be called: got an unexpected keyword argument 'widht'"),
        ("module:nets.py:needs", "cannot be called: missing a required argument: 'width'"),
        ("module:nets.py:fails", r"fails \(nets.py\) fails when it is made: ValueError: no \(nets.py, line 6\)"),
        ("module:nets.py:Net(head=absent)", "Unknown layer of Net"),
        ("pretrained(Net, abc)", "The net Net was given by a Python program and is not kept here"),
    ],
)
def test_mistakes_are_one_line(model, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text(
        "from torch import nn\nclass Net(nn.Linear):\n    def __init__(self, classes):\n"
        "        super().__init__(5, classes)\ndef fails():\n    raise ValueError('no')\nthree = 3\n"
        "made = nn.Linear(5, 3)\ndef needs(width):\n    pass\n"
    )
    with pytest.raises(UserError, match=message) as caught:
        unalike.run(data=small_dataset(), model=model, **FIELDS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", [3, object(), [Plain, 3]])
def test_what_is_no_model(model):
    with pytest.raises(UserError, match="model must be text, a torch module, its class or a function"):
        RunSpec.from_mapping({"model": model})


def test_several_own_nets():
    simulation, _ = played([Plain, chain, "mlp(4)"], algorithm="local")
    assert [task.size for task in simulation.tasks] == [39, 66, 39]


def test_a_task_of_a_net_without_a_head_refuses_to_be_split():
    task: Task = played(unalike.module(Scaled, head="none"))[0].task
    for use in (
        lambda: task.slices["head"],
        lambda: task.positions("body"),
        lambda: task.feature_size,
        lambda: task.features(task.initial(), unalike.Batch(torch.zeros(2, 5), torch.zeros(2))),
    ):
        with pytest.raises(UserError, match="has no head"):
            use()
    assert task.positions("body.fc").numel() == 15
