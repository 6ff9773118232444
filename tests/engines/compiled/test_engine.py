"""The compiled engine against the sequential one, for every algorithm."""

import dataclasses
import os

import numpy as np
import pytest
import torch

from tests.contract.test_every_algorithm import NEEDS, REGISTERED  # and FedPer, IFCA, ... are registered
from tests.engines.compiled.helpers import NEEDS_COMPILER
from tests.helpers import use_algorithm
from unalike.algorithms import ALGORITHMS, Algorithm
from unalike.engines.choose import choose_engine
from unalike.engines.compiled.engine import kernel_of
from unalike.engines.compiled.library import Kernel
from unalike.engines.job import Job
from unalike.errors import UserError
from unalike.models import MODELS, Task
from unalike.rounds.state import State
from unalike.runs.simulation import Simulation
from unalike.runs.small import distance, play, small_dataset, small_simulation
from unalike.runs.spec import RunSpec

pytestmark = NEEDS_COMPILER
REGISTERED = [name for name in REGISTERED if name not in NEEDS]
MORE = ["fedprox(mu=0.5)", "scaffold(option=i)", "scaffold(weights=uniform)", "rfedavg+(lam=0.1)"]
FUSED = {"fedavg", "fedprox", "scaffold", "fednova", "fedavgm", "fedadam", "fedyogi", "fedadagrad", "qfedavg"}
FUSED |= {"moon", "rfedavg", "rfedavg+"}


@pytest.fixture(scope="module", autouse=True)
def _compiled_before():
    """The one net of most tests, so that nobody has to say that it is being compiled."""
    kernel_of(Task(lambda: MODELS.build("mlp(6,4)").build((5,), 3)), (5,), lambda line: None)


def both(text, rounds, **fields):
    return [
        play(small_simulation(text, engine=engine, **fields), rounds).state.tensors()
        for engine in ("sequential", "compiled")
    ]


@pytest.mark.parametrize("text", [*REGISTERED, *MORE])
def test_engines_agree(text):
    # Adam at the server, whose steps do not shrink with the gradient, makes rounding larger.
    assert distance(*both(text, 1, epochs=None, steps=1))[0] <= (1e-5 if text.startswith("feddf") else 1e-6)
    assert distance(*both(text, 1, epochs=1))[0] <= 1e-4
    assert distance(*both(text, 4))[0] <= 1e-4


@pytest.mark.parametrize("text", ["fedprox(mu=0.5)", "scaffold", "moon"])
@pytest.mark.parametrize(
    "fields",
    [
        {"optimiser": "sgd"},
        {"optimiser": "sgd(momentum=0.9, weight_decay=0.01)", "lr_decay": 0.9},
        {"drop_last": True, "batch_size": 7},
        {"batch_size": 64, "sample": 1.0},
        {"model": "logistic"},
    ],
)
def test_settings(text, fields):
    warm = fields.get("model", "mlp(6,4)")
    if ALGORITHMS.build(text).needs_features and warm == "logistic":
        pytest.skip("its features have no weights")
    kernel_of(Task(lambda: MODELS.build(warm).build((5,), 3)), (5,), lambda line: None)
    one, other = both(text, 3, **fields)
    assert distance(one, other)[0] <= 1e-5


@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
def test_other_optimisers(optimiser):
    one, other = both("fedprox(mu=0.5)", 2, optimiser=optimiser, lr=0.01)
    assert distance(one, other)[0] <= 1e-4


def test_the_same_loss_is_recorded():
    rows = [
        small_simulation("fedprox(mu=5.0)", engine=engine).play_round()[1] for engine in ("sequential", "compiled")
    ]
    for key in ("train_loss", "loss", "validation_loss"):
        assert rows[0][key] == pytest.approx(rows[1][key], rel=1e-5)
    assert rows[0]["accuracy"] == rows[1]["accuracy"]


def test_which_algorithms_train_in_one_call(monkeypatch):
    calls = []
    train = Kernel.train
    monkeypatch.setattr(Kernel, "train", lambda *args: calls.append(1) or train(*args))
    for name in REGISTERED:
        calls.clear()
        play(small_simulation(name, engine="compiled"), 1)
        if name in FUSED:
            assert len(calls) == 4, name
        if name == "virtual":
            assert not calls, name


