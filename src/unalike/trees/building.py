"""How one tree is built from histograms, whoever adds them up: which are needed next, and what was decided."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from unalike.errors import UserError
from unalike.models.trees import Trees
from unalike.trees.arithmetic import GRID, Floats
from unalike.trees.cuts import Arrays, Cuts
from unalike.trees.split import Splits, best_splits, channels_of, first_bounds, least_sum, weight
from unalike.trees.split import directions as directions_of
from unalike.trees.tree import Tree, most_leaves, most_nodes


@dataclass(frozen=True, eq=False)
class Moves:
    """Nodes that have been split, in order, and their children's numbers: what parties must know to move rows."""

    node: NDArray[np.int32]
    feature: NDArray[np.int32]
    bin: NDArray[np.int32]
    missing_left: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]

    def check(self, features: int, nodes: int) -> None:
        """Refuse what names columns or nodes that are not there, as a message from others may."""
        for name, most in (("feature", features), ("node", nodes), ("left", nodes), ("right", nodes)):
            numbers = getattr(self, name)
            if len(numbers) and not 0 <= numbers.min() <= numbers.max() < most:
                raise UserError(f"trees: a split names {name} {numbers.max()}; there are {most}.")

    def arrays(self) -> Arrays:
        """The moves as arrays, for a message."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of(cls, arrays: Arrays) -> Moves:
        """The moves that :meth:`arrays` has written; others in the dict are left alone."""
        return cls(**{field.name: arrays[field.name] for field in fields(cls)})


_PLACES = ("depth", "sums", "bounds", "found_feature", "found_bin", "found_missing", "found_gain", "found_left")


class Building:
    """A tree while it is built. Call :meth:`hear` with the histograms of :attr:`wanted` until nothing is wanted.

    It is a pure function of the sums: however rows are split between parties, it builds the same tree. ``arrays``
    and ``of`` write and read it, in shapes that stay from the first call to the last.
    """

    def __init__(self, cuts: Cuts, settings: Trees, allowed: NDArray[np.bool_] | None = None) -> None:
        nodes, channels = most_nodes(settings), channels_of(settings)
        self.cuts, self.settings = cuts, settings
        self.allowed = np.ones(cuts.features, bool) if allowed is None else np.asarray(allowed, bool)
        self.signs = directions_of(settings, cuts.features)
        self.tree = Tree.empty(settings)
        self.size = 1
        self.depth = np.zeros(nodes, np.int32)
        self.sums = np.zeros((nodes, channels), np.int64)
        self.bounds = np.tile(np.array(first_bounds(settings)), (nodes, 1))
        self.found_feature = np.full(nodes, -1, np.int32)
        self.found_bin = np.full(nodes, -1, np.int32)
        self.found_missing = np.zeros(nodes, np.uint8)
        self.found_gain = np.zeros(nodes)
        self.found_left = np.zeros((nodes, channels), np.int64)
        self.hist: dict[int, NDArray[np.int64]] = {}
        self.wanted = np.zeros(1, np.int32)

    @property
    def leaves(self) -> int:
        """The number of leaves so far."""
        return (self.size + 1) // 2

    def hear(self, hist: NDArray[np.int64]) -> Moves:
        """Take the histograms of the wanted nodes, int64 [wanted, slots, channels]; split what can be split."""
        if self.wanted[0] == 0:
            self.begin(hist[0, : self.cuts.offsets[1]].sum(axis=0))
        nodes = self.search(hist)
        return self.go_on(nodes)

    def begin(self, sums: NDArray[np.int64]) -> None:
        """Take the sums over all rows, which are the root's."""
        self.sums[0] = sums
        self._name(0, weight(self.sums[:1, 0], self.sums[:1, 1], self.settings, self.bounds[:1])[0])

    def search(self, hist: NDArray[np.int64]) -> list[int]:
        """Find the best splits of the wanted nodes, and of siblings by subtraction; which nodes may be split."""
        nodes = []
        for node, found in zip(self.wanted.tolist(), hist, strict=True):
            nodes.append(node)
            self.hist[node] = found
            if node and (sibling := self._sibling(node)) is not None:
                self.hist[sibling] = self.hist.pop(self._parent(node)) - found
                nodes.append(sibling)
            elif node:
                self.hist.pop(self._parent(node))
        nodes = [node for node in nodes if self._may_split(node)]
        for node in [node for node in self.hist if node in self.wanted and node not in nodes]:
            del self.hist[node]
        self._find(sorted(nodes))
        return sorted(nodes)

    def go_on(self, nodes: list[int]) -> Moves:
        """Split what can be split, of these nodes or, leaf by leaf, of all; say what is wanted next."""
        return self._best_leaves() if self.settings.grow == "leaves" else self._whole_level(nodes)

    def _name(self, node: int, value: float) -> None:
        """Write a node that has just come to be: a leaf, until it is split."""
        self.tree.value[node] = value * self.settings.eta
        self.tree.cover[node] = self.sums[node, 1] / GRID
        if self.sums.shape[1] == 3:
            self.tree.rows[node] = self.sums[node, 2]

    def _parent(self, node: int) -> int:
        return int(np.flatnonzero((self.tree.left == node) | (self.tree.right == node))[0])

    def _sibling(self, node: int) -> int | None:
        """The other child of the parent, if it may be split too."""
        parent = self._parent(node)
        other = int(self.tree.left[parent] + self.tree.right[parent]) - node
        return other if self._may_split(other) else None

    def _may_split(self, node: int) -> bool:
        """Whether a node has what two children need."""
        sums, least = self.sums[node], least_sum(self.settings)
        enough = sums[1] >= 2 * least and (len(sums) == 2 or sums[2] >= 2 * self.settings.least_rows)
        return bool(enough and self.depth[node] < self.settings.depth)

    def _find(self, nodes: list[int]) -> None:
        if not nodes:
            return
        stacked = np.stack([self.hist[node] for node in nodes])
        found = best_splits(stacked, self.cuts, self.settings, self.allowed, self.bounds[nodes])
        self._keep(np.array(nodes), found)
        for node in nodes:
            if self.found_feature[node] < 0:
                del self.hist[node]

    def _keep(self, nodes: NDArray[np.int64], found: Splits) -> None:
        self.found_feature[nodes], self.found_bin[nodes] = found.feature, found.bin
        self.found_missing[nodes], self.found_gain[nodes] = found.missing_left, found.gain
        self.found_left[nodes] = found.left

    def _whole_level(self, nodes: list[int]) -> Moves:
        splits, wanted = [], []
        for node in nodes:
            if self.found_feature[node] >= 0 and self.leaves < most_leaves(self.settings):
                splits.append(node)
                wanted += self._split(node)
            else:
                self.hist.pop(node, None)
        return self._told(splits, wanted)

    def _best_leaves(self) -> Moves:
        splits: list[int] = []
        wanted: list[int] = []
        while not wanted and self.leaves < most_leaves(self.settings):
            open_nodes = [n for n in sorted(self.hist) if self.found_feature[n] >= 0 and self.tree.left[n] < 0]
            if not open_nodes:
                break
            best = max(open_nodes, key=lambda n: (self.found_gain[n], -n))
            splits.append(best)
            wanted = self._split(best)
        return self._told(splits, wanted)

    def _told(self, splits: list[int], wanted: list[int]) -> Moves:
        if self.leaves >= most_leaves(self.settings):
            wanted = []
        if not wanted and (self.settings.grow == "levels" or self.leaves >= most_leaves(self.settings)):
            self.hist.clear()
        self.wanted = np.array(wanted, np.int32)
        tree, at = self.tree, np.array(splits, np.int64)
        return Moves(
            at.astype(np.int32),
            tree.feature[at],
            tree.bin[at],
            tree.missing_left[at],
            tree.left[at],
            tree.right[at],
        )

    def _split(self, node: int) -> list[int]:
        """Split a node as found; the child whose histogram is wanted now, if the children may be split."""
        tree, left, right = self.tree, self.size, self.size + 1
        self.size += 2
        feature = int(self.found_feature[node])
        tree.feature[node], tree.bin[node] = feature, self.found_bin[node]
        tree.threshold[node] = self._threshold(feature, int(self.found_bin[node]))
        tree.missing_left[node], tree.gain[node] = self.found_missing[node], self.found_gain[node]
        tree.left[node], tree.right[node] = left, right
        self.sums[left] = self.found_left[node]
        self.sums[right] = self.sums[node] - self.found_left[node]
        pair = np.array([left, right])
        self.depth[pair], self.bounds[pair] = self.depth[node] + 1, self.bounds[node]
        values = weight(self.sums[pair, 0], self.sums[pair, 1], self.settings, self.bounds[pair])
        self._bound(left, right, feature, values)
        for child, value in zip((left, right), values, strict=True):
            self._name(child, value)
        if not (self._may_split(left) or self._may_split(right)):
            self.hist.pop(node)
            return []
        return [left if self.sums[left, 1] <= self.sums[right, 1] else right]

    def _threshold(self, feature: int, bin: int) -> np.float32:
        return self.cuts.threshold(feature, bin)

    def _bound(self, left: int, right: int, feature: int, values: Floats) -> None:
        """Hold both children on their side of the middle, where the column may only raise or only lower."""
        middle = (values[0] + values[1]) / 2.0
        if self.signs[feature] > 0:
            self.bounds[left, 1], self.bounds[right, 0] = middle, middle
        elif self.signs[feature] < 0:
            self.bounds[left, 0], self.bounds[right, 1] = middle, middle

    def arrays(self) -> Arrays:
        """The whole state as arrays; histograms that are still needed are in places of their own."""
        kept = sorted(self.hist)
        room = max(1, most_leaves(self.settings) // (2 if self.settings.grow == "levels" else 1))
        hist = np.zeros((room, self.cuts.slots, self.sums.shape[1]), np.int64)
        hist_node, wanted = np.full(room, -1, np.int32), np.full(room, -1, np.int32)
        for place, node in enumerate(kept):
            hist[place], hist_node[place] = self.hist[node], node
        wanted[: len(self.wanted)] = self.wanted
        own = {name: getattr(self, name).copy() for name in _PLACES}
        tree = {f"tree_{name}": array.copy() for name, array in self.tree.arrays().items()}
        flags: Arrays = {"allowed": self.allowed.astype(np.uint8), "size": np.array([self.size], np.int64)}
        return {**own, **tree, **flags, "hist": hist, "hist_node": hist_node, "wanted": wanted}

    @classmethod
    def of(cls, arrays: Arrays, cuts: Cuts, settings: Trees) -> Building:
        """The state that :meth:`arrays` has written."""
        building = cls(cuts, settings, arrays["allowed"].astype(bool))
        building.fill(arrays)
        return building

    def fill(self, arrays: Arrays) -> None:
        """Go on from the state that :meth:`arrays` has written."""
        for name in _PLACES:
            setattr(self, name, arrays[name].copy())
        self.tree = Tree.of(
            {name.removeprefix("tree_"): a.copy() for name, a in arrays.items() if name.startswith("tree_")}
        )
        self.size = int(arrays["size"][0])
        self.hist = {int(n): h.copy() for n, h in zip(arrays["hist_node"], arrays["hist"], strict=True) if n >= 0}
        self.wanted = arrays["wanted"][arrays["wanted"] >= 0]
