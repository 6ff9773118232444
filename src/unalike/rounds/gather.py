"""What comes of an exchange: sums over those who answered, and what each of them keeps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Protocol

from torch import Tensor

from unalike.algorithms.contract import ByParty, Payload, Replies, Vectors
from unalike.channels import Layout, Summand
from unalike.channels.stage import Grid
from unalike.errors import UserError
from unalike.rounds.blocks import BlockSum, blocks_in, cut
from unalike.rounds.freed import Freed
from unalike.rounds.order import BUFFERS, Order, Reply, seen_state
from unalike.rounds.population import Population
from unalike.rounds.upload import Wire, layout_of
from unalike.rounds.worker import Recipe, Workers

STATISTICS = "running statistics"
"""What the count of bytes calls batch norm's buffers."""
CHANNEL = "channel"
"""What the count of bytes calls a private channel's messages."""

_NO_MESSAGE = Summand({}, 0.0)
Sizes = dict[str, int]
"""Bytes, by what they carry."""


class Engine(Protocol):
    """A way to let parties that are at hand work: one after the other, as a stack, as compiled code."""

    @property
    def name(self) -> str:
        """What the run's record calls it."""
        ...

    def answer(self, workers: Workers, orders: Sequence[Order]) -> Iterable[Reply]:
        """The parties' replies, in any order, perhaps made one by one as they are asked for."""
        ...

    def adapt(self, workers: Workers, orders: Sequence[Order]) -> list[tuple[Tensor, Tensor]]:
        """Each party's personal model after the phases of its order, and its running statistics then."""
        ...


@dataclass(frozen=True, eq=False)
class Gathered:
    """Sums over the parties that answered, in party order, and what each of them keeps."""

    total: Summand
    answered: tuple[int, ...]
    statistics: Tensor | None
    """the shared running statistics after the exchange, where it changed them"""
    up: Sizes
    down: Sizes = field(default_factory=dict)
    """what the channel sends down beside the payload"""
    singles: Mapping[int, Vectors] | None = None
    """single uploads, for algorithms that need them"""
    states: Mapping[int, Vectors] = field(default_factory=dict)
    own_buffers: Mapping[int, Tensor] = field(default_factory=dict)
    memories: Mapping[int, Vectors] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Receiver:
    """The server's side of an exchange: it adds what parties say, through the channel where there is one."""

    recipe: Recipe

    def add(self, orders: Sequence[Order], replies: Iterable[Reply]) -> Gathered:
        """The sum of these replies, block by block in party order: it must not depend on who answered first.

        A message is added as soon as those of all parties before it are in, and is then let go: a round of large
        models needs the memory of one sum, not of a cohort's messages.
        """
        asked = {order.party: order for order in orders}
        coming = in_party_order(list(asked), replies)
        return self.whole(orders, (self.part(asked, block) for block in cut(coming, blocks_in(orders))))

    def part(self, asked: Mapping[int, Order], replies: Iterable[Reply]) -> BlockSum:
        """The replies of a block, which come in party order, as one: this is all that a worker has to send."""
        wire, needs_each = self.recipe.wire, self.recipe.algorithm.needs_each
        kept: list[Reply] = []
        grids: list[Grid] = []
        singles: dict[int, Vectors] = {}
        size = 0

        def messages() -> Iterator[Summand]:
            nonlocal size
            for reply in replies:
                order, message = asked[reply.party], reply.message
                self._check(order, reply, kept[0] if kept else reply)
                kept.append(replace(reply, message=_NO_MESSAGE, single=None))
                if needs_each and reply.single is not None:
                    singles[reply.party] = reply.single
                if isinstance(message, Summand):
                    yield message
                elif message.grid is not None:
                    grids.append(message.grid)
                else:
                    assert wire is not None
                    data, layout = message.data or b"", layout_of(self.recipe, order, reply.outline)
                    size += len(data)
                    one = wire.channel.decode(data, layout, wire.setting(order, reply.party))
                    if needs_each:
                        here = order.buffers.device
                        singles[reply.party] = {key: value.to(here) for key, value in one.vectors.items()}
                    yield one.message()

        total = _block_sum(messages())
        return BlockSum(tuple(kept), total, tuple(grids), size, singles)

    def whole(self, orders: Sequence[Order], parts: Iterable[BlockSum]) -> Gathered:
        """What comes of an exchange, from its blocks in their order."""
        asked = {order.party: order for order in orders}
        kept: list[Reply] = []
        grids: list[Grid] = []
        singles: dict[int, Vectors] = {}
        size, freed = 0, Freed()

        def totals() -> Iterator[Summand]:
            nonlocal size
            for part in parts:
                first = part.kept[0]
                self._check(asked[first.party], first, kept[0] if kept else first)
                kept.extend(part.kept)
                grids.extend(part.grids)
                singles.update(part.singles)
                size += part.size
                if part.total is not None:
                    yield part.total
                    freed.add(part.total.vectors, len(part.kept))

        total = _added(totals())
        gathered = self._sum(asked[kept[0].party], kept, total, grids, size)
        return replace(
            gathered,
            singles=singles if self.recipe.algorithm.needs_each else None,
            states={reply.party: reply.state for reply in kept},
            own_buffers={reply.party: reply.buffers for reply in kept if reply.buffers is not None},
            memories={reply.party: reply.memory for reply in kept},
        )

    def of_grid(self, order: Order, outline: Vectors, answered: Sequence[int], grid: Grid) -> Gathered:
        """The same of a sum that was made out of sight: nobody has seen a single reply."""
        wire = self.recipe.wire
        assert wire is not None
        layout, setting = layout_of(self.recipe, order, outline), wire.setting(order, None)
        total = wire.channel.from_grid(grid, layout, setting)
        return self._finished(order, wire, layout, total, answered, {}, {})

    def _sum(
        self, order: Order, kept: Sequence[Reply], total: Summand, grids: Sequence[Grid], size: int
    ) -> Gathered:
        """The sum as the server may use it; ``order`` is that of the first who answered."""
        wire, outline, who = self.recipe.wire, kept[0].outline, _answered(kept)
        if wire is None:
            _check_weight(total.weight)
            mean = total.vectors.pop(BUFFERS, None)
            up = traffic(outline, order.buffers if mean is not None else None, len(kept))
            return Gathered(total, who, None if mean is None else mean / total.weight, up)
        channel, layout, setting = wire.channel, layout_of(self.recipe, order, outline), wire.setting(order, None)
        if channel.hidden is None:
            return self._finished(order, wire, layout, total, who, {CHANNEL: size}, {})
        done = channel.hidden.add(grids, setting)
        total, down = channel.from_grid(done.total, layout, setting), {CHANNEL: done.down} if done.down else {}
        return self._finished(order, wire, layout, total, who, {CHANNEL: done.up}, down)

    def _finished(
        self,
        order: Order,
        wire: Wire,
        layout: Layout,
        total: Summand,
        answered: Sequence[int],
        up: Sizes,
        down: Sizes,
    ) -> Gathered:
        """A channel's sum as the server may use it: with its noise, and statistics in place of their change."""
        total = wire.channel.finish(total, layout, wire.setting(order, None), len(answered))
        device = order.buffers.device
        vectors = {key: value.to(device) for key, value in total.vectors.items()}
        change = vectors.pop(BUFFERS, None)
        _check_weight(total.weight)
        statistics = None if change is None else order.buffers + change / total.weight
        return Gathered(replace(total, vectors=vectors), tuple(answered), statistics, up, down)

    def _check(self, asked: Order, reply: Reply, first: Reply) -> None:
        """Refuse uploads and states that are not alike: summed or stacked they would mean something else."""
        name = type(self.recipe.algorithm).__name__
        if _layout(reply.outline) != _layout(first.outline):
            raise UserError(
                f"{name}: party {reply.party} uploads {_layout(reply.outline)}, party {first.party} "
                f"{_layout(first.outline)}. All parties must upload the same keys and shapes."
            )
        before, after = (_layout(seen_state(state)) for state in (asked.state, reply.state))
        if after != before:
            raise UserError(
                f"{name}: the state of party {reply.party} changed from {before} to {after}. "
                "init_party must give all keys, with their shapes."
            )


