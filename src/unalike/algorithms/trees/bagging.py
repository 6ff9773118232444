"""Boosted trees that parties grow alone and the server puts together: each round the mean of all that come."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from unalike.algorithms.contract import algorithm
from unalike.algorithms.protocol import NOTHING, Arrays, Inbox, Me, PublicTerms, Say, Turn, want
from unalike.algorithms.trees.agreement import to_all
from unalike.algorithms.trees.boosting import BoostedTrees, with_loss
from unalike.algorithms.trees.own_rows import cuts_in, objective_in
from unalike.algorithms.trees.shelf import with_trees
from unalike.algorithms.trees.told import heard
from unalike.algorithms.trees.whole import FINISHED, grown, said_trees, up_to_date


@algorithm("bagging", paper="FedXgbBagging of NVIDIA FLARE and Flower")
class BaggedTrees(BoostedTrees):
    """Each round every party grows a tree on its own rows, and the model gains the mean of them all.

    All parties' trees stay in the model, each with its values divided by the number of parties, or weighted by
    its share of rows (``weights="rows"``). One exchange a round. Trees of single parties leave them in the clear,
    so this cannot be combined with masks.
    """

    weights: Literal["parties", "rows"] = "parties"
    sends = "trees"

    def trees_a_round(self, terms: PublicTerms) -> int:
        """How many trees a round adds: one for each party and output."""
        return terms.parties * objective_in(terms).outputs

    def lead(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """The server: tell the last round's trees, then keep those that parties send, scaled to a mean."""
        if turn.number == 0:
            return state, to_all(me, self.opening(me, state, turn.round))
        state, parties = with_loss(me, state, turn.round, inbox), range(me.terms.parties)
        outputs, cuts = objective_in(me.terms).outputs, cuts_in(state)
        rows = np.array([want(inbox, party, "own", "int64", (1,))[0] for party in parties], np.float64)
        shares = rows / max(1.0, rows.sum()) if self.weights == "rows" else np.full(len(rows), 1 / len(rows))
        trees = [
            replace(tree, value=tree.value * share)
            for party, share in zip(parties, shares.tolist(), strict=True)
            for tree in heard(inbox, me.terms, cuts, outputs, *FINISHED, sender=party)
        ]
        for tree in trees:
            tree.set_thresholds(cuts)
        first = (turn.round - 1) * len(trees)
        return state | with_trees(state, first, trees), NOTHING

    def answer(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """A party: use all parties' trees of the last round, then grow its own."""
        count, outputs = self.trees_a_round(me.terms), objective_in(me.terms).outputs
        state = up_to_date(me, state, turn, inbox, count)
        first = (turn.round - 1) * count + me.number * outputs
        return state, said_trees(me, state, grown(me, state, turn.round, first))
