"""Runs of chosen parties, and a party as its algorithm sees it."""

from dataclasses import replace

import numpy as np
import torch

from unalike.rounds.order import Order
from unalike.runs import build
from unalike.runs.simulation import Simulation
from unalike.runs.small import small_dataset
from unalike.runs.spec import RunSpec

NETS = "mlp(6,4)|mlp(8)|logistic"
WHOLE = {"batch_size": 256, "optimiser": "sgd", "sample": 1.0, "validation": 0.0, "held_out": 0.0}


def simulation_of(text, groups, **fields):
    """A run whose parties are the given natural ones of the small data set, in that order (they may repeat)."""
    data = small_dataset()
    rows = [np.flatnonzero(data.group == group) for group in groups]
    took = np.concatenate(rows)
    data = replace(
        data,
        x=data.x[took],
        y=data.y[took],
        group=np.repeat(np.arange(len(groups)), [len(own) for own in rows]),
        group_names=tuple(map(str, range(len(groups)))),
    )
    spec = RunSpec.from_mapping(
        {"partition": "natural", "algorithm": text, "rounds": 4, "epochs": 2, "lr": 0.05, "dtype": "float64"}
        | {"model": "mlp(6,4)", "engine": "sequential"}
        | WHOLE
        | fields
    )
    return Simulation(spec, data=data, say=lambda line: None)


def same_public_rows(monkeypatch, count=10):
    """Public rows that do not depend on who has which rows: the first of the test set."""
    data = small_dataset()
    monkeypatch.setattr(build, "take_public", lambda given, *_: (given, data.x_test[:count], data.y_test[:count]))


def party_of(simulation, phase, number=0, **more):
    """A party as its algorithm sees it in a phase of round 1."""
    order = Order(number, 1, 0, "train", {}, {}, simulation.state.buffers, lr=0.1)
    worker = simulation.crew.worker(number)
    return replace(worker.party(order, worker.own(order), phase), **more)


def own_rows(simulation, number, dtype=torch.float64):
    """A party's training rows and labels."""
    x, y = simulation.federation.train.take(torch.from_numpy(simulation.federation.parties[number].train))
    return x.to(dtype), y
