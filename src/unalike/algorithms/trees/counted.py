"""How many bytes the conversation of a histogram round has, from the trees that it left."""

from __future__ import annotations

import numpy as np

from unalike.algorithms.trees.told import TOLD, depths
from unalike.models.trees import Trees
from unalike.trees.arithmetic import GRID
from unalike.trees.cuts import Cuts
from unalike.trees.split import channels_of, least_sum
from unalike.trees.tree import Tree, most_leaves


def bytes_of_round(trees: list[Tree], settings: Trees, cuts: Cuts) -> tuple[dict[str, int], dict[str, int]]:
    """The bytes by name that a party adds, and those that it is told of these trees while they grow."""
    asked = [questions(tree, settings) for tree in trees]
    nodes = len(trees)  # the roots
    down = dict.fromkeys((*TOLD, "wanted"), 0)
    for number in range(max(len(own) for own in asked)):
        wanted = sum(own[number][1] for own in asked if number < len(own))
        if not wanted:
            break
        used = max(
            own[number][0] if number < len(own) else tree.size for own, tree in zip(asked, trees, strict=True)
        )
        nodes += wanted
        down["wanted"] += 8 * wanted
        for name in TOLD:
            down[name] += len(trees) * used * getattr(trees[0], name).itemsize
    return {"histograms": 8 * nodes * cuts.slots * channels_of(settings)}, down


def questions(tree: Tree, settings: Trees) -> list[tuple[int, int]]:
    """By each time that the server has heard sums: the tree's size then, and how many histograms it wants."""
    depth, found = depths(tree), []
    at = np.flatnonzero(tree.left >= 0)
    may = _may_split(tree, settings, depth)
    wants = may[tree.left[at]] | may[tree.right[at]]
    if settings.grow == "levels":
        groups = [np.flatnonzero(depth[at] == level) for level in range(settings.depth)]
    else:
        order = np.argsort(tree.left[at])
        ends = np.flatnonzero(wants[order]) + 1
        groups = np.split(order, ends[ends < len(order)])
    size = 1
    for group in groups:
        size += 2 * len(group)
        full = (size + 1) // 2 >= most_leaves(settings)
        found.append((size, 0 if full else int(wants[group].sum())))
        if not found[-1][1]:
            break
    return found


def _may_split(tree: Tree, settings: Trees, depth: np.ndarray) -> np.ndarray:
    """Whether nodes have what two children need, so that their histograms are wanted."""
    enough = np.rint(tree.cover * GRID) >= 2 * least_sum(settings)
    if channels_of(settings) == 3:
        enough &= tree.rows >= 2 * settings.least_rows
    return enough & (depth < settings.depth)
