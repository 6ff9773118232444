"""Whole trees that a party grows on its own rows, and what it says of them."""

from __future__ import annotations

from typing import Final

import numpy as np

from unalike.algorithms.protocol import SERVER, Arrays, Inbox, Me, Say, Turn
from unalike.algorithms.trees.own_rows import (
    cuts_in,
    drawn_rows,
    gradients,
    objective_in,
    training_bins,
    used,
    validation_loss,
    with_directions,
)
from unalike.algorithms.trees.shelf import allowed_columns
from unalike.algorithms.trees.told import heard, told
from unalike.trees.grow import grow
from unalike.trees.tree import Tree

FINISHED: Final = ("value", "gain", "cover")
"""What is told of a finished tree beside its splits."""


def grown(me: Me, state: Arrays, round: int, first: int) -> list[Tree]:
    """The trees that a party's own rows give at their margins, one for each output; ``first`` is its number.

    Rows and columns are drawn as the settings say.
    """
    binned, settings = training_bins(me, state), me.terms.model
    g, h = gradients(me, state)
    drawn = drawn_rows(me, round)
    rows = None if isinstance(drawn, int) else drawn
    outputs = range(objective_in(me.terms).outputs)
    if not (drawn if rows is None else len(rows)):
        return [Tree.empty(settings) for _ in outputs]
    trees = [grow(binned, g[k], h[k], settings, allowed_columns(me.terms, first + k), rows) for k in outputs]
    return [with_directions(tree, state) for tree in trees]


def up_to_date(me: Me, state: Arrays, turn: Turn, inbox: Inbox, count: int) -> Arrays:
    """A party's state after the last round's trees, which the server's first message of a round brings."""
    if turn.round == 1:
        return state
    return used(me, state, heard(inbox, me.terms, cuts_in(state), count, "value"))


def said_loss(me: Me, state: Arrays) -> Say:
    """What a party adds to when training is to end: the loss of its validation rows, if it matters."""
    if not me.terms.model.patience:
        return Say()
    return Say(add={"loss": np.array([validation_loss(me, state)], np.int64)})


def said_trees(me: Me, state: Arrays, trees: list[Tree]) -> Say:
    """A party's trees as mail to the server, with how many rows they were grown on."""
    own = {"own": np.array([len(me.rows.train)], np.int64)}
    return Say(mail={SERVER: told(trees, *FINISHED) | own}, add=said_loss(me, state).add)
