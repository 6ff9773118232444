"""Engines against independent references: plain PyTorch training, and each other."""

import copy
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from tests.helpers import PROBE, Watched, probe, use_algorithm
from unalike.algorithms import Algorithm, FedAvg
from unalike.algorithms.contract import Phase
from unalike.engines.choose import choose_engine
from unalike.engines.job import FLOPS, SECONDS_PER_STEP, Job, choose_device
from unalike.engines.sequential import Sequential
from unalike.engines.several import WithFallback
from unalike.engines.table import LARGEST_STACKED, LONG, SHORT
from unalike.engines.vectorised import Vectorised, activations_per_row, cannot_vectorise, party_bytes
from unalike.errors import UserError
from unalike.models import MODELS, Mlp, Net, SimpleCnn, Task
from unalike.randomness import stream
from unalike.rounds.federation import Crew
from unalike.rounds.order import Order
from unalike.rounds.work import PADDING, LocalWork
from unalike.runs.simulation import Simulation
from unalike.runs.small import distance, play, small_dataset, small_simulation
from unalike.runs.spec import RunSpec

ENGINES = pytest.mark.parametrize("engine", ["sequential", "vectorised"])
OPTIMISERS = {
    "sgd(momentum=0.9, weight_decay=0.01)": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.05),
    "adam": lambda p: torch.optim.Adam(p, lr=0.05),
}


def train_by_hand(simulation, start, number, make_optimiser, round_number):
    """One party's round as an ordinary PyTorch loop on an ordinary module."""
    net = MODELS.build("mlp(6,4)").build((5,), 3).double()
    net.load_state_dict(simulation.task.named(start, torch.zeros(0)))
    optimiser = make_optimiser(net.parameters())
    data = simulation.federation.dataset
    rows = simulation.federation.parties[number].train
    plan = simulation.spec.work.plan(len(rows), stream(simulation.spec.seed, "batches", round_number, number, 0))
    for places in plan:
        index = rows[places[places != PADDING]]
        optimiser.zero_grad()
        logits, _ = net(torch.from_numpy(data.x[index]).double())
        functional.cross_entropy(logits, torch.from_numpy(data.y[index])).backward()
        optimiser.step()
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()]), len(rows)


@ENGINES
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("drop_last", [False, True])
def test_fedavg_equals_a_plain_loop(engine, optimiser, drop_last):
    simulation = small_simulation(
        "fedavg", engine=engine, optimiser=optimiser, dtype="float64", drop_last=drop_last
    )
    expected = simulation.initial.clone()
    for number in (1, 2, 3):
        trained = [
            train_by_hand(simulation, expected, k, OPTIMISERS[optimiser], number)
            for k in simulation.cohort(number)
        ]
        expected = sum(w * n for w, n in trained) / sum(n for _, n in trained)
    assert torch.allclose(play(simulation, 3).state.server["w"], expected, atol=1e-10)


@ENGINES
def test_one_party_is_centralised_training(engine):
    simulation = small_simulation("fedavg", engine=engine, partition="iid", parties=1, dtype="float64", sample=1.0)
    expected, _ = train_by_hand(
        simulation, simulation.initial, 0, OPTIMISERS["sgd(momentum=0.9, weight_decay=0.01)"], 1
    )
    simulation = small_simulation(
        "fedavg", engine=engine, partition="iid", parties=1, dtype="float64", sample=1.0,
        optimiser="sgd(momentum=0.9, weight_decay=0.01)",
    )  # fmt: skip
    assert torch.allclose(play(simulation, 1).state.server["w"], expected, atol=1e-10)


@given(st.integers(1, 30), st.integers(1, 3), st.booleans(), st.floats(0.2, 1.0), st.integers(0, 9))
@settings(max_examples=12, deadline=None)
def test_engines_agree_whatever_the_batches(batch_size, epochs, drop_last, sample, seed):
    fields = {"batch_size": batch_size, "epochs": epochs, "drop_last": drop_last, "sample": sample, "seed": seed}
    one, other = (
        play(small_simulation("fedprox(0.1)", engine=engine, dtype="float64", **fields), 2).state.tensors()
        for engine in ("sequential", "vectorised")
    )
    assert distance(one, other)[0] < 1e-10


