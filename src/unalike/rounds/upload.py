"""A private channel in an exchange: parties encode their uploads, the server gathers what arrives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unalike.algorithms.contract import Vectors
from unalike.channels import Channel, ChannelSetting, Coded, Layout, Summand, Upload
from unalike.channels.setting import Random, secret_random
from unalike.channels.stage import Sum

if TYPE_CHECKING:
    from unalike.rounds.exchange import Exchange, Reply

BUFFERS = "engine/buffers"
"""What an upload calls the change of the running statistics."""
CHANNEL = "channel"
"""What the count of bytes calls a channel's messages."""


@dataclass(frozen=True, eq=False)
class Wire:
    """The channel of an exchange, and what its two sides know.

    ``cohort``, ``scale`` and ``fewest`` are as in :class:`ChannelSetting`; ``memory_of`` is what a party's side of
    the channel keeps between rounds; ``random_of`` gives a party's source of random numbers (None: the server's).
    """

    channel: Channel
    cohort: int
    scale: float = 1.0
    fewest: int | None = None
    memory_of: Callable[[int], Vectors] = lambda number: {}
    random_of: Callable[[int | None], Random] = lambda number: secret_random

    def setting(self, turn: int, party: int | None) -> ChannelSetting:
        """The setting of one side."""
        return ChannelSetting(self.cohort, self.scale, turn, party, self.fewest, self.random_of(party))


@dataclass(frozen=True, eq=False)
class Encoded:
    """A reply on a channel; ``is_sum``: its grid is that of all replies, added before they came here."""

    coded: Coded
    memory: Vectors
    is_sum: bool = False


@dataclass(frozen=True, eq=False)
class Gathered:
    """What the server has of an exchange over a channel."""

    total: Summand
    uploads: dict[int, Vectors] | None
    """single uploads, where the channel shows them"""
    up: int
    down: int


def encode(
    exchange: Exchange, wire: Wire, party: int, weight: Tensor, uploaded: Vectors, more: Vectors
) -> Encoded:
    """A party's side: what leaves it, and what its side of the channel keeps."""
    setting = wire.setting(exchange.turn, party)
    layout, vectors = layout_of(exchange, uploaded), dict(uploaded)
    if BUFFERS in dict(layout.shapes):
        # As a change: what a channel shortens or leaves out must not pull the statistics to zero.
        vectors[BUFFERS] = more["buffers"] - exchange.buffers
    loss = float(more["loss"]) if "loss" in more else None
    upload = Upload(vectors, layout, float(weight), loss)
    return Encoded(*wire.channel.encode(upload, wire.memory_of(party), setting))


def gather(exchange: Exchange, wire: Wire, answers: Sequence[Reply]) -> Gathered:
    """The server's side: the sum of all answers, in party order, and what it took."""
    channel, layout = wire.channel, layout_of(exchange, answers[0].upload)
    setting = wire.setting(exchange.turn, None)
    coded = [reply.encoded.coded for reply in answers if reply.encoded is not None]
    uploads: dict[int, Vectors] | None = None
    if channel.hidden is not None:
        grids = [each.grid for each in coded if each.grid is not None]
        added = any(reply.encoded is not None and reply.encoded.is_sum for reply in answers)
        done = Sum(grids[0], up=0, down=0) if added else channel.hidden.add(grids, setting)
        total, up, down = channel.from_grid(done.total, layout, setting), done.up, done.down
    else:
        data = [each.data or b"" for each in coded]
        opened = [channel.decode(each, layout, setting) for each in data]
        total, up, down = opened[0].message(), sum(map(len, data)), 0
        for each in opened[1:]:
            total = total + each.message()
        uploads = {reply.party: each.vectors for reply, each in zip(answers, opened, strict=True)}
    total = channel.finish(total, layout, setting, len(answers))
    return Gathered(_moved(total, exchange.buffers.device), uploads, up, down)


def layout_of(exchange: Exchange, uploaded: Mapping[str, Tensor]) -> Layout:
    """How uploads of this exchange are laid out, which both sides know."""
    vectors = dict(uploaded)
    if exchange.trains and exchange.own_buffers is None and exchange.buffers.numel():
        vectors[BUFFERS] = exchange.buffers
    dtype = str(exchange.federation.task.dtype).removeprefix("torch.")
    return Layout.of(vectors, exchange.algorithm.plain, dtype, loss=exchange.trains)


def _moved(total: Summand, device: torch.device) -> Summand:
    return Summand({key: value.to(device) for key, value in total.vectors.items()}, total.weight, total.loss)
