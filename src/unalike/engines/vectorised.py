"""Many parties at once: stacked weights, ``vmap`` of the per-party loss, one backward pass for the sum.

The losses of different parties do not depend on each other's weights, so the gradient of their sum with
respect to the stack is the stack of their gradients. Parties are sorted by their number of steps: at any
step those that still train are a prefix of the stack, so a finished party is not computed at all.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.utils._pytree import tree_map

from unalike.algorithms.contract import Party, Vectors
from unalike.engines.job import Job, Say, Unfit
from unalike.engines.several import WithFallback
from unalike.models.batch import Batch
from unalike.models.noise import key_of_phase
from unalike.models.task import Task
from unalike.rounds import local
from unalike.rounds.gather import Engine
from unalike.rounds.local import Own
from unalike.rounds.order import Order, Reply
from unalike.rounds.rows import Rows
from unalike.rounds.upload import reply_of
from unalike.rounds.work import PADDING
from unalike.rounds.worker import Plan, Worker, Workers, step_rows

CHUNK_BYTES = 256 * 2**20
"""Memory that the parties of one stack may take together."""


def cannot_vectorise(task: Task) -> str | None:
    """Why a stack of this net would not compute what one net computes, or None."""
    if task.net.mixes_rows:
        return "its forward mixes the rows of a batch, which padding would be among"
    for name, module in task.net.named_modules():
        what = f"{name} ({type(module).__name__})"
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.running_mean is not None:
            return f"{what} would count padding rows in its statistics"
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            return f"{what} would mix padding with real rows"
        if (isinstance(module, nn.modules.dropout._DropoutNd) and module.p) or (
            isinstance(module, nn.MultiheadAttention) and module.dropout
        ):
            return f"{what} would draw other random numbers"
        if isinstance(module, nn.RNNBase):
            return f"{what} has no vmap rule"
    return None


class Vectorised:
    """Lets stacks of parties work."""

    name = "vectorised"

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.chunk_bytes = chunk_bytes
        self._activations: WeakKeyDictionary[Task, int] = WeakKeyDictionary()

    @classmethod
    def of(cls, job: Job, say: Say) -> Engine:
        """The engine for a job, with the way back to one party after the other; some nets cannot be stacked."""
        if reason := cannot_vectorise(job.task):
            raise Unfit(reason)
        return WithFallback(cls(), say, job.threads)

    def answer(self, workers: Workers, orders: Sequence[Order]) -> list[Reply]:
        """The parties' replies to their orders, in any order."""
        if orders[0].kind == "offer":  # one look at all rows, of which parties have different numbers
            return [local.offer(workers.worker(order.party), order) for order in orders]
        return [reply for stack in self._stacks(workers, orders) for reply in stack.answer()]

    def adapt(self, workers: Workers, orders: Sequence[Order]) -> list[tuple[Tensor, Tensor]]:
        """Each party's personal model after the phases of its order, and its running statistics then."""
        made: dict[int, tuple[Tensor, Tensor]] = {}
        for stack in self._stacks(workers, orders):
            made |= stack.adapt()
        return [made[order.party] for order in orders]

    def _stacks(self, workers: Workers, orders: Sequence[Order]) -> Iterator[_Stack]:
        pairs = [(workers.worker(order.party), order) for order in orders]
        # Steps grow with rows in every phase, so the parties that still train are a prefix in each.
        pairs.sort(key=lambda pair: ([-steps for steps in pair[0].steps_in_all(pair[1])], pair[1].party))
        first = pairs[0][0]
        if first.task not in self._activations:
            self._activations[first.task] = activations_per_row(first.task, first.data)
        width = max(1, self.chunk_bytes // party_bytes(*pairs[0], self._activations[first.task]))
        for start in range(0, len(pairs), width):
            yield _Stack(pairs[start : start + width])


def party_bytes(worker: Worker, order: Order, activations: int) -> int:
    """An upper estimate of what one party takes in a stack: vectors, activations (of one row) and batch plan."""
    task, batch = worker.task, worker.recipe.work.batch_size
    vectors = 8 * task.size + 2 * sum(v.numel() for v in order.state.values())
    rows = local.MEASURE_ROWS if order.measures else batch
    plan = max(worker.steps_in_all(order)) * batch
    return (vectors + 3 * rows * activations) * task.dtype.itemsize + plan * 8


def activations_per_row(task: Task, rows: Rows) -> int:
    """Numbers that a forward pass makes for one row, input included."""
    x, y = rows.take(torch.zeros(1, dtype=torch.int64, device=rows.y.device))
    total = math.prod(x.shape)

    def count(module: nn.Module, inputs: object, output: object) -> None:
        nonlocal total
        total += output.numel() if isinstance(output, Tensor) else 0

    hooks = [m.register_forward_hook(count) for m in task.net.modules() if not list(m.children())]
    try:
        with torch.no_grad():
            task.forward(torch.zeros(task.size, dtype=task.dtype, device=task.device), Batch(x, y))
    finally:
        for hook in hooks:
            hook.remove()
    return total


@dataclass
class _Stack:
    """The parties of one chunk, longest first; they have the same task, and the same rows in memory."""

    pairs: list[tuple[Worker, Order]]

    def __post_init__(self) -> None:
        self.worker, self.order = self.pairs[0]
        self.algorithm = self.worker.recipe.algorithm
        self.own: Own = tree_map(
            lambda *leaves: torch.stack(leaves), *[worker.own(order) for worker, order in self.pairs]
        )
        # What is the same tensor for all is not stacked; what each is sent for itself is.
        first = self.order.payload
        self.shared = {k: v for k, v in first.items() if all(o.payload[k] is v for _, o in self.pairs)}
        self.own["own received"] = {
            key: torch.stack([order.payload[key] for _, order in self.pairs])
            for key in first
            if key not in self.shared
        }
        self.phase = self.order.phase
        """the phase that the parties are in"""

    def answer(self) -> list[Reply]:
        order, algorithm = self.order, self.algorithm
        if order.measures_first:
            self.own["measured"] = self._measure()
        more: dict[str, Tensor] = {}
        if order.trains:
            w, losses = self._phases(lambda me, own: algorithm.start(me))
            more = {"buffers": order.buffers.expand(len(self.pairs), -1), "loss": losses.cpu()}
            if order.measures and not order.measures_first:
                self.own["trained"] = w
                self.own["measured"] = self._measure()
            answers = self._map(lambda me, own: algorithm.upload(me, own["w"]), {"w": w})
        else:
            answers = self._map(lambda me, own: algorithm.report(me))
        weights = self._map(lambda me, own: algorithm.weight(me)).cpu()  # one wait for all, not one for each
        replies = []
        for i, (worker, asked) in enumerate(self.pairs):
            answer, further = tree_map(lambda leaf, i=i: leaf[i], (answers, more))
            replies.append(reply_of(worker, asked, weights[i], answer, further))
        return replies

    def adapt(self) -> dict[int, tuple[Tensor, Tensor]]:
        """By party, its personal model after all phases, and its statistics, which stacked nets do not have."""
        if self.order.measures_first:
            self.own["measured"] = self._measure()
        w = self._map(lambda me, own: self.algorithm.personal(me))
        for number, phase in enumerate(self.order.phases):
            self._enter(number, phase.name)
            w, _ = self._train(number, w)
        return {order.party: (w[i], order.buffers) for i, (_, order) in enumerate(self.pairs)}

    def _phases(self, start: Callable[[Party, Own], Tensor]) -> tuple[Tensor, Tensor]:
        """The weights after all phases, and the mean losses of the last one."""
        w, losses = torch.zeros(0), torch.zeros(0)
        for number, phase in enumerate(self.order.phases):
            if number:
                self.own["state"] = self._map(lambda me, own: self.algorithm.keep(me, own["w"]), {"w": w})
            self._enter(number, phase.name)
            w, losses = self._train(number, self._map(start))
        return w, losses

    def _enter(self, number: int, name: str) -> None:
        self.phase = name
        counts = [worker.steps(order.phases[number], order) for worker, order in self.pairs]
        self.own["steps"] = torch.tensor(counts).to(self.own["steps"])

    def _map(
        self, function: Callable[[Party, Own], Any], more: Own | None = None, count: int | None = None
    ) -> Any:
        """``function`` of each of the first ``count`` parties and its own share of ``more``."""
        count = len(self.pairs) if count is None else count
        own = tree_map(lambda leaf: leaf[:count], self.own) | (more or {})

        def one(own: Own) -> Any:
            received = {**self.shared, **own["own received"]}
            return function(self.worker.party(self.order, own | {"received": received}, self.phase), own)

        return vmap(one)(own)

    def _train(self, number: int, start: Tensor) -> tuple[Tensor, Tensor]:
        """The weights after a phase, and the mean losses of its steps."""
        algorithm, optimiser = self.algorithm, self.worker.recipe.optimiser
        w = start.detach().clone()
        moving = self.worker.moving(self.order.phases[number], w.shape[1])
        slots, draws = optimiser.init(w), key_of_phase(self.own["key"], self.order.later(number))
        totals = torch.zeros(len(self.pairs), dtype=w.dtype, device=w.device)
        for step, (count, rows) in enumerate(self._steps(number)):
            leaf = w[:count].detach().requires_grad_()
            losses = self._losses(step, {"w": leaf, "draws": draws[:count], **rows}, count)
            (grad,) = torch.autograd.grad(losses.sum(), leaf)
            with torch.no_grad():
                if optimiser.weight_decay:
                    grad = grad.add(leaf, alpha=optimiser.weight_decay)
                if algorithm.overrides("correct", "linear", "pace"):
                    own = {"w": leaf, "grad": grad}
                    grad = self._map(lambda me, own: algorithm.correct(me, own["w"], own["grad"]), own, count)
                part = {key: value[:count] for key, value in slots.items()}
                optimiser.step(w[:count], grad, part, self.order.lr, step)
                if moving is not None:  # not by the gradient alone: a step may shrink weights too
                    w[:count] = torch.where(moving, w[:count], start[:count])
                totals[:count] += losses.detach()
        return w, totals / self.own["steps"]

    def _losses(self, step: int, more: Own, count: int) -> Tensor:
        def loss(me: Party, own: Own) -> Tensor:
            return self.algorithm.loss(me, own["w"], self._batch(own, training=True, step=step))

        losses: Tensor = self._map(loss, more, count)
        return losses

    def _batch(self, own: Own, training: bool = False, step: int = 0) -> Batch:
        """A party's share of stacked rows. Nets whose statistics would change are not run here."""
        mask, draws = own.get("mask"), own.get("draws")
        return Batch(own["x"], own["y"], mask, self.order.buffers, training, own["index"], step, draws)

    def _steps(self, number: int) -> Iterator[tuple[int, dict[str, Tensor]]]:
        """For every step of a phase: how many parties still train, and the rows of each."""
        phase = self.order.phases[number]
        data = self.worker.rows_of(phase, self.order).rows
        plans = [worker.plan(order, number) for worker, order in self.pairs]
        counts = np.array([len(plan["index"]) for plan in plans])
        width = max(plan["index"].shape[1] for plan in plans)
        shape = (int(counts.max()), len(plans), width)
        stacked = {key: np.full(shape, PADDING, dtype=value.dtype) for key, value in plans[0].items()}
        for i, plan in enumerate(plans):
            for key, value in plan.items():
                stacked[key][: len(value), i, : value.shape[1]] = value
        active = (counts[None, :] > np.arange(shape[0])[:, None]).sum(axis=1)
        for step, count in enumerate(active):
            yield int(count), self._rows(data, {key: value[step, :count] for key, value in stacked.items()})

    def _rows(self, data: Rows, plan: Plan) -> dict[str, Tensor]:
        """Rows, labels, which rows they are and, where a batch is short, the mask of real rows."""
        real = plan["index"] != PADDING
        if real.all():
            x, y = step_rows(data, plan)
            return {"x": x, "y": y, "index": self._places(plan)}
        width = int(real.sum(axis=1).max())  # a short batch's real rows come first
        real = real[:, :width]
        # Padding repeats the batch's own first row: another party's might hold what this one cannot digest.
        padded = {key: np.where(real, value[:, :width], value[:, :1]) for key, value in plan.items()}
        x, y = step_rows(data, padded)
        mask = torch.from_numpy(real).to(self.own["size"])
        return {"x": x, "y": y, "index": self._places(padded), "mask": mask}

    def _places(self, plan: Plan) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(plan["position"])).to(self.worker.task.device)

    @torch.no_grad()
    def _measure(self) -> Vectors:
        """The mean of ``measure`` over all rows of each party; parties with more parts than others go on alone."""
        data, _ = self.worker.measured_rows(self.order)
        own = [worker.measured_rows(order)[1] for worker, order in self.pairs]
        parts = [
            np.array_split(np.arange(len(rows)), range(local.MEASURE_ROWS, len(rows), local.MEASURE_ROWS))
            for rows in own
        ]
        order = sorted(range(len(own)), key=lambda i: -len(parts[i]))
        back = np.argsort(order)
        moved = copy.copy(self)
        moved.pairs = [self.pairs[i] for i in order]
        moved.own = tree_map(lambda v: v[torch.as_tensor(order, device=v.device)], self.own)
        total: Vectors = {}
        for turn in range(len(parts[order[0]])):
            chunk = [parts[i][turn] for i in order if turn < len(parts[i])]
            plan = {
                key: np.full((len(chunk), max(map(len, chunk))), PADDING, np.int64)
                for key in ("index", "position")
            }
            for i, places in enumerate(chunk):
                plan["position"][i, : len(places)] = places
                plan["index"][i, : len(places)] = own[order[i]][places]
            share = torch.from_numpy(np.array([len(r) / len(own[i]) for r, i in zip(chunk, order, strict=False)]))
            measured = moved._map(
                lambda me, own: self.algorithm.measure(me, self._batch(own)), moved._rows(data, plan), len(chunk)
            )
            for key, value in measured.items():
                value = value * share.to(moved.own["size"]).reshape(-1, *(1,) * (value.dim() - 1))
                if key in total:
                    total[key][: len(chunk)] += value
                else:
                    total[key] = value.clone()
        return {key: value[torch.from_numpy(back).to(value.device)] for key, value in total.items()}
