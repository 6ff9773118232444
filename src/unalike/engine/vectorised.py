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
from unalike.engine.exchange import MEASURE_ROWS, Exchange, Plan, Reply
from unalike.engine.work import PADDING
from unalike.models.task import Batch

CHUNK_BYTES = 256 * 2**20
"""Memory that the parties of one stack may take together."""

Slot = dict[str, Any]
"""What belongs to one party, stacked along the leading axis: number, size, steps, state, measured, ..."""


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
    rows = MEASURE_ROWS if exchange.measures else exchange.work.batch_size
    activations = 3 * rows * exchange.federation.activations_per_row
    plan = exchange.counts(number)[1] * exchange.work.batch_size
    return (vectors + activations) * task.dtype.itemsize + plan * 8


@dataclass
class _Stack:
    """The parties of one chunk, longest first."""

    exchange: Exchange
    numbers: list[int]

    def __post_init__(self) -> None:
        exchange, task = self.exchange, self.exchange.federation.task
        sizes, self.step_counts = zip(*(exchange.counts(n) for n in self.numbers), strict=True)
        states = [exchange.state_of(n) for n in self.numbers]
        self.slot: Slot = {
            "number": torch.tensor(self.numbers, device=task.device),
            "size": torch.tensor(sizes, dtype=task.dtype, device=task.device),
            "steps": torch.tensor(self.step_counts, dtype=task.dtype, device=task.device),
            "state": {key: torch.stack([state[key] for state in states]) for key in states[0]},
            "measured": {},
        }

    def answer(self) -> list[Reply]:
        exchange, algorithm = self.exchange, self.exchange.algorithm
        if exchange.measures:
            self.slot["measured"] = self._measure()
        losses = torch.full((len(self.numbers),), float("nan"))
        if exchange.trains:
            w, losses = self._train()
            upload, state = self._map(lambda me, own: algorithm.upload(me, own["w"]), {"w": w})
        else:
            upload, state = self._map(lambda me, own: algorithm.report(me))
        weights = self._map(lambda me, own: algorithm.weight(me))
        return [
            Reply(
                number,
                float(weights[i]),
                {key: value[i] for key, value in upload.items()},
                {key: value[i] for key, value in state.items()},
                exchange.buffers.clone(),
                float(losses[i]),
            )
            for i, number in enumerate(self.numbers)
        ]

    def _map(
        self, function: Callable[[Party, Slot], Any], more: Slot | None = None, count: int | None = None
    ) -> Any:
        """``function`` of each of the first ``count`` parties and its own share of ``more``."""
        count = len(self.numbers) if count is None else count
        slot = tree_map(lambda leaf: leaf[:count], self.slot) | (more or {})

        def one(own: Slot) -> Any:
            keys = ("number", "size", "steps", "state", "measured")
            return function(self.exchange.party(*(own[key] for key in keys)), own)

        return vmap(one)(slot)

    def _train(self) -> tuple[Tensor, Tensor]:
        exchange, algorithm = self.exchange, self.exchange.algorithm
        w = self._map(lambda me, own: algorithm.start(me)).detach().clone()
        slots = exchange.optimiser.init(w)
        totals = torch.zeros(len(self.numbers), dtype=w.dtype, device=w.device)
        for step, (count, rows) in enumerate(self._steps()):
            leaf = w[:count].detach().requires_grad_()
            losses = self._map(
                lambda me, own: algorithm.loss(
                    me, own["w"], Batch(own["x"], own["y"], own.get("mask"), training=True)
                ),
                {"w": leaf, **rows},
                count,
            )
            (grad,) = torch.autograd.grad(losses.sum(), leaf)
            with torch.no_grad():
                if algorithm.overrides("correct"):
                    grad = self._map(
                        lambda me, own: algorithm.correct(me, own["w"], own["grad"]),
                        {"w": leaf, "grad": grad},
                        count,
                    )
                part = {key: value[:count] for key, value in slots.items()}
                exchange.optimiser.step(w[:count], grad, part, exchange.lr, step)
                totals[:count] += losses.detach()
        return w, totals / self.slot["steps"]

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
        x, y = self.exchange.step_rows(
            {k: np.where(real, v[:, :width], 0).astype(v.dtype) for k, v in plan.items()}
        )
        return {"x": x, "y": y, "mask": torch.from_numpy(real).to(self.slot["size"])}

    @torch.no_grad()
    def _measure(self) -> Vectors:
        exchange, algorithm = self.exchange, self.exchange.algorithm
        own = [exchange.rows(n) for n in self.numbers]
        longest = max(map(len, own))
        index = np.full((len(own), longest), PADDING, dtype=np.int64)
        for i, rows in enumerate(own):
            index[i, : len(rows)] = rows
        total: Vectors = {}
        for start in range(0, longest, MEASURE_ROWS):
            part = index[:, start : start + MEASURE_ROWS]
            share = torch.from_numpy((part != PADDING).sum(axis=1)).to(self.slot["size"]) / self.slot["size"]
            measured = self._map(
                lambda me, own: algorithm.measure(me, Batch(own["x"], own["y"], own.get("mask"))),
                self._rows({"index": part}),
            )
            for key, value in measured.items():
                value = value * share.reshape(-1, *(1,) * (value.dim() - 1))
                total[key] = total[key] + value if key in total else value
        return total