def test_engines_agree_on_convolutions():
    data = small_dataset()
    images = np.random.default_rng(0).integers(0, 255, (len(data.x), 1, 16, 16)).astype(np.uint8)
    data = copy.copy(data)
    object.__setattr__(data, "x", images)
    object.__setattr__(data, "x_test", images[:40])
    object.__setattr__(data, "scale", np.float32(255))
    states = []
    for engine in ("sequential", "vectorised"):
        spec = RunSpec(partition="natural", model="simple-cnn", epochs=1, batch_size=8, engine=engine)
        states.append(play(Simulation(spec, data=data), 2).state.tensors())
    assert distance(*states)[0] < 1e-5


@ENGINES
def test_lr_decay_is_per_round(engine):
    decayed = small_simulation("fedavg", engine=engine, lr=0.08, lr_decay=0.5, optimiser="sgd")
    decayed = play(decayed, 2)
    before = small_simulation("fedavg", engine=engine, lr=0.08, optimiser="sgd")
    play(before, 1)
    halved = small_simulation("fedavg", engine=engine, lr=0.04, optimiser="sgd")
    halved.state = before.state
    assert torch.equal(play(halved, 1).state.server["w"], decayed.state.server["w"])


def test_chunks_are_bounded_and_change_nothing():
    widths = []

    class Spy(Algorithm):
        def init_party(self, task, w):
            return {"k": torch.zeros(3)}

        def upload(self, party, w):
            return {"delta": w - party.received["w"]}, party.state

    simulation = small_simulation("fedavg", sample=1.0)
    crew = Crew(simulation.federation, replace(simulation.recipe, algorithm=Spy(), work=LocalWork(8, epochs=1)))
    kept = {"k": torch.zeros(3)}
    sent = Spy().send(simulation.task, simulation.state.server)
    orders = [Order(k, 1, 0, "train", sent, kept, torch.zeros(0), 0.1) for k in range(6)]
    activations = activations_per_row(simulation.task, simulation.federation.train)
    one = party_bytes(crew.worker(5), orders[5], activations)
    assert one > 8 * simulation.task.size * 4
    results = []
    for budget in (1, 2 * one + 1, 100 * one):
        engine = Vectorised(chunk_bytes=budget)
        import unalike.engines.vectorised as module

        class Recorder(module._Stack):
            def __post_init__(self):
                widths.append(len(self.pairs))
                super().__post_init__()

        original, module._Stack = module._Stack, Recorder
        try:
            results.append(sorted(engine.answer(crew, orders), key=lambda reply: reply.party))
        finally:
            module._Stack = original
    assert widths == [1] * 6 + [2] * 3 + [6]
    for replies in results[1:]:
        for a, b in zip(results[0], replies, strict=True):
            assert a.party == b.party
            assert torch.allclose(a.message.vectors["delta"], b.message.vectors["delta"], atol=1e-6)


def task_of(body, width=5):
    return Task(lambda: Net(body(), nn.Linear(width, 3)))


