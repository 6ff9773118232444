"""Parties of planted groups, whose right models are known."""

from dataclasses import replace

import numpy as np
import torch

from tests.helpers import one_round, quadratic_federation
from unalike.data import Dataset
from unalike.rounds.work import LocalWork
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

GROUPS, SIZES = (0, 1, 2, 0, 1, 2, 0), (4, 2, 6, 8, 3, 5, 1)
MIDDLES = torch.tensor([[5.0, 0.0], [-5.0, 1.0], [0.0, 6.0]], dtype=torch.float64)


def centres():
    """Where the parties' optima are: near the middle of their group."""
    spread = torch.randn(len(GROUPS), 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) / 4
    return MIDDLES[list(GROUPS)] + spread


def quadratics(sizes=SIZES):
    """Seven parties in three groups, each with a quadratic around its own centre."""
    return quadratic_federation(centres().tolist(), [1.0] * len(GROUPS), sizes)


def group_means(sizes=SIZES):
    """The mean centre of each group, by rows."""
    weights, where = torch.tensor(sizes, dtype=torch.float64), torch.tensor(GROUPS)
    own = [weights[where == g] @ centres()[where == g] / weights[where == g].sum() for g in range(3)]
    return torch.stack(own)


def rounds_from(algorithm, models, rounds, *, federation=None, states=None, work=None, lr=0.5, **how):
    """The server's models and the parties' states after some rounds from given models."""
    federation, server = federation or quadratics(), {"w": models}
    states, work = {} if states is None else states, work or LocalWork(8, epochs=1)
    for number in range(1, rounds + 1):
        server = one_round(algorithm, federation, server, states, work=work, lr=lr, number=number, **how)
    return server["w"], states


def members(states):
    """The cluster that each party was in last, by party."""
    return [int(states[k]["member"].argmax()) for k in sorted(states)]


SIGNS = (0, 0, 0, 1, 1, 1, 0, 1)


def opposed_data(signs=SIGNS, rows=60, seed=0):
    """A party for each sign; the labels of one kind are those of the other, swapped."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(len(signs) * rows, 2)).astype(np.float32)
    group = np.repeat(np.arange(len(signs)), rows)
    y = ((x[:, 0] + x[:, 1] > 0) ^ np.array(signs, bool)[group]).astype(np.int64)
    names = tuple(f"party {k}" for k in range(len(signs)))
    return Dataset("opposed", x, y, x[:4], y[:4], ("no", "yes"), group=group, group_names=names)


def opposed(text, signs=SIGNS, models=None, **fields):
    """A simulation of such parties; ``models`` are the signs and lengths of the clusters' first models."""
    settings = {
        "partition": "natural", "model": "logistic", "rounds": 4, "epochs": 1, "batch_size": 20, "lr": 0.1,
        "held_out": 0.2, "optimiser": "sgd", "algorithm": text, "engine": "sequential",
    }  # fmt: skip
    simulation = Simulation(
        RunSpec.from_mapping(settings | fields), data=opposed_data(signs), say=lambda line: None
    )
    if models is not None:
        right = torch.tensor([-1.0, -1.0, 1.0, 1.0, 0.0, 0.0], dtype=simulation.task.dtype)
        server = {"w": torch.stack([right * one for one in models])}
        simulation.state = replace(simulation.state, server=server)
    return simulation