@pytest.mark.parametrize("text", ["scaffold(option=i)", "moon", "fedprox(mu=0.5)"])
def test_bits(text):
    """The same on any number of threads, from run to run, and when resumed."""
    whole = play(small_simulation(text, engine="compiled"), 4)
    threads = play(small_simulation(text, engine="compiled", threads=3), 4)
    assert whole.state.digest() == threads.state.digest()
    first = play(small_simulation(text, engine="compiled"), 2)
    second = small_simulation(text, engine="compiled")
    second.state = State.of(2, {name: value.clone() for name, value in first.state.tensors().items()})
    assert play(second, 2).state.digest() == whole.state.digest()


def test_a_round_changes_nothing_it_was_given():
    simulation = small_simulation("scaffold", engine="compiled", threads=2)
    before = {name: value.clone() for name, value in simulation.state.tensors().items()}
    simulation.play_round()
    assert distance(before, simulation.state.tensors())[0] == 0


def images(prepared):
    rng = np.random.default_rng(0)
    data = small_dataset()
    x = rng.integers(0, 256, (len(data.y), 3, 16, 16)).astype(np.uint8)
    shift, scale = (rng.uniform(50, 100, (3, 1, 1)).astype(np.float32) for _ in range(2))
    if prepared:
        x, shift, scale = x.astype(np.float32) / 255, np.zeros((), np.float32), np.ones((), np.float32)
    return dataclasses.replace(data, x=x, x_test=x[: len(data.y_test)], shift=shift, scale=scale)


@pytest.mark.parametrize("prepared", [True, False])
@pytest.mark.parametrize("augment", ["none", "crop-flip"])
def test_images(prepared, augment, monkeypatch):
    monkeypatch.setattr("unalike.rounds.rows.PREPARED_BYTES", 0)  # bytes stay bytes until the batch
    states = []
    for engine in ("sequential", "compiled"):
        spec = RunSpec(
            partition="natural", model="simple-cnn", epochs=2, batch_size=8, engine=engine, augment=augment,
            algorithm="fedprox",
        )  # fmt: skip
        simulation = Simulation(spec, data=images(prepared), say=lambda line: None)
        assert simulation.engine.name == engine
        states.append(play(simulation, 2).state.tensors())
    assert distance(*states)[0] <= 1e-5


def test_images_too_small_to_crop():
    x = np.zeros((len(small_dataset().y), 1, 3, 3), np.float32)
    data = dataclasses.replace(small_dataset(), x=x, x_test=x[:40])
    spec = RunSpec(partition="natural", model="mlp(6,4)", augment="crop-flip", engine="compiled")
    simulation = Simulation(spec, data=data, say=lambda line: None)
    with pytest.raises(UserError, match="padding"):
        simulation.play_round()


def sparse_dataset():
    from scipy import sparse

    data = small_dataset()
    x, x_test = (sparse.csr_matrix(np.where(np.abs(x) > 0.7, x, 0)) for x in (data.x, data.x_test))
    return dataclasses.replace(data, x=x, x_test=x_test)


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "fedrep", "moon"])
def test_sparse_rows(algorithm, monkeypatch):
    data, states, rows = sparse_dataset(), [], []
    for engine in ("sequential", "compiled"):
        spec = RunSpec(partition="natural", model="mlp(6,4)", epochs=1, batch_size=8, engine=engine)
        spec = dataclasses.replace(spec, algorithm=algorithm)
        simulation = Simulation(spec, data=data, say=lambda line: None)
        if engine == "compiled":
            monkeypatch.setattr("unalike.rounds.local.descend", None)  # no step in Python
            monkeypatch.setattr("unalike.rounds.judging.lines_of", None)  # nor is there a filled batch to judge
        rounds = play(simulation, 2)
        rows.append(simulation.play_round()[1])
        states.append(rounds.state.tensors())
        monkeypatch.undo()
    assert distance(*states)[0] <= 1e-5
    assert rows[0]["validation_loss"] == pytest.approx(rows[1]["validation_loss"], rel=1e-5)


