"""Growing a tree: the steps that a protocol calls one by one, and a whole tree in one call, with the same bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unalike.models.trees import Trees
from unalike.trees import library, reference
from unalike.trees.arithmetic import Floats
from unalike.trees.bins import Binned
from unalike.trees.building import Building, Moves
from unalike.trees.cuts import Arrays
from unalike.trees.split import channels_of
from unalike.trees.tree import Tree, most_nodes

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Growing:
    """A party's rows by node: those of node ``n`` are ``order[starts[n]:ends[n]]``, ascending."""

    order: NDArray[np.int32]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def start(cls, rows: int | NDArray[Any], settings: Trees) -> Growing:
        """All rows in the root: so many, or (where rows are sampled) those with these ascending numbers."""
        order = np.arange(rows, dtype=np.int32) if isinstance(rows, int) else np.asarray(rows, np.int32)
        starts, ends = np.zeros((2, most_nodes(settings)), np.int64)
        ends[0] = len(order)
        return cls(order, starts, ends)

    def rows(self, node: int) -> NDArray[np.int32]:
        """The numbers of the rows in a node, ascending."""
        return self.order[self.starts[node] : self.ends[node]]

    def arrays(self) -> Arrays:
        """The rows by node as arrays, for a state."""
        return {"order": self.order, "starts": self.starts, "ends": self.ends}

    @classmethod
    def of(cls, arrays: Arrays) -> Growing:
        """What :meth:`arrays` has written; others in the dict are left alone."""
        return cls(arrays["order"], arrays["starts"], arrays["ends"])


def histograms(
    binned: Binned, g: Ints, h: Ints, growing: Growing, nodes: NDArray[Any], channels: int
) -> NDArray[np.int64]:
    """The full histograms of some nodes, int64 [nodes, slots, channels]: sums of ``g``, ``h``, and rows if 3.

    ``g`` and ``h`` are of one output, int32 [rows].
    """
    found = np.zeros((len(nodes), binned.cuts.slots, channels), np.int64)
    handle = library.handle_of(binned)
    for place, node in enumerate(nodes):
        if handle is not None:
            rows, threads = growing.rows(int(node)), library.threads_for(binned.codes.size)
            found[place] = library.histogram(handle, g, h, rows, channels, threads)
            continue
        found[place] = reference.histogram(binned, g, h, growing.rows(int(node)), channels)
    return found


def move(binned: Binned, growing: Growing, moves: Moves) -> Growing:
    """Rows by node after these splits; within a node they keep their order."""
    order, starts, ends = growing.order.copy(), growing.starts.copy(), growing.ends.copy()
    moves.check(binned.cuts.features, len(starts))
    scratch = np.empty_like(order)
    columns = (moves.node, moves.feature, moves.bin, moves.missing_left, moves.left, moves.right)
    for node, feature, bin, missing_left, left, right in zip(*(c.tolist() for c in columns), strict=True):
        here = slice(starts[node], ends[node])
        middle = starts[node] + _divide(binned, feature, bin, bool(missing_left), order[here], scratch)
        starts[left], ends[left], starts[right], ends[right] = starts[node], middle, middle, ends[node]
    return Growing(order, starts, ends)


def _divide(binned: Binned, feature: int, bin: int, missing_left: bool, order: Ints, scratch: Ints) -> int:
    """Put the rows that go left first, in place, both sides in their order; how many go left."""
    if (handle := library.handle_of(binned)) is not None:
        return library.divide_rows(handle, feature, bin, missing_left, order, scratch)
    left = reference.goes_left(binned, order, feature, bin, missing_left)
    order[:] = np.concatenate([order[left], order[~left]])
    return int(left.sum())


def grow(
    binned: Binned,
    g: Ints,
    h: Ints,
    settings: Trees,
    allowed: NDArray[np.bool_] | None = None,
    rows: NDArray[Any] | None = None,
    margins: Floats | None = None,
    threads: int | None = None,
    before: Floats | None = None,
) -> Tree:
    """A whole tree of one output from a party's own rows, with the bits of the single steps.

    ``allowed`` says which columns may be split on, ``rows`` (ascending) which rows are looked at. To ``margins``,
    one number for each row (a column of all margins will do), what the tree says is added in place; with
    ``before``, which lie in memory as they do, they become the sum of those and of what it says.
    The number of ``threads`` changes no bit.
    """
    in_one_go = rows is None and margins is not None and library.core() is not None
    if margins is not None and before is not None and not in_one_go:
        margins[:] = before
    if (handle := library.handle_of(binned)) is not None:
        if margins is not None and margins.dtype != np.float64:
            raise ValueError(f"margins must be float64, not {margins.dtype}.")
        own = margins if in_one_go else None
        old = own if before is None or own is None else before
        many = threads or library.threads_for(binned.codes.size)
        tree = library.grow_tree(handle, g, h, settings, allowed, rows, old, own, many)
        tree.set_thresholds(binned.cuts)
        if margins is not None and rows is not None:
            add_values(margins, binned, tree)
        return tree
    building = Building(binned.cuts, settings, allowed)
    growing = Growing.start(binned.rows if rows is None else rows, settings)
    while len(building.wanted):
        found = histograms(binned, g, h, growing, building.wanted, channels_of(settings))
        growing = move(binned, growing, building.hear(found))
    if margins is not None:
        add_values(margins, binned, building.tree)
    return building.tree


def leaves(binned: Binned, tree: Tree) -> NDArray[np.int32]:
    """The leaf that each row ends in."""
    tree.check(binned.cuts.features)
    if (handle := library.handle_of(binned)) is not None:
        return library.leaves(handle, tree)
    return reference.leaves(binned, tree)


def add_values(margins: Floats, binned: Binned, tree: Tree) -> None:
    """Add to each row's margin, in place, what the tree says; ``margins`` has one number a row."""
    tree.check(binned.cuts.features)
    if margins.shape != (binned.rows,) or margins.dtype != np.float64:
        raise ValueError(f"margins must be float64, one for each of {binned.rows} rows, not {margins.shape}.")
    if (handle := library.handle_of(binned)) is not None:
        library.add_values(handle, tree, margins)
    else:
        margins += tree.value[leaves(binned, tree)]
