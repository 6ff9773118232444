"""The readable reference: one party after the other, one batch after the other."""

from __future__ import annotations

import torch
from torch import Tensor

from unalike.algorithms.contract import Party, Vectors
from unalike.engine.exchange import MEASURE_ROWS, Exchange, Reply, scalar
from unalike.engine.federation import batch_of
from unalike.engine.work import PADDING
from unalike.models.task import Batch


class Sequential:
    """Runs an exchange party by party."""

    name = "sequential"

    def exchange(self, exchange: Exchange) -> list[Reply]:
        """The replies of the cohort, in party order."""
        return [self._answer(exchange, number) for number in sorted(exchange.cohort)]

    def _answer(self, exchange: Exchange, number: int) -> Reply:
        task, algorithm = exchange.federation.task, exchange.algorithm
        rows, steps = exchange.counts(number)

        def party(measured: Vectors) -> Party:
            return exchange.party(
                scalar(number, torch.int64, task.device),
                scalar(rows, task.dtype, task.device),
                scalar(steps, task.dtype, task.device),
                exchange.state_of(number),
                measured,
            )

        me = party({})
        if exchange.measures:
            me = party(self._measure(exchange, me, number))
        buffers, loss = exchange.buffers.clone(), float("nan")
        if exchange.trains:
            w, loss = self._train(exchange, me, number, buffers)
            upload, state = algorithm.upload(me, w)
        else:
            upload, state = algorithm.report(me)
        return Reply(number, float(algorithm.weight(me)), upload, state, buffers, loss)

    def _train(self, exchange: Exchange, me: Party, number: int, buffers: Tensor) -> tuple[Tensor, float]:
        algorithm, plan = exchange.algorithm, exchange.plan(number)
        w = algorithm.start(me).detach().clone().requires_grad_()
        slots = exchange.optimiser.init(w.detach())
        total = torch.zeros((), dtype=w.dtype, device=w.device)
        for step, index in enumerate(plan["index"]):
            real = index != PADDING
            x, y = exchange.step_rows({key: value[step][real] for key, value in plan.items()})
            loss = algorithm.loss(me, w, Batch(x, y, buffers=buffers, training=True))
            (grad,) = torch.autograd.grad(loss, w)
            with torch.no_grad():
                if algorithm.overrides("correct"):
                    grad = algorithm.correct(me, w, grad)
                exchange.optimiser.step(w, grad, slots, exchange.lr, step)
                total += loss
        return w.detach(), float(total) / len(plan["index"])

    @torch.no_grad()
    def _measure(self, exchange: Exchange, me: Party, number: int) -> Vectors:
        own = torch.from_numpy(exchange.rows(number))
        total: Vectors = {}
        for index in torch.split(own.to(me.task.device), MEASURE_ROWS):
            batch = batch_of(exchange.federation.train, index, exchange.buffers.clone())
            for key, value in exchange.algorithm.measure(me, batch).items():
                share = value * (len(index) / len(own))
                total[key] = total[key] + share if key in total else share
        return total
