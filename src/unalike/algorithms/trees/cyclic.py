"""Boosted trees that parties grow in turn: each round one of them grows the next tree on its own rows."""

from __future__ import annotations

from unalike.algorithms.contract import algorithm
from unalike.algorithms.protocol import NOTHING, Arrays, Inbox, Me, Say, Turn
from unalike.algorithms.trees.agreement import to_all
from unalike.algorithms.trees.boosting import BoostedTrees, with_loss
from unalike.algorithms.trees.own_rows import cuts_in
from unalike.algorithms.trees.shelf import with_trees
from unalike.algorithms.trees.told import heard
from unalike.algorithms.trees.whole import FINISHED, grown, said_loss, said_trees, up_to_date


@algorithm("cyclic", paper="FedXgbCyclic of NVIDIA FLARE and Flower")
class CyclicTrees(BoostedTrees):
    """Parties take turns: round by round one party after the other grows the next tree on its own rows alone.

    One exchange a round. Trees of single parties leave them in the clear, so this cannot be combined with masks.
    """

    sends = "trees"

    def lead(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """The server: tell the last tree, then keep the one that comes from the party whose turn it is."""
        if turn.number == 0:
            return state, to_all(me, self.opening(me, state, turn.round))
        state, count = with_loss(me, state, turn.round, inbox), self.trees_a_round(me.terms)
        cuts, party = cuts_in(state), (turn.round - 1) % me.terms.parties
        trees = heard(inbox, me.terms, cuts, count, *FINISHED, sender=party)
        for tree in trees:
            tree.set_thresholds(cuts)
        return state | with_trees(state, (turn.round - 1) * count, trees), NOTHING

    def answer(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """A party: use the last tree, and grow the next if it is its turn."""
        count = self.trees_a_round(me.terms)
        state = up_to_date(me, state, turn, inbox, count)
        if (turn.round - 1) % me.terms.parties != me.number:
            return state, said_loss(me, state)
        return state, said_trees(me, state, grown(me, state, turn.round, (turn.round - 1) * count))
