"""The readable reference: party by party, one batch after the other; with several threads, parties at once."""

from __future__ import annotations

import torch
from torch import Tensor

from unalike.algorithms.contract import Party, Vectors
from unalike.models.task import Batch, own_torch_stream
from unalike.randomness import stream
from unalike.rounds import exchange as exchanges
from unalike.rounds.exchange import Exchange, Reply
from unalike.rounds.federation import batch_of
from unalike.rounds.threads import on_threads
from unalike.rounds.work import PADDING


class Sequential:
    """Runs an exchange party by party."""

    name = "sequential"

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self._draws = False

    def exchange(self, exchange: Exchange) -> list[Reply]:
        """The replies of the cohort, in party order; the same bits with any number of threads."""
        cohort = sorted(exchange.cohort)
        replies = None if self._draws or min(self.threads, len(cohort)) < 2 else self._at_once(exchange, cohort)
        return [self._alone(exchange, number) for number in cohort] if replies is None else replies

    def _at_once(self, exchange: Exchange, cohort: list[int]) -> list[Reply] | None:
        """The replies, made on threads; None where a layer drew random numbers.

        Layers draw from torch's one global stream, where parties on threads would take each other's numbers. As
        whoever draws moves that stream, it is noticed, and everything is done again one after the other.
        """
        exchange.counts(cohort[0])  # the split of the rows is made once, not by every thread
        with torch.random.fork_rng(devices=[]):
            before = torch.default_generator.get_state()
            replies = on_threads(self.threads, lambda number: self._answer(exchange, number), cohort)
            self._draws = not torch.equal(before, torch.default_generator.get_state())
        return None if self._draws else replies

    def _alone(self, exchange: Exchange, number: int) -> Reply:
        # Layers that draw, such as dropout, have a stream of their own in each exchange.
        with own_torch_stream(stream(exchange.seed, "layers", exchange.round, number, exchange.turn)):
            return self._answer(exchange, number)

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
