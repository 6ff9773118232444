"""The work that is measured: federations of random rows (speed does not depend on their values)."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from unalike.algorithms import Ask, FedAvg
from unalike.data import Dataset
from unalike.engine.exchange import Engine, Exchange
from unalike.engine.federation import Federation
from unalike.engine.optimisers import Sgd
from unalike.engine.work import LocalWork
from unalike.models import MODELS, Task
from unalike.partition import Partition

BATCH = 64
LR = 0.01
MOMENTUM = 0.9


@dataclass(frozen=True)
class Workload:
    """Parties with equally many rows, one local epoch, batches of 64, SGD with momentum."""

    name: str
    shape: tuple[int, ...]
    classes: int
    model: str
    parties: int
    rows: int

    def federation(self) -> Federation:
        rng = np.random.default_rng(0)
        total = self.parties * self.rows
        x = rng.standard_normal((total, *self.shape), dtype=np.float32)
        y = rng.integers(0, self.classes, total)
        names = tuple(map(str, range(self.parties)))
        data = Dataset(self.name, x, y, x[:8], y[:8], tuple(map(str, range(self.classes))))
        partition = Partition("equal", tuple(np.split(np.arange(total), self.parties)), names)
        model = MODELS.build(self.model)
        return Federation(data, partition, Task(lambda: model.build(self.shape, self.classes)))


def train(federation: Federation, engine: Engine) -> None:
    """One round of FedAvg's local training on an engine."""
    task = federation.task
    engine.exchange(
        Exchange(
            algorithm=FedAvg(),
            ask=Ask("train", {"w": task.initial()}),
            round=1,
            lr=LR,
            seed=0,
            cohort=range(federation.size),
            state_of=lambda number: {},
            buffers=task.initial_buffers(),
            federation=federation,
            optimiser=Sgd(momentum=MOMENTUM),
            work=LocalWork(BATCH, epochs=1),
        )
    )


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


def machine() -> str:
    """What the figures were made on."""
    return (
        f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}, torch {torch.__version__}"
    )
