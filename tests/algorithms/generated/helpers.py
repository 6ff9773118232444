"""Parties by hand for algorithms that make rows, and pictures."""

from dataclasses import replace

import numpy as np

from unalike.data import Dataset
from unalike.runs.simulation import Simulation
from unalike.runs.small import small_dataset
from unalike.runs.spec import RunSpec

WHOLE = {"batch_size": 256, "optimiser": "sgd", "sample": 1.0, "validation": 0.0, "held_out": 0.0}


def simulation_of(text, groups, data=None, **fields):
    """A run whose parties are the given natural ones of the data set, in that order (they may repeat)."""
    data = data or small_dataset()
    rows = [np.flatnonzero(data.group == group) for group in groups]
    took = np.concatenate(rows)
    data = replace(
        data,
        x=data.x[took],
        y=data.y[took],
        group=np.repeat(np.arange(len(groups)), [len(own) for own in rows]),
        group_names=tuple(map(str, range(len(groups)))),
    )
    usual = {"partition": "natural", "algorithm": text, "rounds": 4, "epochs": 2, "lr": 0.05, "dtype": "float64"}
    spec = RunSpec.from_mapping(usual | {"model": "mlp(6,4)", "engine": "sequential"} | WHOLE | fields)
    return Simulation(spec, data=data, say=lambda line: None)


def pictures(shape=(1, 6, 5), rows=20, classes=2):
    """Two parties with a label each: pictures that are bright above, or below."""
    rng = np.random.default_rng(0)
    y = np.arange(rows) * classes // rows
    x = rng.normal(scale=0.2, size=(rows, *shape)).astype(np.float32)
    for label in range(classes):
        x[y == label, :, label::classes] += 1
    names = tuple(f"class {label}" for label in range(classes))
    return Dataset("pictures", x, y, x, y, names, group=y.copy(), group_names=names)


def labels_of(simulation):
    """By party, how many training rows it has of each label."""
    y = simulation.federation.train.y.numpy()
    return [np.bincount(y[own.train], minlength=3) for own in simulation.federation.parties]
