"""Nets as compiled C: whole local training in one call where the algorithm allows it, parties on threads.

What an algorithm adds to FedAvg's local objective decides how it runs. Where that is at most ``proximal`` and
``linear``, and the optimiser is SGD, Python does not return between steps. Any other ``loss`` or ``correct`` runs
step by step as on the sequential engine, with the net as one compiled operation (``Task.operation``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from unalike.algorithms.contract import Algorithm, Party
from unalike.engines.compiled.chain import NotAChain, describe
from unalike.engines.compiled.library import KINDS, Data, Descent, Kernel, Steps
from unalike.engines.compiled.source import CROP
from unalike.engines.sequential import Sequential
from unalike.models.task import Task
from unalike.rounds.exchange import Exchange
from unalike.rounds.federation import Federation
from unalike.rounds.optimisers import LocalOptimiser, Sgd


class Compiled(Sequential):
    """Runs an exchange with the net as C that is compiled for this machine."""

    name = "compiled"

    def __init__(self, kernel: Kernel, threads: int = 1) -> None:
        super().__init__(threads)
        self.kernel = kernel

    @classmethod
    def of(cls, task: Task, shape: tuple[int, ...], threads: int, say: Callable[[str], None]) -> Compiled:
        """The engine for a task; ``NotAChain`` or ``NoCompiler`` says why there is none."""
        if task.device.type != "cpu" or task.dtype != torch.float32:
            raise NotAChain(f"the kernels compute in float32 on a CPU, not in {task.dtype} on {task.device}")
        return cls(Kernel(describe(task.net, shape), say), threads)

    def _train(self, exchange: Exchange, me: Party, number: int, buffers: Tensor) -> tuple[Tensor, Tensor]:
        descent, data, start = _descent(exchange, me), _data(exchange.federation), exchange.algorithm.start(me)
        given = self.kernel.chain.input
        too_small = exchange.augment and min(given.height, given.width) <= CROP  # the steps' own error says so
        size = self.kernel.chain.size
        if descent is None or data is None or start.shape != (size,) or not _fits(descent, size) or too_small:
            return super()._train(exchange, me, number, buffers)
        plan = {key: torch.from_numpy(np.ascontiguousarray(v)) for key, v in exchange.plan(number).items()}
        w, loss = self.kernel.train(start, data, Steps(**plan), descent)
        return w, w.new_tensor(loss)


def trains_whole(algorithm: Algorithm, optimiser: LocalOptimiser) -> bool:
    """Whether the kernels know the local training: SGD on FedAvg's objective and ``proximal`` and ``linear``."""
    return type(optimiser) is Sgd and not algorithm.overrides("loss", "correct")


def _descent(exchange: Exchange, me: Party) -> Descent | None:
    """The local training as the kernels know it, or None where the algorithm or the optimiser goes beyond."""
    algorithm, optimiser = exchange.algorithm, exchange.optimiser
    if not trains_whole(algorithm, optimiser) or not isinstance(optimiser, Sgd):
        return None
    strength, centre = algorithm.proximal(me) or (0.0, None)
    return Descent(exchange.lr, optimiser.momentum, optimiser.weight_decay, strength, centre, algorithm.linear(me))


def _fits(descent: Descent, size: int) -> bool:
    """Whether all vectors have as many numbers as the kernels read of them."""
    return all(v is None or v.shape == (size,) for v in (descent.centre, descent.linear))


def _data(federation: Federation) -> Data | None:
    """The training rows, where the kernels can read them as they are kept."""
    stored = federation.train.stored()
    if stored is None or stored[0].dtype not in KINDS:
        return None
    return Data(stored[0], federation.train.y, stored[1], stored[2])
