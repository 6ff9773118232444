"""One exchange: what an engine is asked, what it answers, and how the answers are combined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from unalike.algorithms.contract import Algorithm, Ask, Party, Replies, Vectors
from unalike.data.augment import crop_flip, draw
from unalike.data.dataset import Array
from unalike.engine.federation import Federation
from unalike.engine.optimisers import LocalOptimiser
from unalike.engine.work import LocalWork
from unalike.errors import UserError
from unalike.randomness import stream

Plan = dict[str, Array]
"""Row numbers of every step under ``index``, and how each row is augmented."""

MEASURE_ROWS = 1024
"""Rows in one forward pass where nothing is learnt."""


@dataclass(frozen=True, eq=False)
class Exchange:
    """An ask to a cohort in one round. ``state_of`` gives the state that the party keeps."""

    algorithm: Algorithm
    ask: Ask
    round: int
    lr: float
    seed: int
    cohort: Sequence[int]
    state_of: Callable[[int], Vectors]
    buffers: Tensor
    federation: Federation
    optimiser: LocalOptimiser
    work: LocalWork
    augment: bool = False

    @property
    def trains(self) -> bool:
        """Whether parties train."""
        return self.ask.kind != "measure"

    @property
    def measures(self) -> bool:
        """Whether parties pass over all their rows first."""
        return self.ask.kind != "train"

    def party(self, number: Tensor, size: Tensor, steps: Tensor, state: Vectors, measured: Vectors) -> Party:
        """The party as its algorithm sees it."""
        return Party(
            task=self.federation.task,
            received=self.ask.payload,
            state=state,
            number=number,
            size=size,
            steps=steps,
            lr=self.lr,
            optimiser=self.optimiser,
            round=self.round,
            measured=measured,
        )

    def counts(self, number: int) -> tuple[int, int]:
        """A party's training rows and local steps."""
        rows = len(self.rows(number))
        return rows, self.work.count(rows) if self.trains else 0

    def rows(self, number: int) -> Array:
        """The rows that a party trains on in this round."""
        return self.federation.train_rows(number, self.round)

    def plan(self, number: int) -> Plan:
        """Which rows each of the party's steps sees, and how they are augmented: all [steps, batch]."""
        index = self.work.plan(self.rows(number), stream(self.seed, "batches", self.round, number))
        if not self.augment:
            return {"index": index}
        top, left, flip = draw(stream(self.seed, "augment", self.round, number), index.shape)
        return {"index": index, "top": top, "left": left, "flip": flip}

    def step_rows(self, step: Plan) -> tuple[Tensor, Tensor]:
        """The rows and labels of one step of a plan (or of a stack of plans), augmented as it says."""
        device = self.federation.task.device
        on_device = {key: torch.from_numpy(np.ascontiguousarray(value)).to(device) for key, value in step.items()}
        x, y = self.federation.train.take(on_device["index"])
        if "top" in on_device:
            x = crop_flip(x, on_device["top"], on_device["left"], on_device["flip"])
        return x, y


@dataclass(frozen=True, eq=False)
class Reply:
    """One party's answer, the state it will keep, and its mean training loss (NaN where it did not train)."""

    party: int
    weight: float
    upload: Vectors
    state: Vectors
    buffers: Tensor
    loss: float


class Engine(Protocol):
    """A way to run an exchange."""

    @property
    def name(self) -> str:
        """What the run's record calls it."""
        ...

    def exchange(self, exchange: Exchange) -> list[Reply]:
        """The replies of the cohort, in party order."""
        ...


@dataclass
class Combined:
    """Replies added up in party order: what the server folds, and what the engine keeps track of."""

    replies: Replies
    buffers: Tensor
    loss: float
    bytes_up: int
    states: dict[int, Vectors] = field(default_factory=dict)


def combine(algorithm: Algorithm, answers: Sequence[Reply], population: int) -> Combined:
    """Add the replies in party order: floating-point sums must not depend on who answered first."""
    answers = sorted(answers, key=lambda reply: reply.party)
    sums: dict[bool, Vectors] = {True: {}, False: {}}
    for reply in answers:
        for key, value in reply.upload.items():
            plain = key in algorithm.plain
            _add(sums[plain], key, value, 1.0 if plain else reply.weight)
    weight = sum(reply.weight for reply in answers)
    if not weight > 0:
        raise UserError(
            f"The cohort's weights sum to {weight}. An algorithm's weight must be above 0 for somebody."
        )
    pooled: Vectors = {}
    for reply in answers:
        _add(pooled, "buffers", reply.buffers, reply.weight)
    return Combined(
        replies=Replies(
            weighted_sums=sums[False],
            plain_sums=sums[True],
            weight=weight,
            size=len(answers),
            population=population,
            uploads=[reply.upload for reply in answers] if algorithm.needs_each else None,
        ),
        buffers=pooled["buffers"] / weight,
        loss=sum(reply.loss * reply.weight for reply in answers) / weight,
        bytes_up=sum(nbytes(reply.upload) + nbytes({"buffers": reply.buffers}) for reply in answers),
        states={reply.party: reply.state for reply in answers},
    )


def _add(total: Vectors, key: str, value: Tensor, weight: float) -> None:
    if key in total:
        total[key].add_(value, alpha=weight)
    else:
        total[key] = value * weight


def nbytes(vectors: Mapping[str, Tensor]) -> int:
    """The size of the vectors on the wire."""
    return sum(v.numel() * v.element_size() for v in vectors.values())


def scalar(value: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A party's number as the 0-d tensor that the contract promises."""
    return torch.tensor(value, dtype=dtype, device=device)
