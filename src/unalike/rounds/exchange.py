"""One exchange: what an engine is asked, what it answers, and how the answers are combined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from unalike.algorithms.contract import Algorithm, Ask, Party, Replies, Vectors
from unalike.data.augment import crop_flip, draw
from unalike.data.dataset import Array
from unalike.errors import UserError
from unalike.randomness import stream
from unalike.rounds.federation import Federation
from unalike.rounds.optimisers import LocalOptimiser
from unalike.rounds.upload import BUFFERS, CHANNEL, Encoded, Wire, encode, gather
from unalike.rounds.work import LocalWork

Plan = dict[str, Array]
"""Row numbers of every step under ``index``, and how each row is augmented."""

OWN = ("number", "size", "steps", "key", "state", "measured")
"""What belongs to one party: the names that :class:`Party` has for it."""
PLAIN, ENGINE = "plain/", "engine/"
"""How a message tells keys that are summed as they are, and the engine's own, from weighted ones."""

STATISTICS = "running statistics"
"""What the count of bytes calls batch norm's buffers."""

MEASURE_ROWS = 1024
"""Rows in one forward pass where nothing is learnt."""


@dataclass(frozen=True, eq=False)
class Exchange:
    """An ask to a cohort in one round.

    ``state_of`` gives the state that a party keeps. ``buffers`` are the shared running statistics; where every
    party keeps its own instead, they are in ``own_buffers``.
    """

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
    turn: int = 0
    """the exchange's number in its round"""
    own_buffers: Mapping[int, Tensor] | None = None
    wire: Wire | None = None
    """the private channel, where there is one"""

    @property
    def trains(self) -> bool:
        """Whether parties train."""
        return self.ask.kind != "measure"

    @property
    def measures(self) -> bool:
        """Whether parties pass over all their rows."""
        return self.ask.kind != "train"

    @property
    def measures_first(self) -> bool:
        """Whether they do so before any training."""
        return self.ask.kind in ("measure", "measure+train")

    def buffers_of(self, number: int) -> Tensor:
        """The running statistics that a party starts from."""
        return self.buffers if self.own_buffers is None else self.own_buffers.get(number, self.buffers)

    def party(self, own: Mapping[str, Any]) -> Party:
        """The party as its algorithm sees it; ``own`` is what :meth:`own` gives, and may be a share of a stack."""
        return Party(
            task=self.federation.task,
            received=dict(self.ask.payload),
            lr=self.lr,
            optimiser=self.optimiser,
            round=self.round,
            phase=self.ask.phase,
            trained=own.get("trained"),
            **{key: own[key] for key in OWN},
        )

    def own(self, number: int) -> dict[str, Any]:
        """What belongs to one party, its numbers as the 0-d tensors that the contract promises."""
        task = self.federation.task
        rows, steps = self.counts(number)
        key = int(stream(self.seed, "noise", self.round, number, self.turn).integers(-(2**63), 2**63))
        return {
            "number": torch.tensor(number, device=task.device),
            "size": torch.tensor(rows, dtype=task.dtype, device=task.device),
            "steps": torch.tensor(steps, dtype=task.dtype, device=task.device),
            "key": torch.tensor(key, device=task.device),
            "state": dict(self.state_of(number)),
            "measured": {},
        }

    def counts(self, number: int) -> tuple[int, int]:
        """A party's training rows and local steps."""
        rows = self.federation.count(number, self.round)
        return rows, self.work.count(rows) if self.trains else 0

    def rows(self, number: int) -> Array:
        """The rows that a party trains on in this round."""
        return self.federation.train_rows(number, self.round)

    def plan(self, number: int) -> Plan:
        """Which rows each of the party's steps sees, and how they are augmented: all [steps, batch]."""
        index = self.work.plan(self.rows(number), stream(self.seed, "batches", self.round, number, self.turn))
        if not self.augment:
            return {"index": index}
        top, left, flip = draw(stream(self.seed, "augment", self.round, number, self.turn), index.shape)
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
    """One party's answer: a message that is only ever added to others', and the state that the party keeps.

    The party scales: in ``message`` a weighted key is already multiplied by the party's weight. ``upload`` is the
    answer as the algorithm gave it, for algorithms that need single ones; for others only its layout is kept
    (tensors on the meta device, which take no memory). ``buffers`` are the party's running
    statistics after training: in the message, unless every party keeps its own. On a private channel the message
    is empty, and ``encoded`` is what leaves the party.
    """

    party: int
    message: Vectors
    upload: Vectors
    state: Vectors
    buffers: Tensor | None = None
    encoded: Encoded | None = None

    @classmethod
    def of(
        cls, exchange: Exchange, party: int, weight: Tensor, answer: tuple[Vectors, Vectors], more: Vectors
    ) -> Reply:
        """The reply of a party; ``more`` are its running statistics and training loss, where it trained."""
        upload, state = answer
        buffers = more.get("buffers")
        if exchange.wire is not None:
            encoded = encode(exchange, exchange.wire, party, weight, upload, more)
            return cls(party, {}, _outline(upload), state, buffers, encoded)
        if exchange.own_buffers is not None:
            more = {key: value for key, value in more.items() if key != "buffers"}
        plain = exchange.algorithm.plain
        message = {f"{PLAIN}{k}" if k in plain else k: v if k in plain else v * weight for k, v in upload.items()}
        message |= {f"{ENGINE}{key}": value * weight for key, value in more.items()}
        if not exchange.algorithm.needs_each:
            upload = _outline(upload)
        return cls(party, message | {f"{ENGINE}weight": weight}, upload, state, buffers)


