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
    nodes, told = len(trees), 0  # the roots; and the nodes of all trees each time that they are told
    for number in range(max(len(own) for own in asked)):
        wanted = sum(own[number][1] for own in asked if number < len(own))
        if not wanted:
            break
        used = max(
            own[number][0] if number < len(own) else tree.size for own, tree in zip(asked, trees, strict=True)
        )
        nodes += wanted
        told += len(trees) * used
    down = {name: told * getattr(trees[0], name).itemsize for name in TOLD} | {"wanted": 8 * (nodes - len(trees))}
    return {"histograms": 8 * nodes * cuts.slots * channels_of(settings)}, down


def questions(tree: Tree, settings: Trees) -> list[tuple[int, int]]:
    """By each time that the server has heard sums: the tree's size then, and how many histograms it wants."""
    return _by_level(tree, settings) if settings.grow == "levels" else _by_leaf(tree, settings)


def _by_level(tree: Tree, settings: Trees) -> list[tuple[int, int]]:
    """Nodes are numbered level by level: the children of a level are the next."""
    at = np.flatnonzero(tree.left >= 0)
    enough = _have_enough(tree, settings)
    splits = np.cumsum(tree.left >= 0).tolist()
    wants = [0, *np.cumsum(enough[tree.left[at]] | enough[tree.right[at]]).tolist()]
    found, before, size = [], 0, 1
    for level in range(1, settings.depth + 1):
        now = splits[size - 1]
        size += 2 * (now - before)
        full = level == settings.depth or (size + 1) // 2 >= most_leaves(settings)
        found.append((size, 0 if full else wants[now] - wants[before]))
        if not found[-1][1]:
            break
        before = now
    return found


def _by_leaf(tree: Tree, settings: Trees) -> list[tuple[int, int]]:
    """Nodes are split in the order of their children, until one of these is asked for."""
    at = np.flatnonzero(tree.left >= 0)
    may = _have_enough(tree, settings) & (depths(tree) < settings.depth)
    wants = may[tree.left[at]] | may[tree.right[at]]
    order = np.argsort(tree.left[at])
    ends = np.flatnonzero(wants[order]) + 1
    size, found = 1, []
    for group in np.split(order, ends[ends < len(order)]):
        size += 2 * len(group)
        full = (size + 1) // 2 >= most_leaves(settings)
        found.append((size, 0 if full else int(wants[group].sum())))
        if not found[-1][1]:
            break
    return found


def _have_enough(tree: Tree, settings: Trees) -> np.ndarray:
    """Whether nodes have what two children need, so that, above the last level, histograms are wanted."""
    enough: np.ndarray = np.rint(tree.cover * GRID) >= 2 * least_sum(settings)
    if channels_of(settings) == 3:
        enough &= tree.rows >= 2 * settings.least_rows
    return enough
