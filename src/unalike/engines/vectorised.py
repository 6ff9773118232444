"""Many parties at once: stacked weights, ``vmap`` of the per-party loss, one backward pass for the sum.

The losses of different parties do not depend on each other's weights, so the gradient of their sum with
respect to the stack is the stack of their gradients. Parties are sorted by their number of steps: at any
step those that still train are a prefix of the stack, so a finished party is not computed at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap
from torch.utils._pytree import tree_map

from unalike.algorithms.contract import Party, Vectors
from unalike.models.task import Batch
from unalike.rounds import exchange as exchanges
from unalike.rounds.exchange import Exchange, Plan, Reply
from unalike.rounds.work import PADDING

CHUNK_BYTES = 256 * 2**20
"""Memory that the parties of one stack may take together."""

Own = dict[str, Any]
"""What belongs to one party, and here to a stack of them along the leading axis."""


class Vectorised:
    """Runs an exchange on stacks of parties."""

    name = "vectorised"

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.chunk_bytes = chunk_bytes

    def exchange(self, exchange: Exchange) -> list[Reply]:
        """The replies of the cohort, in party order."""
        order = sorted(exchange.cohort, key=lambda number: (-exchange.counts(number)[1], number))
        width = max(1, self.chunk_bytes // party_bytes(exchange, order[0]))
        replies: list[Reply] = []
        for start in range(0, len(order), width):
            replies += _Stack(exchange, order[start : start + width]).answer()
        return sorted(replies, key=lambda reply: reply.party)


def party_bytes(exchange: Exchange, number: int) -> int:
    """An upper estimate of what one party takes in a stack: vectors, activations and batch plan."""
    task = exchange.federation.task
    state = sum(v.numel() for v in exchange.state_of(number).values())
    vectors = 8 * task.size + 2 * state
    rows = exchanges.MEASURE_ROWS if exchange.measures else exchange.work.batch_size
    activations = 3 * rows * exchange.federation.activations_per_row
    plan = exchange.counts(number)[1] * exchange.work.batch_size
    return (vectors + activations) * task.dtype.itemsize + plan * 8


@dataclass
class _Stack:
    """The parties of one chunk, longest first."""

    exchange: Exchange
    numbers: list[int]

    def __post_init__(self) -> None:
        owned = [self.exchange.own(number) for number in self.numbers]
        self.own: Own = tree_map(lambda *leaves: torch.stack(leaves), *owned)
        self.step_counts = [self.exchange.counts(number)[1] for number in self.numbers]

    def answer(self) -> list[Reply]:
        exchange, algorithm = self.exchange, self.exchange.algorithm
        if exchange.measures_first:
            self.own["measured"] = self._measure()
        more: dict[str, Tensor] = {}
        if exchange.trains:
            w, losses = self._train()
            more = {"buffers": exchange.buffers.expand(len(self.numbers), -1), "loss": losses}
            if exchange.measures and not exchange.measures_first:
                self.own["trained"] = w
                self.own["measured"] = self._measure()
            answers = self._map(lambda me, own: algorithm.upload(me, own["w"]), {"w": w})
        else:
            answers = self._map(lambda me, own: algorithm.report(me))
        weights = self._map(lambda me, own: algorithm.weight(me))
        replies = []
        for i, number in enumerate(self.numbers):
            answer, further = tree_map(lambda leaf, i=i: leaf[i], (answers, more))
            replies.append(Reply.of(exchange, number, weights[i], answer, further))
        return replies

    def _map(
        self, function: Callable[[Party, Own], Any], more: Own | None = None, count: int | None = None
    ) -> Any:
        """``function`` of each of the first ``count`` parties and its own share of ``more``."""
        count = len(self.numbers) if count is None else count
        own = tree_map(lambda leaf: leaf[:count], self.own) | (more or {})
        return vmap(lambda own: function(self.exchange.party(own), own))(own)

    def _train(self) -> tuple[Tensor, Tensor]:
        exchange, algorithm, optimiser = self.exchange, self.exchange.algorithm, self.exchange.optimiser
        w = self._map(lambda me, own: algorithm.start(me)).detach().clone()
        slots = optimiser.init(w)
        totals = torch.zeros(len(self.numbers), dtype=w.dtype, device=w.device)
        for step, (count, rows) in enumerate(self._steps()):
            leaf = w[:count].detach().requires_grad_()
            losses = self._map(
                lambda me, own: algorithm.loss(me, own["w"], self._batch(own, training=True)),
                {"w": leaf, **rows},
                count,
            )
            (grad,) = torch.autograd.grad(losses.sum(), leaf)
            with torch.no_grad():
                if optimiser.weight_decay:
                    grad = grad.add(leaf, alpha=optimiser.weight_decay)
                if algorithm.overrides("correct", "linear"):
                    own = {"w": leaf, "grad": grad}
                    grad = self._map(lambda me, own: algorithm.correct(me, own["w"], own["grad"]), own, count)
                part = {key: value[:count] for key, value in slots.items()}
                optimiser.step(w[:count], grad, part, exchange.lr, step)
                totals[:count] += losses.detach()
        return w, totals / self.own["steps"]

    def _batch(self, own: Own, training: bool = False) -> Batch:
        """A party's share of stacked rows. Nets whose statistics would change are not run here."""
        return Batch(own["x"], own["y"], own.get("mask"), self.exchange.buffers, training)

    def _steps(self) -> Iterator[tuple[int, dict[str, Tensor]]]:
        """For every step: how many parties still train, and the rows of each."""
        plans = [self.exchange.plan(number) for number in self.numbers]
        width = max(plan["index"].shape[1] for plan in plans)
        shape = (self.step_counts[0], len(plans), width)
        stacked = {key: np.full(shape, PADDING, dtype=value.dtype) for key, value in plans[0].items()}
        for i, plan in enumerate(plans):
            for key, value in plan.items():
                stacked[key][: len(value), i, : value.shape[1]] = value
        active = (np.asarray(self.step_counts)[None, :] > np.arange(shape[0])[:, None]).sum(axis=1)
        for step, count in enumerate(active):
            yield int(count), self._rows({key: value[step, :count] for key, value in stacked.items()})

    def _rows(self, plan: Plan) -> dict[str, Tensor]:
        """Rows, labels and, where a batch is short, the mask of real rows."""
        real = plan["index"] != PADDING
        if real.all():
            x, y = self.exchange.step_rows(plan)
            return {"x": x, "y": y}
        width = int(real.sum(axis=1).max())  # a short batch's real rows come first
        real = real[:, :width]
        # Padding repeats the batch's own first row: another party's might hold what this one cannot digest.
        padded = {key: np.where(real, value[:, :width], value[:, :1]) for key, value in plan.items()}
        x, y = self.exchange.step_rows(padded)
        return {"x": x, "y": y, "mask": torch.from_numpy(real).to(self.own["size"])}

    @torch.no_grad()
    def _measure(self) -> Vectors:
        """The mean of ``measure`` over all rows of each party; parties with more parts than others go on alone."""
        own = [self.exchange.rows(number) for number in self.numbers]
        parts = [
            np.array_split(rows, range(exchanges.MEASURE_ROWS, len(rows), exchanges.MEASURE_ROWS)) for rows in own
        ]
        order = sorted(range(len(own)), key=lambda i: -len(parts[i]))
        back = np.argsort(order)
        moved = _Stack(self.exchange, [self.numbers[i] for i in order])
        if "trained" in self.own:
            moved.own["trained"] = self.own["trained"][torch.as_tensor(order, device=self.own["trained"].device)]
        total: Vectors = {}
        for turn in range(len(parts[order[0]])):
            chunk = [parts[i][turn] for i in order if turn < len(parts[i])]
            index = np.full((len(chunk), max(map(len, chunk))), PADDING, dtype=np.int64)
            for i, rows in enumerate(chunk):
                index[i, : len(rows)] = rows
            share = torch.from_numpy(np.array([len(r) / len(own[i]) for r, i in zip(chunk, order, strict=False)]))
            measured = moved._map(
                lambda me, own: self.exchange.algorithm.measure(me, self._batch(own)),
                moved._rows({"index": index}),
                len(chunk),
            )
            for key, value in measured.items():
                value = value * share.to(moved.own["size"]).reshape(-1, *(1,) * (value.dim() - 1))
                if key in total:
                    total[key][: len(chunk)] += value
                else:
                    total[key] = value.clone()
        return {key: value[torch.from_numpy(back).to(value.device)] for key, value in total.items()}