def engine_by_rule(data, monkeypatch, **fields):
    monkeypatch.setattr("unalike.engines.choose.LONG", 0.0)
    monkeypatch.setattr("unalike.engines.choose.SHORT", 0.0)
    spec = RunSpec(**{"partition": "natural", "model": "mlp(6,4)", "batch_size": 8, "epochs": 1} | fields)
    simulation = Simulation(spec, data=data, say=lambda line: None)
    play(simulation, 1)
    return simulation.engine.name


def test_auto_compiles_for_sparse_rows_where_kernels_read_them_and_train_whole(monkeypatch):
    """Elsewhere every step would fill its batch up, and the net itself is as fast."""
    data = sparse_dataset()
    assert engine_by_rule(data, monkeypatch) == "compiled"
    assert engine_by_rule(data, monkeypatch, optimiser="adam", lr=0.01) == "vectorised"
    monkeypatch.setattr("unalike.engines.choose.LARGEST_STACKED", 0)
    assert engine_by_rule(data, monkeypatch, optimiser="adam", lr=0.01) == "sequential"
    scaled = dataclasses.replace(data, scale=np.full(5, 2.0, np.float32))
    assert engine_by_rule(scaled, monkeypatch) == "sequential"


class TestFallback:
    def choose(self, task, shape=(5,)):
        said = []
        return choose_engine("compiled", Job(task=task, parties=10, shape=shape), said.append).engine, said

    def test_not_a_chain(self):
        task = Task(lambda: MODELS.build("resnet18").build((3, 32, 32), 10))
        engine, said = self.choose(task, (3, 32, 32))
        assert engine.name == "sequential"
        assert task.operation is None
        assert said[0].startswith("Cannot be compiled (")

    def test_float64(self):
        engine, said = self.choose(Task(lambda: MODELS.build("mlp").build((5,), 3), dtype=torch.float64))
        assert engine.name == "vectorised"
        assert "float32" in said[0]

    def test_no_compiler(self, monkeypatch):
        monkeypatch.setenv("PATH", "")
        monkeypatch.delenv("CC", raising=False)
        engine, said = self.choose(Task(lambda: MODELS.build("mlp").build((5,), 3)))
        assert engine.name == "vectorised"
        assert "no C compiler" in said[0]
        assert len(said) == 1

    @pytest.mark.skipif(os.name != "posix", reason="a shell script")
    @pytest.mark.parametrize("makes", ["exit 1", "exit 0", 'echo rubbish > "$out"'])
    def test_a_compiler_that_is_broken_costs_speed_and_no_answer(self, tmp_path, monkeypatch, makes):
        compiler = tmp_path / "cc"
        find = 'for each in "$@"; do case "$each" in */made.so) out="$each";; esac; done'
        compiler.write_text(f'#!/bin/sh\n{find}\ncase "$*" in *source.c*) {makes};; esac\n')
        compiler.chmod(0o700)
        monkeypatch.setenv("CC", str(compiler))
        (tmp_path / "cache").mkdir(mode=0o700)
        monkeypatch.setenv("UNALIKE_CACHE", str(tmp_path / "cache"))
        said = []
        fields = {"parties": 3, "rounds": 1, "epochs": 1, "model": "mlp(5)", "evaluate_every": 1}
        broken = Simulation(RunSpec(engine="compiled", **fields), data=small_dataset(), say=said.append)
        assert broken.engine.name == "vectorised"
        assert any("annot be compiled" in line for line in said)
        whole = Simulation(RunSpec(engine="vectorised", **fields), data=small_dataset(), say=said.append)
        for simulation in (broken, whole):
            play(simulation, 1)
        assert torch.equal(broken.state.server["w"], whole.state.server["w"])

    @pytest.mark.skipif(os.name != "posix", reason="POSIX modes")
    def test_a_cache_that_others_can_write_to(self, tmp_path, monkeypatch):
        """The engine stays the same, and so do the bits; one line says what is not used, and the remedy."""
        tmp_path.chmod(0o1777)
        monkeypatch.setenv("UNALIKE_CACHE", str(tmp_path))
        engine, said = self.choose(Task(lambda: MODELS.build("mlp").build((5,), 3)))
        assert engine.name == "compiled"
        (line,) = said
        assert f"its cache folder {tmp_path} is not used, as others can write to {tmp_path}" in line
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
        engine, said = self.choose(Task(lambda: MODELS.build("mlp").build((5,), 3)))
        assert engine.name == "vectorised"
        assert "there is no folder to compile in" in said[-1]

    def test_another_engine_takes_the_operation_away(self):
        task = Task(lambda: MODELS.build("mlp(6,4)").build((5,), 3))
        assert self.choose(task)[0].name == "compiled"
        assert task.operation is not None
        choose_engine("sequential", Job(task=task, parties=10), print)
        assert task.operation is None


