"""A task with a closed form: party k minimises the mean over its rows of a/2 ||w - c||^2."""

import numpy as np
import torch
from torch import nn

from unalike.data import Dataset
from unalike.engine.exchange import Exchange, combine
from unalike.engine.federation import Federation
from unalike.engine.optimisers import Sgd
from unalike.engine.sequential import Sequential
from unalike.models import Net, Task
from unalike.partition import Partition


class _Centre(nn.Module):
    def forward(self, x):
        return x[..., :-1]


class Quadratics(Task):
    """Rows are (c, a); the weights are a point."""

    def __init__(self, dimension):
        super().__init__(lambda: Net(_Centre(), nn.Linear(dimension, 1, bias=False)), dtype=torch.float64)

    def loss(self, w, batch):
        c, a = batch.x[..., :-1], batch.x[..., -1]
        return batch.mean(a / 2 * ((w - c) ** 2).sum(dim=-1))


def quadratic_federation(centres, curvatures, sizes):
    """Party k holds ``sizes[k]`` copies of its (centre, curvature)."""
    rows = np.concatenate([np.asarray(centres, float), np.asarray(curvatures, float)[:, None]], axis=1)
    x = np.repeat(rows, sizes, axis=0)
    y = np.zeros(len(x), dtype=np.int64)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    partition = Partition(
        "quadratics",
        tuple(np.flatnonzero(owner == k) for k in range(len(sizes))),
        tuple(map(str, range(len(sizes)))),
    )
    dataset = Dataset("quadratics", x, y, x[:1], y[:1], ("only",))
    return Federation(dataset, partition, Quadratics(len(centres[0])))


def one_round(
    algorithm, federation, server, states, *, work, lr, optimiser=None, cohort=None, engine=None, number=1
):
    """Play one round by hand; ``states`` is changed as the parties' states are."""
    task = federation.task

    def state_of(k):
        return states[k] if k in states else algorithm.init_party(task, task.initial())

    generator = algorithm.round(task, server)
    ask = next(generator)
    while True:
        exchange = Exchange(
            algorithm,
            ask,
            number,
            lr,
            0,
            range(federation.size) if cohort is None else cohort,
            state_of,
            task.initial_buffers(),
            federation,
            optimiser or Sgd(),
            work,
        )
        combined = combine(exchange, (engine or Sequential()).exchange(exchange))
        states.update(combined.states)
        try:
            ask = generator.send(combined.replies)
        except StopIteration as end:
            return end.value
