"""A small model of trees that was grown here, on rows with gaps: arrays as a training keeps them."""

import numpy as np

from unalike.models.trees import Trees
from unalike.trees.bins import bin_rows
from unalike.trees.cuts import Cuts
from unalike.trees.grow import grow
from unalike.trees.objective import objective_of
from unalike.trees.tree import Tree

CLASSES = {"binary": 2, "softmax": 3}


def cuts_of(x, most=12):
    """Cuts at values that rows have, a few for each column."""
    each = []
    for column in np.asarray(x, np.float32).T:
        known = np.unique(column[~np.isnan(column)])
        each.append(known[:: max(1, len(known) // most)][1:])
    starts = np.concatenate([[0], np.cumsum([len(values) for values in each])])
    return Cuts(np.concatenate(each).astype(np.float32), starts.astype(np.int64))


def grown_arrays(objective, x, y, rounds=3, room=1, target=(0.0, 1.0), **settings):
    """The arrays of such a model, its settings, and the margins of its rows when training ended.

    There is room for some rounds more, as when training ended early.
    """
    settings = Trees(**{"depth": 3, "least_rows": 2, "objective": objective, **settings})
    goal = objective_of(settings, CLASSES.get(objective, 0), target)
    cuts = cuts_of(x)
    binned = bin_rows(x, cuts)
    base = goal.base(goal.sums(y))
    margins = np.tile(base, (len(y), 1))
    trees = []
    for _ in range(rounds):
        g, h = goal.gradients(margins, y)
        trees += [grow(binned, g[k], h[k], settings, margins=margins[:, k]) for k in range(goal.outputs)]
    trees += [Tree.empty(settings)] * (room * goal.outputs)
    arrays = {name: np.stack([tree.arrays()[name] for tree in trees]) for name in trees[0].arrays()}
    return {**arrays, "base": base, **cuts.arrays()}, settings, margins
