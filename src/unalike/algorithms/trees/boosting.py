"""What all protocols of boosted trees share: round 0, where trees are kept, and how a finished one is used."""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.protocol import NOTHING, SERVER, Arrays, Inbox, Me, Protocol, PublicTerms, Say, Turn
from unalike.algorithms.trees import agreement
from unalike.algorithms.trees.agreement import cuts_in
from unalike.algorithms.trees.own_rows import objective_in
from unalike.models.trees import Trees
from unalike.randomness import stream
from unalike.trees.tree import Tree


NOT_HEARD: Final = np.iinfo(np.int64).max
"""Stands for a loss that no round has brought yet."""


class BoostedTrees(Protocol):
    """A protocol that grows trees round by round, on cuts and from a start that all agree on in round 0.

    The server begins every round. It keeps all trees, whose places are there from the start.
    """

    models: ClassVar[tuple[str, ...]] = ("trees",)
    server_begins: ClassVar[bool] = True

    def trees_a_round(self, terms: PublicTerms) -> int:
        """How many trees a round adds: one for each output."""
        return objective_in(terms).outputs

    def start(self, me: Me) -> Arrays:
        """The server has room for all trees, a party for its rows' margins; both for the cuts."""
        terms, outputs = me.terms, objective_in(me.terms).outputs
        state = agreement.room(terms)
        if me.number == SERVER:
            losses = np.full(terms.rounds + 1, NOT_HEARD, np.int64)
            stop = {"losses": losses, "patience": np.array([terms.model.patience], np.int64)}
            return state | stop | no_trees(terms.model, terms.rounds * self.trees_a_round(terms))
        return state | {
            "margins": np.zeros((len(me.rows.train), outputs)),
            "validation_margins": np.zeros((len(me.rows.validation), outputs)),
        }

    def step(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """Round 0 agrees on cuts; the others are each protocol's own."""
        if turn.round == 0:
            if me.number == SERVER:
                return agreement.lead(me, state, turn, inbox)
            return agreement.answer(me, state, turn, inbox)
        if me.number == SERVER:
            return self.lead(me, state, turn, inbox)
        return (state, NOTHING) if not inbox else self.answer(me, state, turn, inbox)

    def lead(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """What the server does in a turn of a round that grows trees."""
        raise NotImplementedError

    def answer(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """What a party does with the server's mail."""
        raise NotImplementedError

    def model(self, me: Me, state: Arrays, server: Arrays) -> Arrays | None:
        """The trees so far, the start and the cuts, the same for all roles.

        Where ``patience`` has ended the training, only trees up to the least loss on validation rows.
        """
        trees = {name: server[name] for name in Tree.empty(me.terms.model).arrays()}
        if self.finished(server):
            kept = int(np.argmin(server["losses"])) * self.trees_a_round(me.terms)
            none = no_trees(me.terms.model, len(trees["left"]) - kept)
            trees = {name: np.concatenate([array[:kept], none[name]]) for name, array in trees.items()}
        return trees | {"base": server["base"]} | cuts_in(server).arrays()

    def finished(self, server: Arrays) -> str | None:
        """Why training ends: the last ``patience`` trees whose losses are known have not lowered them."""
        patience, known = int(server["patience"][0]), int((server["losses"] != NOT_HEARD).sum())
        best = int(np.argmin(server["losses"]))
        if not patience or known - 1 - best < patience:
            return None
        return f"the loss on validation rows was least after round {best} and not lower in {patience} more"


def no_trees(settings: Trees, count: int) -> Arrays:
    """Room for so many trees: the arrays of one, once for each."""
    return {name: np.tile(array, (count, 1)) for name, array in Tree.empty(settings).arrays().items()}


def with_trees(server: Arrays, first: int, trees: list[Tree]) -> Arrays:
    """The server's arrays of trees, with these in the places from ``first`` on."""
    found = {}
    for name in trees[0].arrays():
        found[name] = server[name].copy()
        for place, tree in enumerate(trees, start=first):
            found[name][place] = tree.arrays()[name]
    return found


def tree_at(server: Arrays, place: int, settings: Trees) -> Tree:
    """One of the trees that the server keeps."""
    return Tree.of({name: server[name][place] for name in Tree.empty(settings).arrays()})


def allowed_columns(terms: PublicTerms, tree: int) -> NDArray[np.bool_]:
    """The columns that a tree may split on: a share of them, drawn from the seed and the tree's number alone."""
    allowed = np.ones(terms.features, bool)
    if terms.model.columns < 1:
        count = max(1, round(terms.model.columns * terms.features))
        allowed[stream(terms.seed, "columns", tree).permutation(terms.features)[count:]] = False
    return allowed
