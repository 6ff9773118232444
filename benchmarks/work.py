"""The work that is measured: federations of random rows (speed does not depend on their values)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np
from torch import nn

from benchmarks.workload import LR, MOMENTUM, Workload
from unalike.algorithms import FedAvg
from unalike.data import Dataset
from unalike.models import MODELS, Task
from unalike.partition import Partition
from unalike.rounds.federation import Crew, Federation
from unalike.rounds.gather import Engine
from unalike.rounds.optimisers import Sgd
from unalike.rounds.order import Order
from unalike.rounds.work import LocalWork
from unalike.rounds.worker import Recipe


def dataset(workload: Workload) -> Dataset:
    """The workload's rows, in memory."""
    return Dataset(workload.name, *workload.arrays(), tuple(map(str, range(workload.classes))))


def federation(workload: Workload) -> Federation:
    """The rows with their parties, and the task."""
    rows = np.arange(workload.parties * workload.rows)
    names = tuple(map(str, range(workload.parties)))
    partition = Partition("equal", tuple(np.split(rows, workload.parties)), names)
    return Federation(dataset(workload), partition, _task(workload))


def _task(workload: Workload) -> Task:
    model = MODELS.build(workload.model)
    return Task(lambda: model.build(workload.shape, workload.classes))


def plain_net(workload: Workload) -> nn.Sequential:
    """The net as torch's own layers in a row, for those who do not have ours, with our initial weights."""
    task = _task(workload)
    net = MODELS.build(workload.model).build(workload.shape, workload.classes)
    assert isinstance(net.body, nn.Sequential)
    layers = nn.Sequential(*net.body, net.head)
    nn.utils.vector_to_parameters(task.initial(), layers.parameters())
    return layers


def train(federation: Federation, engine: Engine, batch: int) -> None:
    """One round of FedAvg's local training on an engine."""
    task = federation.task
    recipe = Recipe(FedAvg(), Sgd(momentum=MOMENTUM), LocalWork(batch, epochs=1))
    sent, statistics = {"w": task.initial()}, task.initial_buffers()
    orders = [Order(k, 1, 0, "train", sent, {}, statistics, LR) for k in range(federation.size)]
    for _ in engine.answer(Crew(federation, recipe), orders):  # each is made when it is asked for
        pass


def interleave(contenders: Mapping[str, Callable[[], None]], rows: int, repeats: int) -> dict[str, float]:
    """Rows trained per CPU-second by each contender: the median over repeats that take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for repeat in range(repeats + 1):
        for name, play in contenders.items():
            began = time.process_time()
            play()
            if repeat:  # the first turn warms caches up
                seconds[name].append(time.process_time() - began)
    return {name: rows / statistics.median(times) for name, times in seconds.items()}
