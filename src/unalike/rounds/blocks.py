"""Blocks of a cohort: who is worked on and added together, whoever does the work.

A sum of floating point numbers depends on the order in which it is made. So the parties of a cohort are cut into
blocks by nothing but who is in the cohort: messages are added within each block, in party order, and then the
blocks in their order. One process and any number of workers, each of which answers some blocks, come to the same
bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

from unalike.algorithms.contract import Vectors
from unalike.channels import Summand
from unalike.channels.stage import Grid
from unalike.rounds.order import Order, Reply

MOST_BLOCKS = 64
"""Blocks of a cohort at most; up to so many parties, each is a block by itself."""
Item = TypeVar("Item", Order, Reply)


def block_size(cohort: int, *, stacked: bool = False) -> int:
    """How many parties are in a block: 1 up to 64 parties, above the power of two that makes 32 to 64 blocks.

    Where parties are computed as one stack, the bits depend on who is in it, and wide stacks are the fast ones.
    So up to 64 parties are one block there, and more are blocks of 64 at least.
    """
    size = 1 << max(0, (cohort - 1) // MOST_BLOCKS).bit_length()
    return max(size, MOST_BLOCKS) if stacked else size


def blocks_of(cohort: Sequence[int], *, stacked: bool = False) -> dict[int, int]:
    """By party the number of its block; the parties are in ascending order."""
    size = block_size(len(cohort), stacked=stacked)
    return {party: place // size for place, party in enumerate(sorted(cohort))}


def cut(items: Iterable[Item], blocks: Mapping[int, int]) -> Iterator[Iterator[Item]]:
    """What comes in party order, block by block; who is in none is a block by itself."""
    return (block for _, block in groupby(items, lambda item: blocks.get(item.party, ~item.party)))


def blocks_in(orders: Sequence[Order]) -> dict[int, int]:
    """By party the number of its block, where its order names one."""
    return {order.party: order.block for order in orders if order.block is not None}


@dataclass(frozen=True, eq=False)
class BlockSum:
    """A block that has answered: the sum of its messages, and what each of its parties keeps.

    ``total`` is None where sums are made out of sight: then ``grids`` are the single messages. ``kept`` are the
    replies without their messages; ``size`` is how many bytes a channel carried.
    """

    kept: tuple[Reply, ...]
    total: Summand | None
    grids: tuple[Grid, ...] = ()
    size: int = 0
    singles: Mapping[int, Vectors] = field(default_factory=dict)
