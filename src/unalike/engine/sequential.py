"""The readable reference: one party after the other, one batch after the other."""

from __future__ import annotations

import torch
from torch import Tensor

from unalike.algorithms.contract import Party, Vectors
from unalike.engine import exchange as exchanges
from unalike.engine.exchange import Exchange, Reply
from unalike.engine.federation import batch_of
from unalike.engine.work import PADDING
from unalike.models.task import Batch, own_torch_stream
from unalike.randomness import stream


class Sequential:
    """Runs an exchange party by party."""

    name = "sequential"

    def exchange(self, exchange: Exchange) -> list[Reply]:
        """The replies of the cohort, in party order."""
        return [self._answer(exchange, number) for number in sorted(exchange.cohort)]

    def _answer(self, exchange: Exchange, number: int) -> Reply:
        algorithm, own, buffers = exchange.algorithm, exchange.own(number), exchange.buffers_of(number)
        if exchange.measures_first:
            own["measured"] = self._measure(exchange, exchange.party(own), number, buffers)
        me = exchange.party(own)
        if not exchange.trains:
            return Reply.of(exchange, number, algorithm.weight(me), algorithm.report(me), {})
        buffers = buffers.clone()
        w, loss = self._train(exchange, me, number, buffers)
        if exchange.measures and not exchange.measures_first:
            own["trained"] = w
            own["measured"] = self._measure(exchange, exchange.party(own), number, buffers)
            me = exchange.party(own)
        more = {"buffers": buffers, "loss": loss}
        return Reply.of(exchange, number, algorithm.weight(me), algorithm.upload(me, w), more)

    def _train(self, exchange: Exchange, me: Party, number: int, buffers: Tensor) -> tuple[Tensor, Tensor]:
        """The weights after local training, and the mean loss of its steps."""
        # Layers that draw, such as dropout, have a stream of their own in each exchange.
        with own_torch_stream(stream(exchange.seed, "layers", exchange.round, number, exchange.turn)):
            return self._steps(exchange, me, number, buffers)

    def _steps(self, exchange: Exchange, me: Party, number: int, buffers: Tensor) -> tuple[Tensor, Tensor]:
        algorithm, optimiser, plan = exchange.algorithm, exchange.optimiser, exchange.plan(number)
        w = algorithm.start(me).detach().clone().requires_grad_()
        slots = optimiser.init(w.detach())
        total = torch.zeros((), dtype=w.dtype, device=w.device)
        for step, index in enumerate(plan["index"]):
            real = index != PADDING
            x, y = exchange.step_rows({key: value[step][real] for key, value in plan.items()})
            loss = algorithm.loss(me, w, Batch(x, y, buffers=buffers, training=True))
            (grad,) = torch.autograd.grad(loss, w)
            with torch.no_grad():
                if optimiser.weight_decay:
                    grad = grad.add(w, alpha=optimiser.weight_decay)
                if algorithm.overrides("correct", "linear"):
                    grad = algorithm.correct(me, w, grad)
                optimiser.step(w, grad, slots, exchange.lr, step)
                total += loss
        return w.detach(), total / len(plan["index"])

    @torch.no_grad()
    def _measure(self, exchange: Exchange, me: Party, number: int, buffers: Tensor) -> Vectors:
        own = torch.from_numpy(exchange.rows(number))
        total: Vectors = {}
        for index in torch.split(own.to(me.task.device), exchanges.MEASURE_ROWS):
            batch = batch_of(exchange.federation.train, index, buffers)
            for key, value in exchange.algorithm.measure(me, batch).items():
                share = value * (len(index) / len(own))
                total[key] = total[key] + share if key in total else share
        return total