class TestChoice:
    def choose(self, name, task, *, shape=(5,), parties=10, seconds=5.0, whole=True):
        """The engine for a job whose overhead alone takes ``seconds``."""
        said = []
        steps = math.ceil(seconds / SECONDS_PER_STEP)
        job = Job(task=task, parties=parties, shape=shape, steps=steps, batch_size=1, whole=whole)
        self.why = (choice := choose_engine(name, job, said.append)).why
        return choice.engine, said

    def test_auto_between_short_and_long(self):
        small = Task(lambda: Mlp().build((5,), 3))
        assert isinstance(self.choose("auto", small)[0], WithFallback)
        assert "stacked" in self.why
        assert isinstance(self.choose("auto", small, parties=1)[0], Sequential)
        assert "one party" in self.why
        images = Task(lambda: SimpleCnn().build((1, 28, 28), 3))
        assert isinstance(self.choose("auto", images, shape=(1, 28, 28), seconds=2)[0], Sequential)
        assert "convolutions" in self.why
        large = Task(lambda: Mlp((LARGEST_STACKED // 5,)).build((5,), 3))
        assert isinstance(self.choose("auto", large)[0], Sequential)
        assert "100,000" in self.why

    def test_auto_prepares_nothing_for_a_short_run(self):
        engine, said = self.choose("auto", Task(lambda: Mlp().build((5,), 3)), seconds=0.9 * SHORT)
        assert engine.name == "sequential"
        assert "short" in self.why
        assert not said

    def test_auto_compiles_for_a_long_run(self):
        task = Task(lambda: Mlp((6, 4)).build((5,), 3))
        engine, _ = self.choose("auto", task, seconds=LONG)
        assert engine.name == "compiled"
        assert "whole training" in self.why
        assert task.operation is not None
        # Where Python returns in every step, a stack of small nets is faster; convolutions are not stacked.
        assert self.choose("auto", task, seconds=LONG, whole=False)[0].name == "vectorised"
        assert task.operation is None
        images = Task(lambda: SimpleCnn().build((1, 28, 28), 3))
        assert self.choose("auto", images, shape=(1, 28, 28), seconds=LONG, whole=False)[0].name == "compiled"
        assert "each step" in self.why

    def test_no_run_of_many_is_too_short(self):
        small = Task(lambda: Mlp((6, 4)).build((5,), 3))
        assert self.choose("prepared", small, seconds=0.1)[0].name == "compiled"
        assert "many runs" in self.why
        assert self.choose("prepared", small, seconds=0.1, whole=False)[0].name == "vectorised"
        no_chain = task_of(lambda: nn.Sequential(nn.Linear(5, 5), nn.Tanh()))
        engine, said = self.choose("prepared", no_chain, seconds=0.1)
        assert engine.name == "vectorised"
        assert not said  # nobody has named an engine

    def test_wide_convolutions_are_left_to_torch(self):
        def images(channels):
            layers = [nn.Conv2d(1, channels, 3), nn.ReLU(), nn.Flatten()]
            return task_of(lambda: nn.Sequential(*layers), channels * 36)

        for name in ("auto", "prepared"):
            assert self.choose(name, images(64), shape=(1, 8, 8), seconds=LONG)[0].name == "compiled"
            assert self.choose(name, images(65), shape=(1, 8, 8), seconds=LONG)[0].name == "sequential"
            assert "channels" in self.why
        assert self.choose("compiled", images(65), shape=(1, 8, 8))[0].name == "compiled"

    def test_auto_without_a_compiler_says_so(self, monkeypatch):
        monkeypatch.setenv("PATH", "")
        monkeypatch.delenv("CC", raising=False)
        engine, said = self.choose("auto", Task(lambda: Mlp().build((5,), 3)), seconds=LONG)
        assert engine.name == "vectorised"
        assert len(said) == 1
        assert "no C compiler" in said[0]
        assert "no C compiler" in self.why

    def test_auto_does_not_speak_of_nets_that_are_no_chains(self):
        task = task_of(lambda: nn.Sequential(nn.Linear(5, 5), nn.Tanh()))
        engine, said = self.choose("auto", task, seconds=LONG)
        assert engine.name == "vectorised"
        assert not said
        assert "Tanh" in self.why

    def test_a_net_that_nothing_else_can_run_is_not_called_short(self):
        task = task_of(lambda: nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5)))
        assert self.choose("auto", task, seconds=0.1)[0].name == "sequential"
        assert "statistics" in self.why

    @pytest.mark.parametrize(("batch_size", "steps"), [(10**7, None), (10**7, 1), (100_000, None)])
    def test_a_batch_has_no_more_rows_than_a_party(self, batch_size, steps):
        """Full batches, the way many write them: 5 rounds of digits are over in a moment."""
        fields = {"batch_size": batch_size, "steps": steps, "epochs": None if steps else 1, "rounds": 5}
        simulation = Simulation(RunSpec(dataset="digits", **fields), say=print)
        assert simulation.engine.name == "sequential"
        assert "short" in simulation.why_this_engine

    def test_what_a_run_asks_for(self, monkeypatch):
        """Steps of the cohort in all rounds, on the rows that are trained on."""
        jobs = []
        monkeypatch.setattr(
            "unalike.runs.simulation.choose_engine",
            lambda name, job, say: jobs.append(job) or choose_engine(name, job, say),
        )
        fields = {"parties": 10, "sample": 0.3, "rounds": 7, "epochs": 2, "validation": 0.25, "held_out": 0.25}
        simulation = Simulation(RunSpec(dataset="digits", batch_size=16, threads=2, **fields), say=print)
        rows = simulation.federation.dataset.size / 10 / 2
        assert jobs[0].steps == 7 * 3 * 2 * math.ceil(rows / 16)
        assert (jobs[0].batch_size, jobs[0].parties, jobs[0].threads) == (16, 3, 2)
        assert jobs[0].whole
        Simulation(RunSpec(dataset="digits", batch_size=16, steps=9, epochs=None, rounds=7, parties=4), say=print)
        assert jobs[1].steps == 7 * 4 * 9

    def test_the_work_of_convolutions_counts(self):
        net = Task(lambda: SimpleCnn().build((1, 28, 28), 10))
        job = Job(task=net, parties=10, shape=(1, 28, 28), steps=100)
        # 6 x 24 x 24 of 25, 16 x 8 x 8 of 150, 256 x 120, 120 x 84, 84 x 10
        by_hand = 3456 * 25 + 1024 * 150 + 256 * 120 + 120 * 84 + 84 * 10
        assert job.seconds() == pytest.approx(100 * (SECONDS_PER_STEP + 6 * 64 * by_hand / FLOPS))

    @pytest.mark.parametrize("layer", [lambda: nn.BatchNorm1d(5), lambda: nn.Dropout(0.1)])
    def test_layers_that_mix_or_draw(self, layer):
        task = task_of(lambda: nn.Sequential(nn.Linear(5, 5), layer()))
        assert "body.1" in cannot_vectorise(task)
        engine, said = self.choose("vectorised", task)
        assert engine.name == "sequential"
        assert len(said) == 1
        engine, said = self.choose("auto", task)
        assert engine.name == "sequential"
        assert not said

    def test_unknown(self):
        with pytest.raises(UserError, match="Did you mean 'vectorised'"):
            self.choose("vectorized", task_of(nn.Identity))

    def test_devices(self):
        assert choose_device("cpu", torch.float32).type == "cpu"
        with pytest.raises(UserError, match="Did you mean 'cuda'"):
            choose_device("cud", torch.float32)
        with pytest.raises(UserError, match="Use --device auto, or name it: cuda or mps"):
            choose_device("gpu", torch.float32)
        with pytest.raises(UserError, match=r"must be auto, cpu, cuda, mps or one such as cuda:1, got 'cuda:x'"):
            choose_device("cuda:x", torch.float32)
        if not torch.cuda.is_available():
            with pytest.raises(UserError, match="--device cpu"):
                choose_device("cuda", torch.float32)


class Branches(Algorithm):
    """Works one by one, cannot be stacked."""

    def correct(self, party, w, grad):
        return grad / 2 if grad.norm() > 0 else grad


def test_what_cannot_be_stacked_falls_back_once_and_says_so():
    said = []
    simulation = small_simulation("fedavg", optimiser="sgd")
    use_algorithm(simulation, Branches()).engine = WithFallback(Vectorised(), said.append)
    play(simulation, 3)
    assert simulation.engine.name == "sequential"
    assert len(said) == 1
    assert "sequential" in said[0]
    reference = small_simulation("fedavg", optimiser="sgd", engine="sequential", lr=0.025)
    assert distance(simulation.state.tensors(), play(reference, 3).state.tensors())[0] < 1e-6


def test_where_only_adapting_cannot_be_stacked_training_stays_as_it_is():
    probe(
        adapt=lambda self, task: (Phase(),),
        personal=lambda self, party: party.received["w"] * (1 if party.size > 0 else 2),
        fold=Algorithm.fold,
        upload=Algorithm.upload,
    )
    said, ends = [], []
    for every in (1, 5):
        simulation = small_simulation(PROBE, evaluate_every=every)
        simulation.engine = WithFallback(Vectorised(), said.append)
        ends.append(play(simulation, 3).state.digest())
        assert simulation.engine.name == "vectorised"
        assert simulation.engine.fell_back is None
    assert ends[0] == ends[1] == play(small_simulation("fedavg"), 3).state.digest()
    (line,) = said
    assert line.endswith("models are adapted on the sequential engine.")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("vmap: It looks like you're calling .item() on a Tensor.", True),
        ("Batching rule not implemented for aten::lstm.input. We could not generate a fallback.", True),
        ("Cannot access data pointer of Tensor that doesn't have storage", True),
        ("Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!", False),
        ("CUDA out of memory. Tried to allocate 2.00 GiB.", False),
        ("mat1 and mat2 shapes cannot be multiplied (4x3 and 5x2)", False),
    ],
)
def test_only_what_vmap_says_is_a_reason_to_fall_back(said, reason):
    class Refuses:
        name = "vectorised"

        def answer(self, workers, orders):
            raise RuntimeError(said)

    lines, simulation = [], small_simulation("fedavg")
    engine = WithFallback(Refuses(), lines.append)
    order = Order(0, 1, 0, "train", {"w": simulation.initial}, {}, simulation.task.initial_buffers(), 0.1)
    if reason:
        assert len(engine.answer(simulation.crew, [order])) == len(lines) == 1
    else:
        with pytest.raises(RuntimeError, match=re.escape(said)):
            engine.answer(simulation.crew, [order])
        assert engine.name == "vectorised"
        assert not lines