def in_party_order(parties: Sequence[int], replies: Iterable[Reply]) -> Iterator[Reply]:
    """Each reply as soon as all parties before have replied; in the end those that waited in vain."""
    waiting: dict[int, Reply] = {}
    left = deque(sorted(parties))
    for reply in replies:
        waiting[reply.party] = reply
        while left and left[0] in waiting:
            yield waiting.pop(left.popleft())
    for party in sorted(waiting):
        yield waiting[party]


def replies_of(gathered: Gathered, recipe: Recipe, population: Population, buffers: Tensor) -> Replies:
    """What an algorithm sees of an exchange; ``buffers`` are the shared running statistics after it."""
    sums, plain = gathered.total.vectors, recipe.algorithm.plain
    # Under noise, who answered and what they hold is not told: all parties count the same.
    hidden = recipe.wire is not None and recipe.wire.channel.uniform_weights
    size = round(gathered.total.weight) if hidden else len(gathered.answered)
    return Replies(
        weighted_sums={key: value for key, value in sums.items() if key not in plain},
        plain_sums={key: value for key, value in sums.items() if key in plain},
        weight=gathered.total.weight,
        size=size,
        population=population.size,
        share=size / population.size if hidden else population.share(gathered.answered),
        buffers=buffers,
        uploads=gathered.singles,
    )


def _answered(replies: Sequence[Reply]) -> tuple[int, ...]:
    return tuple(reply.party for reply in replies)


def _added(messages: Iterable[Summand]) -> Summand:
    """Their sum. In place, each message being read once; the first is copied, as it may be a party's state."""
    vectors: Vectors = {}
    weight, losses = 0.0, []
    for message in messages:
        weight += message.weight
        losses += [] if message.loss is None else [message.loss]
        for key, value in message.vectors.items():
            vectors[key] = vectors[key].add_(value) if key in vectors else value.clone()
    return Summand(vectors, weight, sum(losses) if losses else None)


def _block_sum(messages: Iterator[Summand]) -> Summand | None:
    """The sum of a block; of one message it is the message, of none (they went out of sight) there is none."""
    first = next(messages, None)
    second = next(messages, None)
    return first if first is None or second is None else _added(chain([first, second], messages))


def _check_weight(weight: float) -> None:
    if not weight > 0:
        raise UserError(
            f"The cohort's weights sum to {weight}. An algorithm's weight must be above 0 for somebody."
        )


def _layout(vectors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in sorted(vectors.items())}


def traffic(payload: Payload, buffers: Tensor | None, parties: int) -> Sizes:
    """The bytes on the wire between the server and so many parties, by key; of a ByParty each has one row."""
    sizes = {}
    for key, value in payload.items():
        one = value.values[0] if isinstance(value, ByParty) else value
        sizes[key] = parties * one.numel() * one.element_size()
    if buffers is not None and buffers.numel():
        sizes[STATISTICS] = parties * buffers.numel() * buffers.element_size()
    return sizes
