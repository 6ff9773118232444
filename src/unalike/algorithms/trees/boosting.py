"""What all protocols of boosted trees share: round 0, where trees are kept, and how a finished one is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np

from unalike.algorithms.protocol import (
    NOTHING,
    SERVER,
    SUM,
    Arrays,
    Inbox,
    Me,
    Protocol,
    PublicTerms,
    Say,
    Turn,
    want,
)
from unalike.algorithms.trees import agreement
from unalike.algorithms.trees.own_rows import cuts_in, objective_in
from unalike.algorithms.trees.reasons import REASONS
from unalike.algorithms.trees.shelf import no_trees, tree_at
from unalike.algorithms.trees.told import told
from unalike.trees.tree import Tree

NOT_HEARD: Final = np.iinfo(np.int64).max
"""Stands for a loss that no round has brought yet."""


class BoostedTrees(Protocol):
    """A protocol that grows trees round by round, on cuts and from a start that all agree on in round 0.

    The server begins every round. It keeps all trees, whose places are there from the start.
    """

    models: ClassVar[tuple[str, ...]] = ("trees",)
    server_begins: ClassVar[bool] = True
    reasons: ClassVar[Mapping[str, str]] = REASONS

    def trees_a_round(self, terms: PublicTerms) -> int:
        """How many trees a round adds: one for each output."""
        return objective_in(terms).outputs

    def start(self, me: Me) -> Arrays:
        """The server has room for all trees, a party for its rows' margins; both for the cuts."""
        terms, outputs = me.terms, objective_in(me.terms).outputs
        state = agreement.room(terms)
        if me.number == SERVER:
            return state | room_for_trees(terms, self.trees_a_round(terms))
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

    def opening(self, me: Me, server: Arrays, round: int) -> Arrays:
        """What the server begins a round with: the trees of the one before; in the first, only that it begins."""
        if round == 1:
            return {"begin": np.zeros(0, np.uint8)}
        count = self.trees_a_round(me.terms)
        return told([tree_at(server, (round - 2) * count + k) for k in range(count)], "value")

    def model(self, me: Me, state: Arrays, server: Arrays) -> Arrays | None:
        """The trees so far, the start and the cuts; no party has a model of its own.

        Where ``patience`` has ended the training, only trees up to the least loss on validation rows.
        """
        return self.arrays(me.terms, server) if me.number == SERVER else None

    def arrays(self, terms: PublicTerms, kept: Arrays) -> Arrays:
        """The arrays of a model, of whoever keeps its trees."""
        trees = {name: kept[name] for name in Tree.empty(terms.model).arrays()}
        if has_ended(kept):
            count = int(np.argmin(kept["losses"])) * self.trees_a_round(terms)
            none = no_trees(terms.model, len(trees["left"]) - count)
            trees = {name: np.concatenate([array[:count], none[name]]) for name, array in trees.items()}
        return trees | {"base": kept["base"]} | cuts_in(kept).arrays()

    def finished(self, server: Arrays) -> str | None:
        """Why training ends: the last ``patience`` trees whose losses are known have not lowered them."""
        return has_ended(server)


def room_for_trees(terms: PublicTerms, trees_a_round: int) -> Arrays:
    """Places for all trees of a run and for the losses on validation rows that may end it."""
    losses = np.full(terms.rounds + 1, NOT_HEARD, np.int64)
    stop = {"losses": losses, "patience": np.array([terms.model.patience], np.int64)}
    return stop | no_trees(terms.model, terms.rounds * trees_a_round)


def has_ended(kept: Arrays) -> str | None:
    """Why no more trees are to be grown by whoever keeps these losses; None to go on."""
    patience = int(kept["patience"][0])
    if not patience:
        return None
    known, best = int((kept["losses"] != NOT_HEARD).sum()), int(np.argmin(kept["losses"]))
    if known - 1 - best < patience:
        return None
    return f"the loss on validation rows was least after round {best} and not lower in {patience} more"


def with_loss(me: Me, state: Arrays, round: int, inbox: Inbox) -> Arrays:
    """Keep the loss on validation rows before this round's trees, where it decides when to end."""
    if not me.terms.model.patience:
        return state
    losses = state["losses"].copy()
    losses[round - 1] = want(inbox, SUM, "loss", "int64", (1,))[0]
    return state | {"losses": losses}