def test_divergence_is_noticed():
    with pytest.raises(UserError, match="diverged"):
        play(small_simulation("fedavg", engine="compiled", lr=1e20), 3)


def test_an_algorithm_of_ones_own_with_both_terms():
    """FedDyn's local objective: a linear and a proximal term."""

    class Both(Algorithm):
        def proximal(self, party):
            return 0.3, party.received["w"]

        def linear(self, party):
            return torch.linspace(-0.1, 0.1, party.task.size)

    states = []
    for engine in ("sequential", "compiled"):
        simulation = small_simulation("fedavg", engine=engine)
        use_algorithm(simulation, Both())
        states.append(play(simulation, 2).state.tensors())
    plain = play(small_simulation("fedavg", engine="compiled"), 2).state.tensors()
    assert distance(*states)[0] <= 1e-6
    assert distance(states[0], plain)[0] > 1e-3


@pytest.mark.parametrize("kind", ["uint8", "int16", "int32", "int64", "float32", "float64"])
def test_tables_of_any_numbers_train_whole(kind, monkeypatch):
    """Large ones too, which are not made floating point beforehand."""
    monkeypatch.setattr("unalike.rounds.rows.PREPARED_BYTES", 0)
    monkeypatch.setattr("unalike.rounds.local.descend", None)  # no step in Python
    data = small_dataset()
    x = np.clip(40 * data.x + 100, 0, 255).astype(kind)
    x = x if kind == "uint8" else x - np.array(150, kind)
    shift, scale = x.mean(0).astype(np.float32), x.std(0).astype(np.float32)
    data = dataclasses.replace(data, x=x, shift=shift, scale=scale)
    spec = RunSpec(partition="natural", model="mlp(6,4)", epochs=1, batch_size=8, engine="compiled")
    compiled = play(Simulation(spec, data=data, say=lambda line: None), 2).state.tensors()
    monkeypatch.undo()
    plain = dataclasses.replace(
        data, x=((x - shift) / scale).astype(np.float32), shift=0 * shift, scale=scale / scale
    )
    spec = dataclasses.replace(spec, engine="sequential")
    assert distance(play(Simulation(spec, data=plain), 2).state.tensors(), compiled)[0] <= 1e-5


@pytest.mark.parametrize("augment", ["none", "crop-flip"])
def test_images_of_16_bits(augment, monkeypatch):
    """Negative ones too, which 16 bits without a sign would make large."""
    monkeypatch.setattr("unalike.rounds.rows.PREPARED_BYTES", 0)
    data = images(prepared=False)
    x = 100 * data.x.astype(np.int16) - 12_000
    shift, scale = (v.astype(np.float32) for v in (100 * data.shift - 12_000, 100 * data.scale))
    data = dataclasses.replace(data, x=x, x_test=x[: len(data.y_test)], shift=shift, scale=scale)
    states = []
    for engine in ("sequential", "compiled"):
        spec = RunSpec(
            partition="natural", model="simple-cnn", epochs=1, batch_size=8, engine=engine, augment=augment
        )
        states.append(play(Simulation(spec, data=data, say=lambda line: None), 1).state.tensors())
        if engine == "sequential":
            monkeypatch.setattr("unalike.rounds.local.descend", None)  # the kernels read them
    assert distance(*states)[0] <= 1e-5


@pytest.mark.parametrize("threads", [1, 3])
def test_an_algorithm_that_draws_has_the_same_bits(threads):
    """From torch's global stream, which it should not: the outcome must not depend on what else drew from it."""

    class Draws(Algorithm):
        def upload(self, party, w):
            return {"delta": w - party.received["w"] + 0.01 * torch.rand(w.shape)}, party.state

    digests = set()
    for _ in range(2):
        simulation = small_simulation("fedavg", engine="compiled", threads=threads)
        use_algorithm(simulation, Draws())
        digests.add(play(simulation, 2).state.digest())
        torch.rand(7)
    assert len(digests) == 1
