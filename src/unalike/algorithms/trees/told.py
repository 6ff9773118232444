"""What the server tells parties of trees, and what a party makes sure of before it acts on it.

The tree so far is told whole each time. A party answers only for leaves of it, only where the told numbers of rows
add up and no child has fewer rows than the settings allow, and only if nothing that was told before has changed:
whoever asks for other nodes could find out about single rows.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.protocol import SERVER, Arrays, Inbox, PublicTerms, WrongMail, want
from unalike.models.trees import Trees
from unalike.trees.building import Moves
from unalike.trees.cuts import Cuts
from unalike.trees.split import channels_of
from unalike.trees.tree import Tree, most_nodes

TOLD: Final = ("feature", "bin", "missing_left", "left", "right", "rows")
"""What parties are told of a tree while it grows; of a finished one also the values of its leaves."""


def told(trees: list[Tree], *more: str) -> Arrays:
    """Trees as mail: the named arrays of all, as far as nodes are used."""
    used = max((tree.size for tree in trees), default=0)
    return {name: np.stack([getattr(tree, name)[:used] for tree in trees]) for name in (*TOLD, *more)}


def bytes_told(trees: list[Tree], *more: str) -> dict[str, int]:
    """How many bytes that mail has, by name."""
    used = max((tree.size for tree in trees), default=0)
    return {name: sum(used * getattr(tree, name).itemsize for tree in trees) for name in (*TOLD, *more)}


def heard(
    inbox: Inbox, terms: PublicTerms, cuts: Cuts, count: int, *more: str, sender: int = SERVER
) -> list[Tree]:
    """So many trees that a role tells, the server if nobody else is named, if they are sound."""
    settings: Trees = terms.model
    trees = [Tree.empty(settings) for _ in range(count)]
    used = None
    for name in (*TOLD, *more):
        dtype = getattr(trees[0], name).dtype.name
        array = want(inbox, sender, name, dtype, (count, used))
        used = array.shape[1]
        if not 1 <= used <= most_nodes(settings):
            raise WrongMail(sender, f"tells a tree of {used} nodes, from 1 to {most_nodes(settings)} can be.")
        for tree, own in zip(trees, array, strict=True):
            getattr(tree, name)[:used] = own
    for tree in trees:
        check_tree(tree, settings, cuts, sender)
    return trees


def check_tree(tree: Tree, settings: Trees, cuts: Cuts, sender: int = SERVER) -> None:
    """Refuse what is no tree, what splits on columns or bins that are none, and children of too few rows."""
    split = tree.left >= 0
    at = np.flatnonzero(split)
    left, right, feature = tree.left[at], tree.right[at], tree.feature[at]
    children = np.sort(np.concatenate([left, right]))
    if (
        any((a < -1).any() or ((a >= 0) != split).any() for a in (tree.left, tree.right, tree.feature))
        or not np.array_equal(children, np.arange(1, 2 * len(at) + 1))
        or (left <= at).any()
        or (right <= at).any()
        or depths(tree).max() > settings.depth
    ):
        raise WrongMail(sender, "tells nodes that make no tree.")
    if (feature >= cuts.features).any():
        raise WrongMail(sender, f"tells a split on a column that none of the {cuts.features} is.")
    if ((tree.bin[at] < 0) | (tree.bin[at] > np.diff(cuts.starts)[feature])).any():
        raise WrongMail(sender, "tells a split behind a bin that its column does not have.")
    if not np.isfinite(tree.value).all():
        raise WrongMail(sender, "tells a leaf's value that is no number.")
    if channels_of(settings) == 3:
        fewest = min(
            tree.rows[left].min(initial=settings.least_rows), tree.rows[right].min(initial=settings.least_rows)
        )
        if fewest < settings.least_rows:
            raise WrongMail(
                sender, f"tells of a node of {fewest} rows. At least {settings.least_rows} must be in each."
            )
        if (tree.rows[left] + tree.rows[right] != tree.rows[at]).any():
            raise WrongMail(sender, "tells numbers of rows that do not add up.")


def check_own_rows(tree: Tree, nodes: NDArray[Any], own: NDArray[Any], settings: Trees) -> None:
    """Refuse numbers of rows that cannot be: a party alone has more in a node than all are said to have."""
    if channels_of(settings) == 3 and (own > tree.rows[nodes]).any():
        raise WrongMail(SERVER, "tells of fewer rows in a node than this party alone has there.")


def heard_wanted(inbox: Inbox, trees: list[Tree], asked: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """The nodes, by output and number, that the server wants sums of: leaves, one of two siblings, once each."""
    wanted = [(int(k), int(node)) for k, node in want(inbox, SERVER, "wanted", "int32", (None, 2))]
    for k, node in wanted:
        if not (0 <= k < len(trees) and 0 < node < trees[k].size and trees[k].left[node] < 0):
            raise WrongMail(SERVER, f"wants node {node} of output {k}, which is no leaf that it told of.")
    parents = {(k, int(np.flatnonzero((trees[k].left == n) | (trees[k].right == n))[0])) for k, n in wanted}
    if len(parents) < len(wanted) or asked & set(wanted):
        raise WrongMail(SERVER, "wants a node again, or a node and its sibling. One of both, and once, is enough.")
    return wanted


def new_moves(before: Tree, tree: Tree) -> Moves:
    """The splits that a tree has beyond those told before, which must have stayed as they were."""
    was = before.left >= 0
    for name in TOLD:
        old, new = getattr(before, name), getattr(tree, name)
        if (old[was] != new[was]).any():
            raise WrongMail(SERVER, f"tells another {name!r} of a split than before.")
    at = np.flatnonzero((tree.left >= 0) & ~was)
    return Moves(
        at.astype(np.int32), tree.feature[at], tree.bin[at], tree.missing_left[at], tree.left[at], tree.right[at]
    )


def depths(tree: Tree) -> NDArray[np.int64]:
    """How deep each node lies under the root; 0 for places that are not used."""
    at = np.flatnonzero(tree.left >= 0)
    found = [0] * len(tree.left)
    for node, left, right in zip(at.tolist(), tree.left[at].tolist(), tree.right[at].tolist(), strict=True):
        found[left] = found[right] = found[node] + 1  # parents come before their children
    return np.array(found, np.int64)
