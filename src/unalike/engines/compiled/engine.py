"""Nets as compiled C: whole local training in one call where the algorithm allows it, parties on threads.

What an algorithm adds to FedAvg's local objective decides how it runs. Where that is at most ``proximal`` and
``linear``, or a model ``beside`` the shared one, and the optimiser is SGD, Python does not return between steps.
Any other ``loss`` or ``correct`` runs step by step as on the sequential engine, with the net as one compiled
operation (``Task.operation``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from unalike.algorithms.contract import Algorithm, Party, Phase, parts_of
from unalike.engines.compiled.asked import KINDS, Data, Descent, Steps
from unalike.engines.compiled.chain import NotAChain, describe
from unalike.engines.compiled.library import Kernel
from unalike.engines.compiled.operation import Operation, Reader
from unalike.engines.compiled.source import CROP
from unalike.engines.job import Job, Say, Unfit
from unalike.engines.sequential import Sequential
from unalike.models.loss import CrossEntropy
from unalike.models.task import Task
from unalike.native.compiler import NoCompiler
from unalike.rounds import local
from unalike.rounds.gather import Engine
from unalike.rounds.optimisers import LocalOptimiser, Sgd
from unalike.rounds.order import Order
from unalike.rounds.rows import Rows
from unalike.rounds.worker import SeenRows, Worker


class Compiled(Sequential):
    """Lets parties work with the net as C that is compiled for this machine."""

    name = "compiled"

    def __init__(self, kernel: Kernel, threads: int = 1) -> None:
        super().__init__(threads)
        self.kernel = kernel
        self.trainer = self._descend

    @classmethod
    def of(cls, job: Job, say: Say) -> Engine:
        """The engine for a job, whose task gets the net as one operation; nets that are no chains are refused.

        Of a net on sparse rows there is no operation: a step in Python fills its batch up, for the net itself.
        """
        try:
            if not job.readable:
                raise NotAChain("its rows are sparse, and are shifted or scaled in every batch")
            engine = cls(kernel_of(job.task, job.shape, say, sparse=job.sparse), job.threads)
        except (NotAChain, NoCompiler) as error:
            why = f"annot be compiled ({error})"
            raise Unfit(f"c{why}", line=f"C{why}", loud=isinstance(error, NoCompiler)) from None
        job.task.operation = None if job.sparse else Operation(engine.kernel)
        job.task.judge = Reader(engine.kernel)
        return engine

    def _descend(
        self, worker: Worker, order: Order, number: int, me: Party, buffers: Tensor, start: Tensor
    ) -> tuple[Tensor, Tensor]:
        """A phase in one call, or step by step where the kernels do not know its objective."""
        phase, size, given = order.phases[number], self.kernel.chain.size, self.kernel.chain.input
        seen = worker.rows_of(phase, order)
        descent = _descent(worker, order, phase, me, start)
        data = _data(seen.rows, _labels(seen, worker.recipe.algorithm.labels(me)))
        # Images that are too small to be cropped: the steps' own error says so.
        too_small = worker.recipe.augment and min(given.height, given.width) <= CROP
        if descent is None or data is None or not _fits(descent, start, size) or too_small:
            return local.descend(worker, order, number, me, buffers, start)
        plan = {key: torch.from_numpy(np.ascontiguousarray(v)) for key, v in worker.plan(order, number).items()}
        steps = Steps(place=plan.pop("position"), **plan)
        if not self.kernel.keeps(steps, descent):
            return local.descend(worker, order, number, me, buffers, start)
        w, loss = self.kernel.train(start[:size], data, steps, descent)
        return w, w.new_tensor(loss)


def kernel_of(task: Task, shape: tuple[int, ...], say: Say, *, sparse: bool = False) -> Kernel:
    """The net of a task, compiled; ``NotAChain`` or ``NoCompiler`` says why it cannot be."""
    if task.device.type != "cpu" or task.dtype != torch.float32:
        raise NotAChain(f"the kernels compute in float32 on a CPU, not in {task.dtype} on {task.device}")
    named = task.named(torch.zeros(task.size), task.initial_buffers())  # of which only frozen layers are used
    return Kernel(describe(task.net, shape, sparse=sparse), say, frozen=named)


def trains_whole(task: Task, algorithm: Algorithm, optimiser: LocalOptimiser) -> bool:
    """Whether the kernels know the local training: SGD on cross-entropy and declared terms."""
    known = type(task.objective) is CrossEntropy and type(optimiser) is Sgd
    return known and algorithm.all_declared


def _descent(worker: Worker, order: Order, phase: Phase, me: Party, start: Tensor) -> Descent | None:
    """The local training as the kernels know it, or None where the algorithm or the optimiser goes beyond."""
    algorithm, optimiser = worker.recipe.algorithm, worker.recipe.optimiser
    if not trains_whole(worker.task, algorithm, optimiser) or not isinstance(optimiser, Sgd):
        return None
    strength, centre = algorithm.proximal(me) or (0.0, None)
    if isinstance(strength, Tensor) and not strength.dim():
        strength = float(strength)
    span = None
    if phase.trains:
        spans = worker.task.parts.spans(*parts_of(phase.trains))
        if len(spans) > 1:  # the kernels move one run of weights
            return None
        span = (spans[0].start, spans[0].stop) if spans else (0, 0)
    linear, share = algorithm.linear(me), algorithm.beside(me)
    near, teach, contrast = algorithm.near(me), algorithm.teach(me), algorithm.contrast(me)
    ahead, pace, scales = algorithm.ahead(me), algorithm.pace(me), algorithm.scales(me)
    if ahead is not None and any(other is not None for other in (span, near, teach, contrast, share, scales)):
        return None
    sgd = Descent(
        order.lr,
        optimiser.momentum,
        optimiser.weight_decay,
        strength,
        centre,
        linear,
        trains=span,
        near=near and (float(near[0]), near[1]),
        teach=teach,
        contrast=contrast,
        ahead=ahead,
        pace=1.0 if pace is None else float(pace),
        scales=scales,
    )
    if share is None:
        return sgd
    # Beside a second model the kernels know no other term.
    if span or any(term is not None for term in (centre, linear, near, teach, contrast, pace, scales)):
        return None
    return replace(sgd, own=start[worker.task.size :], part=float(share))


def _fits(descent: Descent, start: Tensor, size: int) -> bool:
    """Whether all vectors have as many numbers as the kernels read of them, and of their kind."""
    if start.shape != (size if descent.own is None else 2 * size,):
        return False
    vectors = [v for v in (descent.centre, descent.linear, descent.strength) if isinstance(v, Tensor)]
    return all(v.shape == (size,) and v.dtype == torch.float32 for v in vectors)


def _labels(seen: SeenRows, labels: Tensor | None) -> Tensor:
    """The labels of all rows in memory, with the algorithm's own where it has some for those that are seen."""
    if labels is None:
        return seen.rows.y
    return seen.rows.y.index_copy(0, torch.from_numpy(seen.index), labels[torch.from_numpy(seen.places)])


def _data(rows: Rows, labels: Tensor) -> Data | None:
    """The rows, where the kernels can read them as they are kept."""
    stored = rows.stored
    if stored is None or stored.x.dtype not in KINDS:
        return None
    return replace(Data(*stored), y=labels)