class Engine(Protocol):
    """A way to run an exchange."""

    @property
    def name(self) -> str:
        """What the run's record calls it."""
        ...

    def exchange(self, exchange: Exchange) -> list[Reply]:
        """The replies of the cohort, in party order."""
        ...


@dataclass(frozen=True, eq=False)
class Combined:
    """Replies added up: what the server folds, and what the engine keeps track of."""

    replies: Replies
    loss: float
    traffic: dict[str, int]
    """bytes sent up, by key"""
    states: dict[int, Vectors]
    own_buffers: dict[int, Tensor]
    memories: dict[int, Vectors] = field(default_factory=dict)
    """what the parties' sides of a private channel keep"""
    extra_down: dict[str, int] = field(default_factory=dict)
    """bytes that a private channel sends down, beside the payload"""

    @property
    def bytes_up(self) -> int:
        """All bytes sent up."""
        return sum(self.traffic.values())


def combine(exchange: Exchange, answers: Sequence[Reply]) -> Combined:
    """Add the messages in party order: floating-point sums must not depend on who answered first."""
    answers = sorted(answers, key=lambda reply: reply.party)
    _check(exchange, answers)
    if exchange.wire is not None:
        return _combine_private(exchange, exchange.wire, answers)
    total: Vectors = {}
    for reply in answers:
        for key, value in reply.message.items():
            # In place, each message being read once; the first is copied, as it may be a party's state.
            total[key] = total[key].add_(value) if key in total else value.clone()
    engine = {key.removeprefix(ENGINE): total.pop(key) for key in list(total) if key.startswith(ENGINE)}
    weight = float(engine["weight"])
    _check_weight(weight)
    uploads = {reply.party: reply.upload for reply in answers}
    statistics = engine["buffers"] / weight if "buffers" in engine else exchange.buffers
    return Combined(
        Replies(
            weighted_sums={key: value for key, value in total.items() if not key.startswith(PLAIN)},
            plain_sums={k.removeprefix(PLAIN): v for k, v in total.items() if k.startswith(PLAIN)},
            weight=weight,
            size=len(answers),
            population=exchange.federation.size,
            share=exchange.federation.share(list(uploads)),
            buffers=statistics,
            uploads=uploads if exchange.algorithm.needs_each else None,
        ),
        loss=float(engine["loss"]) / weight if "loss" in engine else float("nan"),
        traffic=traffic(answers[0].upload, statistics if "buffers" in engine else None, len(answers)),
        states={reply.party: reply.state for reply in answers},
        own_buffers={reply.party: reply.buffers for reply in answers if reply.buffers is not None},
    )


def _combine_private(exchange: Exchange, wire: Wire, answers: Sequence[Reply]) -> Combined:
    """The same of what comes through a private channel."""
    gathered = gather(exchange, wire, answers)
    sums, weight = gathered.total.vectors, gathered.total.weight
    _check_weight(weight)
    change = sums.pop(BUFFERS, None)
    plain, loss = exchange.algorithm.plain, gathered.total.loss
    # Under noise, who answered and what they hold is not told: all parties count the same.
    size = wire.cohort if wire.channel.uniform_weights else len(answers)
    even = size / exchange.federation.size
    return Combined(
        Replies(
            weighted_sums={key: value for key, value in sums.items() if key not in plain},
            plain_sums={key: value for key, value in sums.items() if key in plain},
            weight=weight,
            size=size,
            population=exchange.federation.size,
            share=even if wire.channel.uniform_weights else exchange.federation.share([a.party for a in answers]),
            buffers=exchange.buffers if change is None else exchange.buffers + change / weight,
            uploads=gathered.uploads if exchange.algorithm.needs_each else None,
        ),
        loss=float("nan") if loss is None else loss / weight,
        traffic={CHANNEL: gathered.up},
        states={reply.party: reply.state for reply in answers},
        own_buffers={reply.party: reply.buffers for reply in answers if reply.buffers is not None},
        memories={reply.party: reply.encoded.memory for reply in answers if reply.encoded is not None},
        extra_down={CHANNEL: gathered.down} if gathered.down else {},
    )


def _check_weight(weight: float) -> None:
    if not weight > 0:
        raise UserError(
            f"The cohort's weights sum to {weight}. An algorithm's weight must be above 0 for somebody."
        )


def _outline(vectors: Vectors) -> Vectors:
    """Keys and shapes alone: tensors on the meta device take no memory."""
    return {key: value.to("meta") for key, value in vectors.items()}


def _check(exchange: Exchange, answers: Sequence[Reply]) -> None:
    """Refuse uploads and states that are not alike: summed or stacked they would mean something else."""
    name = type(exchange.algorithm).__name__
    first = answers[0]
    for reply in answers:
        if _layout(reply.upload) != _layout(first.upload):
            raise UserError(
                f"{name}: party {reply.party} uploads {_layout(reply.upload)}, party {first.party} "
                f"{_layout(first.upload)}. All parties must upload the same keys and shapes."
            )
        before, after = _layout(exchange.state_of(reply.party)), _layout(reply.state)
        if after != before:
            raise UserError(
                f"{name}: the state of party {reply.party} changed from {before} to {after}. "
                "init_party must give all keys, with their shapes."
            )


def _layout(vectors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in sorted(vectors.items())}


def traffic(vectors: Mapping[str, Tensor], buffers: Tensor | None, parties: int) -> dict[str, int]:
    """The bytes on the wire between the server and so many parties, by key."""
    statistics = {} if buffers is None or not buffers.numel() else {STATISTICS: buffers}
    return {key: parties * v.numel() * v.element_size() for key, v in [*vectors.items(), *statistics.items()]}
