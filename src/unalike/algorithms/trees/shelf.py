"""Where trees are kept: arrays of a run's length, filled round by round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.protocol import Arrays, PublicTerms
from unalike.models.trees import Trees
from unalike.randomness import stream
from unalike.trees.tree import NAMES, Tree


def no_trees(settings: Trees, count: int) -> Arrays:
    """Room for so many trees: the arrays of one, once for each."""
    return {name: np.tile(array, (count, 1)) for name, array in Tree.empty(settings).arrays().items()}


def with_trees(server: Arrays, first: int, trees: list[Tree]) -> Arrays:
    """The server's arrays of trees, with these in the places from ``first`` on."""
    found = {name: server[name].copy() for name in trees[0].arrays()}
    for place, tree in enumerate(trees, start=first):
        for name, array in tree.arrays().items():
            found[name][place] = array
    return found


def tree_at(server: Arrays, place: int) -> Tree:
    """One of the trees that the server keeps."""
    return Tree.of({name: server[name][place] for name in NAMES})


def allowed_columns(terms: PublicTerms, tree: int) -> NDArray[np.bool_]:
    """The columns that a tree may split on: a share of them, drawn from the seed and the tree's number alone."""
    allowed = np.ones(terms.features, bool)
    if terms.model.columns < 1:
        count = max(1, round(terms.model.columns * terms.features))
        allowed[stream(terms.seed, "columns", tree).permutation(terms.features)[count:]] = False
    return allowed
