"""A party's answer as it leaves the party: a summand, or what a private channel makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from unalike.algorithms.contract import Vectors
from unalike.channels import Channel, ChannelSetting, Layout, Summand, Upload
from unalike.channels.setting import Random
from unalike.rounds.order import BUFFERS, OWN_STATISTICS, Order, Reply

if TYPE_CHECKING:
    from unalike.rounds.worker import Recipe, Worker

RandomOf = Callable[[int, int, "int | None"], Random]
"""Where a side of a channel has its random numbers from, by round, turn and party (None: the server)."""


@dataclass(frozen=True, eq=False)
class Wire:
    """The private channel of a run, and what its two sides know.

    ``cohort`` gives the public number of parties that are asked in a round, ``fewest`` how many must answer.
    ``layers`` are names and sizes of the net's layers, where all parties have the same net.
    """

    channel: Channel
    cohort: Callable[[int], int]
    random_of: RandomOf
    fewest: Callable[[int], int] | None = None
    seed: int = 0
    layers: tuple[tuple[str, int], ...] = ()

    def setting(self, order: Order, party: int | None) -> ChannelSetting:
        """An exchange as one side of the channel sees it."""
        cohort = self.cohort(order.round)
        scale = float(order.most_rows) if self.channel.hides_single else 1.0
        fewest = None if self.fewest is None else self.fewest(cohort)
        random = self.random_of(order.round, order.turn, party)
        return ChannelSetting(cohort, scale, order.round, order.turn, party, fewest, random, self.seed)


def reply_of(
    worker: Worker, order: Order, weight: Tensor, answer: tuple[Vectors, Vectors], more: Vectors
) -> Reply:
    """The reply of a party; ``more`` are its running statistics and training loss, where it trained.

    What it keeps of a model of its own is added to its state here: no algorithm sees it.
    """
    upload, state = answer
    beside = more.get("own statistics", order.state.get(OWN_STATISTICS))
    if beside is not None:
        state = {**state, OWN_STATISTICS: beside}
    recipe, buffers = worker.recipe, more.get("buffers")
    loss = float(more["loss"]) if "loss" in more else None
    single = upload if recipe.algorithm.needs_each else None
    if recipe.wire is None:
        vectors = dict(upload)
        if buffers is not None and shares_statistics(recipe, order):
            vectors[BUFFERS] = buffers
        plain, amount = recipe.algorithm.plain, float(weight)
        vectors = {key: value if key in plain else value * amount for key, value in vectors.items()}
        message = Summand(vectors, amount, None if loss is None else loss * amount)
        return Reply(order.party, message, outline(upload), state, single, buffers)
    channel, layout, vectors = recipe.wire.channel, layout_of(recipe, order, upload), dict(upload)
    if buffers is not None and BUFFERS in dict(layout.shapes):
        # As a change: what a channel shortens or leaves out must not pull the statistics to zero.
        vectors[BUFFERS] = buffers - order.buffers
    made = Upload(vectors, layout, float(weight), loss)
    coded, memory = channel.encode(made, order.memory, recipe.wire.setting(order, order.party))
    # What prepares is asked once: what of it did not get through belongs to no later upload.
    memory = memory if order.round else {}
    return Reply(order.party, coded, outline(upload), state, None, buffers, memory)


def shares_statistics(recipe: Recipe, order: Order) -> bool:
    """Whether running statistics are a part of what is added."""
    return order.trains and not recipe.keeps_statistics and order.buffers.numel() > 0


def layout_of(recipe: Recipe, order: Order, uploaded: Mapping[str, Tensor]) -> Layout:
    """How uploads to such an order are laid out on a channel, which both sides know."""
    vectors = dict(uploaded)
    if shares_statistics(recipe, order):
        vectors[BUFFERS] = order.buffers
    dtype = str(order.buffers.dtype).removeprefix("torch.")
    complete, layers = frozenset([BUFFERS]), recipe.wire.layers if recipe.wire is not None else ()
    return Layout.of(vectors, recipe.algorithm.plain, dtype, order.trains, complete, layers)


def outline(vectors: Vectors) -> Vectors:
    """Keys and shapes alone: tensors on the meta device take no memory."""
    return {key: value.to("meta") for key, value in vectors.items()}
