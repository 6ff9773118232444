"""Tasks with a closed form, a batch norm net, and rounds played by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from unalike.algorithms import ALGORITHMS, Algorithm, algorithm
from unalike.algorithms.contract import sent_to
from unalike.data import Dataset
from unalike.engines.sequential import Sequential
from unalike.engines.vectorised import Vectorised
from unalike.models import Net, Task
from unalike.models.model import register_model
from unalike.partition import Partition
from unalike.rounds.federation import Crew, Federation
from unalike.rounds.gather import Receiver, replies_of
from unalike.rounds.optimisers import Sgd
from unalike.rounds.order import Order, phases_of
from unalike.rounds.worker import Recipe
from unalike.runs.small import small_bytes

ENGINES = pytest.mark.parametrize("engine", [Sequential(), Vectorised()], ids=["sequential", "vectorised"])


def net_algorithms():
    """The registered algorithms of nets: protocols have a contract of their own."""
    return [entry for entry in ALGORITHMS if issubclass(entry.cls, Algorithm)]


class _Centre(nn.Module):
    def forward(self, x):
        return x[..., :-1]


class Quadratics(Task):
    """Rows are (c, a); the weights are a point: party k minimises the mean over its rows of a/2 ||w - c||^2."""

    def __init__(self, dimension):
        super().__init__(lambda: Net(_Centre(), nn.Linear(dimension, 1, bias=False)), dtype=torch.float64)

    def loss(self, w, batch, track=True):
        c, a = batch.x[..., :-1], batch.x[..., -1]
        return batch.mean(a / 2 * ((w - c) ** 2).sum(dim=-1))


class Slopes(Task):
    """Rows are (g, 0): the loss g . w has the constant gradient g."""

    def __init__(self, dimension):
        super().__init__(lambda: Net(_Centre(), nn.Linear(dimension, 1, bias=False)), dtype=torch.float64)

    def loss(self, w, batch, track=True):
        return batch.mean((batch.x[..., :-1] * w).sum(dim=-1))


def federation_of(task, parties, **more):
    """Party k holds the rows ``parties[k]``; ``more`` says how it splits them."""
    x = np.concatenate([np.asarray(rows, dtype=float) for rows in parties])
    y = np.zeros(len(x), dtype=np.int64)
    owner = np.repeat(np.arange(len(parties)), [len(rows) for rows in parties])
    partition = Partition(
        "by hand",
        tuple(np.flatnonzero(owner == k) for k in range(len(parties))),
        tuple(map(str, range(len(parties)))),
    )
    task.population = len(parties)
    return Federation(Dataset("by hand", x, y, x[:1], y[:1], ("only",)), partition, task, **more)


def quadratic_federation(centres, curvatures, sizes, **more):
    """Party k holds ``sizes[k]`` copies of its (centre, curvature)."""
    rows = np.concatenate([np.asarray(centres, float), np.asarray(curvatures, float)[:, None]], axis=1)
    held = [[row] * n for row, n in zip(rows, sizes, strict=True)]
    return federation_of(Quadratics(len(centres[0])), held, **more)


def slope_federation(slopes, sizes):
    """Party k holds ``sizes[k]`` copies of its slope."""
    rows = np.concatenate([np.asarray(slopes, float), np.zeros((len(slopes), 1))], axis=1)
    return federation_of(Slopes(len(slopes[0])), [[row] * n for row, n in zip(rows, sizes, strict=True)])


def optimum(centres, curvatures, weights):
    """The minimiser of the weighted sum of a/2 ||w - c||^2."""
    share = np.asarray(curvatures, float) * np.asarray(weights, float)
    return torch.tensor(share @ np.asarray(centres, float) / share.sum())


def one_round(
    algorithm, federation, server, states, *, work, lr, optimiser=None, cohort=None, engine=None, number=1
):
    """Play one round by hand; ``states`` is changed as the parties' states are."""
    task = federation.task
    recipe = Recipe(algorithm, optimiser or Sgd(), work)
    engine, crew, receiver = engine or Sequential(), Crew(federation, recipe), Receiver(recipe)
    numbers = range(federation.size) if cohort is None else cohort

    def order(ask, turn, k):
        state = states[k] if k in states else algorithm.init_party(task, task.initial())
        payload, phases = sent_to(ask.payload, k), phases_of(algorithm, task, ask.kind, ask.phase, number)
        how = {"lr": lr, "phases": phases, "phase": ask.phase, "rows": ask.rows}
        return Order(k, number, turn, ask.kind, payload, state, task.initial_buffers(), **how)

    generator, turn = algorithm.round(task, server), 0
    ask = next(generator)
    while True:
        orders = [order(ask, turn, k) for k in numbers if ask.to is None or k in ask.to]
        gathered = receiver.add(orders, engine.answer(crew, orders))
        states.update(gathered.states)
        turn += 1
        try:
            ask = generator.send(replies_of(gathered, recipe, federation.population, task.initial_buffers()))
        except StopIteration as end:
            return end.value


def rounds_by_hand(algorithm, federation, *, rounds, cohort_of=None, start=None, **how):
    """Rounds one after the other: the server and the parties' states after each."""
    start = torch.zeros(federation.task.size, dtype=torch.float64) if start is None else start
    server, states = algorithm.init_server(federation.task, start), {}
    for number in range(1, rounds + 1):
        cohort = None if cohort_of is None else cohort_of(number)
        server = one_round(algorithm, federation, server, states, cohort=cohort, number=number, **how)
        yield server, states