class AlwaysWrong(Algorithm):
    def loss(self, party, w, batch):
        return party.task.loss(w, batch) + self.no_such_thing  # type: ignore[attr-defined]


def test_a_wrong_algorithm_is_not_hidden_by_the_fallback():
    simulation = small_simulation("fedavg")
    use_algorithm(simulation, AlwaysWrong())
    with pytest.raises(UserError, match=r"AlwaysWrong.loss failed \(test_engines.py, line \d+\): .*no_such_thing"):
        simulation.play_round()


@MODELS.register("test-norm")
class NormNet:
    """A net with batch norm."""

    def build(self, shape, classes):
        return Net(nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU()), nn.Linear(4, classes))


def test_running_statistics_are_averaged_by_party_size():
    simulation = small_simulation("fedavg", model="test-norm", sample=1.0, engine="sequential", batch_size=64)
    simulation.engine = watched = Watched(simulation.engine)
    after, row = simulation.play_round()
    sizes = [len(simulation.federation.parties[reply.party].train) for reply in watched.replies]
    by_hand = sum(reply.buffers * size for reply, size in zip(watched.replies, sizes, strict=True)) / sum(sizes)
    assert len(set(sizes)) > 1
    assert torch.allclose(after.buffers, by_hand, atol=1e-6)
    assert not torch.equal(after.buffers, simulation.state.buffers)
    assert row["bytes_up"] == 6 * (simulation.task.size + simulation.task.buffers.size) * 4


def test_fedavg_is_the_base_class():
    assert FedAvg.round is Algorithm.round
