"""Every party boosts trees alone, on its own rows: what taking part has to beat, for trees."""

from __future__ import annotations

from typing import ClassVar

from unalike.algorithms.contract import algorithm
from unalike.algorithms.protocol import NOTHING, SERVER, Arrays, Inbox, Me, Say, Turn
from unalike.algorithms.trees.agreement import with_cuts
from unalike.algorithms.trees.boosting import BoostedTrees, has_ended, room_for_trees
from unalike.algorithms.trees.own_rows import objective_in, training_rows, used, validation_loss
from unalike.algorithms.trees.shelf import with_trees
from unalike.algorithms.trees.whole import grown
from unalike.trees.agreed import own_cuts


@algorithm("local-trees")
class LocalTrees(BoostedTrees):
    """Every party grows trees alone on its own rows and nothing is sent: what ``local`` is for trees.

    Cuts and start are each party's own, and with ``patience`` each ends when its own validation rows say so.
    """

    sends = "nothing"
    server_begins: ClassVar[bool] = False

    def start(self, me: Me) -> Arrays:
        """The server has nothing to know; a party has room for its own trees."""
        if me.number == SERVER:
            return {}
        return super().start(me) | room_for_trees(me.terms, self.trees_a_round(me.terms))

    def step(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """A party has its own cuts, then one more tree each round."""
        if me.number == SERVER or has_ended(state):
            return state, NOTHING
        return (self._begun(me, state) if turn.round == 0 else self._with_next(me, state, turn.round)), NOTHING

    def _begun(self, me: Me, state: Arrays) -> Arrays:
        (x, y), settings, objective = training_rows(me), me.terms.model, objective_in(me.terms)
        base = objective.base(objective.sums(y))
        state = with_cuts(state, own_cuts(x, settings.bins, settings.least_rows)) | {"base": base}
        names = ("margins", "validation_margins")
        return self._with_loss(me, state | {name: state[name] + base for name in names}, 0)

    def _with_next(self, me: Me, state: Arrays, round: int) -> Arrays:
        count = self.trees_a_round(me.terms)
        trees = grown(me, state, round, (round - 1) * count)
        state = used(me, state, trees) | with_trees(state, (round - 1) * count, trees)
        return self._with_loss(me, state, round)

    def _with_loss(self, me: Me, state: Arrays, round: int) -> Arrays:
        if not me.terms.model.patience or not len(me.rows.validation):
            return state
        losses = state["losses"].copy()
        losses[round] = validation_loss(me, state)
        return state | {"losses": losses}

    def model(self, me: Me, state: Arrays, server: Arrays) -> Arrays | None:
        """A party's own trees; there are none that parties share."""
        return None if me.number == SERVER else self.arrays(me.terms, state)

    def finished(self, server: Arrays) -> str | None:
        """The run goes on as long as it is to; a party may have ended before."""
        return None