def fixed_point(algorithm, federation, **how):
    """Where rounds lead: on quadratics a round is an affine map, so d + 1 rounds tell its fixed point."""
    size = federation.task.size

    def after(w):
        return one_round(algorithm, federation, algorithm.init_server(federation.task, w), {}, **how)["w"]

    unit = torch.eye(size, dtype=torch.float64)
    b = after(unit[0] * 0)
    a = torch.stack([after(row) - b for row in unit], dim=1)
    return torch.linalg.solve(unit - a, b)


def use_algorithm(simulation, algorithm):
    """Let the parties and the server of a simulation work by another algorithm than the spec's."""
    recipe = replace(simulation.recipe, algorithm=algorithm)
    simulation.algorithm, simulation.recipe, simulation.receiver = algorithm, recipe, Receiver(recipe)
    simulation.crew = Crew(simulation.federation, recipe)
    return simulation


class Watched:
    """An engine that remembers all orders, and the replies that another engine gave to them."""

    def __init__(self, engine):
        self.engine, self.name, self.orders, self.replies = engine, engine.name, [], []

    def answer(self, workers, orders):
        replies = list(self.engine.answer(workers, orders))
        self.orders.extend(orders)
        self.replies.extend(replies)
        return replies


def recorded(simulation):
    """Make the simulation remember the replies of its exchanges, and give the list of them."""
    replies, exchange = [], simulation._exchange

    def remember(*arguments):
        replies.append(exchange(*arguments))
        return replies[-1]

    simulation._exchange = remember
    return replies


@register_model("test-norm-body")
class NormBody:
    """Batch norm in the body."""

    def build(self, shape, classes):
        return Net(nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU()), nn.Linear(4, classes))


@register_model("test-frozen")
class Frozen:
    """An mlp; the layers whose names begin with one of ``what`` are frozen."""

    what: tuple[str, ...] = ("body.0",)

    def build(self, shape, classes):
        width, one, two = int(np.prod(shape)), 6, 4
        body = nn.Sequential(nn.Flatten(), nn.Linear(width, one), nn.ReLU(), nn.Linear(one, two), nn.ReLU())
        net = Net(body, nn.Linear(two, classes))
        for name, parameter in net.named_parameters():
            parameter.requires_grad_(not name.startswith(self.what))
        return net


def frozen_model(*what):
    """The text of the model with these layers frozen."""
    return f"test-frozen({', '.join(map(repr, what))})"


def regression_data(rows=120, features=5, outlier=None, seed=0):
    """Parties of unequal sizes, and a target that is linear in the features but for noise: 100 give or take 30."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=features) * 10
    x = rng.normal(size=(rows + 40, features)).astype(np.float32)
    y = 100 + x @ slopes + rng.normal(size=rows + 40) * 5
    if outlier is not None:
        y[:3] += outlier
    group = np.sort(rng.integers(0, 4, rows))
    return Dataset(
        "numbers", x[:rows], y[:rows], x[rows:], y[rows:], (), task="regression",
        group=group, group_names=("a", "b", "c", "d"),
    )  # fmt: skip


@register_model("test-layer-norm")
class LayerNormBody:
    """A layer that normalises and can be stacked; the compiled engine does not know it."""

    def build(self, shape, classes):
        body = nn.Sequential(nn.Linear(int(np.prod(shape)), 4), nn.LayerNorm(4), nn.ReLU())
        return Net(body, nn.Linear(4, classes))


@register_model("test-tanh")
class TanhBody:
    """A smooth net, which can be differentiated twice; the compiled engine does not know it."""

    def build(self, shape, classes):
        return Net(nn.Sequential(nn.Linear(int(np.prod(shape)), 4), nn.Tanh()), nn.Linear(4, classes))


@register_model("test-dropping")
class Dropping:
    """A net that draws random numbers as it trains."""

    def build(self, shape, classes):
        body = nn.Sequential(nn.Linear(int(np.prod(shape)), 4), nn.ReLU(), nn.Dropout(0.5))
        return Net(body, nn.Linear(4, classes))


PROBE = "broken-probe"
"""The text of what :func:`probe` registers: never among the algorithms that must hold the contract."""


def probe(**methods):
    """Register an algorithm that folds nothing, with these methods and class attributes on top."""

    def fold(self, task, server, replies):
        return server

    def upload(self, party, w):
        return {}, party.state

    body = {"fold": fold, "upload": upload, "__module__": __name__, "__doc__": "A probe."}
    return algorithm(PROBE)(type("Probe", (Algorithm,), body | methods))


EVERY_ENGINE = pytest.mark.parametrize("engine", ["sequential", "vectorised", "compiled"])


MODELLESS = ("f2a", "f2u")
"""The shipped algorithms that train generators alone, so that a run of theirs has no model."""
NEEDS = {
    "fedbn": {"model": "test-norm-body", "batch_size": 64},
    "mapper": {"validation": 0.4},
    "dapper": {"validation": 0.4},
    "xormix": {"data": small_bytes()},
    "def-kt": {"sample": 1.0},
    "fada": {"sample": 1.0},
}
"""The settings without which a shipped algorithm cannot be tried on the small run."""
