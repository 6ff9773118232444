"""Which people are in which node of a tree, where splits are told as a bit for each person."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unalike.trees.grow import Growing

Bits = NDArray[np.bool_]


def moved(growing: Growing, splits: Iterable[tuple[int, int, int, Bits]]) -> Growing:
    """Rows by node after splits: each is a node, its children, and for each of its rows whether it goes left.

    ValueError where there is no such node, or a child is one already.
    """
    order, starts, ends = growing.order.copy(), growing.starts.copy(), growing.ends.copy()
    for node, left, right, to_left in splits:
        if not (0 <= node < left < right < len(starts)) or ends[left] or ends[right]:
            raise ValueError(f"node {node} cannot be split into {left} and {right}")
        here = slice(int(starts[node]), int(ends[node]))
        rows = order[here]
        if len(rows) != len(to_left):
            raise ValueError(f"node {node} has {len(rows)} rows, and not {len(to_left)}")
        order[here] = np.concatenate([rows[to_left], rows[~to_left]])
        middle = here.start + int(to_left.sum())
        starts[left], ends[left], starts[right], ends[right] = here.start, middle, middle, here.stop
    return Growing(order, starts, ends)


def drawn_of(growing: Growing, drawn: Bits) -> Growing:
    """The same with only those rows that a tree is grown on."""
    keep = drawn[growing.order]
    if keep.all():
        return growing
    before = np.concatenate([[0], np.cumsum(keep)])
    return Growing(growing.order[keep], before[growing.starts], before[growing.ends])


def to_bits(parts: Iterable[Bits]) -> NDArray[np.uint8]:
    """Several vectors of bits one after another, each from a byte of its own."""
    return np.concatenate([np.zeros(0, np.uint8), *(np.packbits(part) for part in parts)])


def from_bits(packed: NDArray[np.uint8], lengths: Iterable[int]) -> list[Bits]:
    """What :func:`to_bits` has written; ValueError where it is of other lengths."""
    found, at = [], 0
    for length in lengths:
        size = -(-length // 8)
        part = packed[at : at + size]
        bits = np.unpackbits(part).astype(bool)
        if len(part) < size or bits[length:].any():
            raise ValueError(f"{size} bytes are needed for {length} rows, the last of them with zeros behind")
        found.append(bits[:length])
        at += size
    if at != len(packed):
        raise ValueError(f"{at} bytes are needed, not {len(packed)}")
    return found


def leaf_values(growing: Growing, tree: Any) -> NDArray[np.float64]:
    """What a grown tree says of each row."""
    found = np.zeros(len(growing.order))
    for node in np.flatnonzero(tree.left[: tree.size] < 0):
        found[growing.rows(int(node))] = tree.value[node]
    return found
