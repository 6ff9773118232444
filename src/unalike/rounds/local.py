"""How a party answers an order: the readable reference that every engine is compared with.

A trainer runs one phase of local training. The one here takes one batch after the other; the compiled engine
brings its own, and everything around it stays the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unalike.algorithms.contract import Party, Vectors
from unalike.models.batch import Batch
from unalike.models.noise import key_of_phase
from unalike.rounds.order import Order, Reply
from unalike.rounds.rows import batch_of
from unalike.rounds.upload import reply_of
from unalike.rounds.work import PADDING
from unalike.rounds.worker import Worker, step_rows

MEASURE_ROWS = 1024
"""Rows in one forward pass where nothing is learnt."""

Trainer = Callable[[Worker, Order, int, Party, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Of a phase (its number): the weights after it from a start, and the mean loss; statistics change in place."""


def answer(worker: Worker, order: Order, trainer: Trainer) -> Reply:
    """A party's answer to an order."""
    algorithm, own = worker.recipe.algorithm, worker.own(order)
    if order.kind == "offer":
        return offer(worker, order)
    if order.measures_first:
        own["measured"] = measure(worker, order, worker.party(order, own, order.phase), order.buffers)
    me = worker.party(order, own, order.phases[0].name)
    if not order.trains:
        return reply_of(worker, order, algorithm.weight(me), algorithm.report(me), {})
    buffers, beside = order.buffers.clone(), order.own_statistics.clone()

    def train(number: int) -> tuple[Tensor, Tensor]:
        statistics = beside if order.phases[number].own_statistics else buffers
        return trainer(worker, order, number, me, statistics, algorithm.start(me))

    w, loss = train(0)
    for number, phase in enumerate(order.phases[1:], start=1):
        own["state"] = algorithm.keep(me, w)
        own["steps"] = torch.full_like(own["steps"], worker.steps(phase, order))
        me = worker.party(order, own, phase.name)
        w, loss = train(number)
    if order.measures and not order.measures_first:
        own["trained"] = w
        own["measured"] = measure(worker, order, worker.party(order, own, me.phase), buffers)
        me = worker.party(order, own, me.phase)
    more = {"buffers": buffers, "loss": loss}
    if len(beside) and any(phase.own_statistics for phase in order.phases):
        more["own statistics"] = beside
    return reply_of(worker, order, algorithm.weight(me), algorithm.upload(me, w), more)


def adapt(worker: Worker, order: Order, trainer: Trainer) -> tuple[Tensor, Tensor]:
    """A party's personal model after the phases of the order, and its statistics then. Nothing is kept of it."""
    own, buffers = worker.own(order), order.own_statistics.clone()
    if order.measures_first:
        own["measured"] = measure(worker, order, worker.party(order, own, order.phase), buffers)
    w = worker.recipe.algorithm.personal(worker.party(order, own, order.phase))
    for number, phase in enumerate(order.phases):
        own["steps"] = torch.full_like(own["steps"], worker.steps(phase, order))
        w, _ = trainer(worker, order, number, worker.party(order, own, phase.name), buffers, w)
    return w, buffers


@torch.no_grad()
def offer(worker: Worker, order: Order) -> Reply:
    """A party's answer to an order that looks at all of its training rows at once."""
    me = worker.party(order, worker.own(order), order.phase)
    rows, own = worker.measured_rows(order)
    device = me.task.device
    places = torch.arange(len(own), device=device)
    batch = batch_of(rows, torch.from_numpy(own).to(device), order.buffers, places)
    algorithm = worker.recipe.algorithm
    return reply_of(worker, order, algorithm.weight(me), algorithm.offer(me, batch), {})


def descend(
    worker: Worker, order: Order, number: int, me: Party, buffers: Tensor, start: Tensor
) -> tuple[Tensor, Tensor]:
    """A phase step by step: the weights after it, and the mean loss of its steps."""
    algorithm, optimiser, phase = worker.recipe.algorithm, worker.recipe.optimiser, order.phases[number]
    plan, rows = worker.plan(order, number), worker.rows_of(phase, order).rows
    w = start.detach().clone().requires_grad_()
    moving = worker.moving(phase, len(w))
    slots, key = optimiser.init(w.detach()), key_of_phase(me.key, order.later(number))
    total = torch.zeros((), dtype=w.dtype, device=w.device)
    for step, index in enumerate(plan["index"]):
        real = index != PADDING
        taken = {key: value[step][real] for key, value in plan.items()}
        x, y = step_rows(rows, taken)
        where = torch.from_numpy(taken["position"]).to(w.device)
        batch = Batch(x, y, buffers=buffers, training=True, index=where, step=step, key=key)
        loss = algorithm.loss(me, w, batch)
        (grad,) = torch.autograd.grad(loss, w)
        with torch.no_grad():
            grad = stepped(worker, me, w, grad)
            optimiser.step(w, grad, slots, order.lr, step)
            if moving is not None:  # not by the gradient alone: a step may shrink weights too
                w.copy_(torch.where(moving, w, start))
            total += loss
    return w.detach(), total / len(plan["index"])


def stepped(worker: Worker, me: Party, w: Tensor, grad: Tensor) -> Tensor:
    """The gradient that the local optimiser uses: with weight decay, then as the algorithm corrects it."""
    algorithm, decay = worker.recipe.algorithm, worker.recipe.optimiser.weight_decay
    if decay:
        grad = grad.add(w, alpha=decay)
    return algorithm.correct(me, w, grad) if algorithm.overrides("correct", "linear", "pace") else grad


@torch.no_grad()
def measure(worker: Worker, order: Order, me: Party, buffers: Tensor) -> Vectors:
    """The mean of the algorithm's ``measure`` over all rows that the order names."""
    rows, own = worker.measured_rows(order)
    total: Vectors = {}
    device = me.task.device
    known, places = torch.from_numpy(own).to(device), torch.arange(len(own), device=device)
    for index in torch.split(places, MEASURE_ROWS):
        batch = batch_of(rows, known[index], buffers, index)
        for key, value in worker.recipe.algorithm.measure(me, batch).items():
            share = value * (len(index) / len(own))
            total[key] = total[key] + share if key in total else share
    return total


Own = dict[str, Any]
"""What belongs to one party, or to a stack of them along the leading axis."""
