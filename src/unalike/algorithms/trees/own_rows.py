"""A party's rows as trees need them: by purpose, by bin, with their gradients, and after finished trees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.protocol import Arrays, Me, PublicTerms
from unalike.algorithms.trees.told import check_own_rows
from unalike.trees.bins import Binned, bin_rows
from unalike.trees.cuts import Cuts
from unalike.trees.grow import add_values, leaves
from unalike.trees.objective import Objective, objective_of
from unalike.trees.tree import Tree


def objective_in(terms: PublicTerms) -> Objective:
    """What the trees of these terms are to lower."""
    return objective_of(terms.model, terms.classes, terms.target)


def cuts_in(state: Arrays) -> Cuts:
    """The cuts that a role keeps."""
    return Cuts(state["values"][: state["starts"][-1]], state["starts"])


def training_rows(me: Me) -> tuple[Any, NDArray[Any]]:
    """The features and labels of the rows that a party trains on."""
    return _features(me, me.rows.train), training_labels(me)


def training_labels(me: Me) -> NDArray[Any]:
    """The labels of the rows that a party trains on."""
    return me.remember("training labels", lambda: me.rows.y[me.rows.train])


def validation_rows(me: Me) -> tuple[Any, NDArray[Any]]:
    """The features and labels of a party's validation rows."""
    return _features(me, me.rows.validation), me.rows.y[me.rows.validation]


def _features(me: Me, places: NDArray[np.int64]) -> Any:
    rows = me.rows.x[places]
    return rows if rows.ndim == 2 else rows.reshape(len(places), -1)


def training_bins(me: Me, state: Arrays) -> Binned:
    """The training rows by bin."""
    return me.remember("training bins", lambda: bin_rows(filled(training_rows(me)[0], state), cuts_in(state)))


def validation_bins(me: Me, state: Arrays) -> Binned:
    """The validation rows by bin."""
    return me.remember("validation bins", lambda: bin_rows(filled(validation_rows(me)[0], state), cuts_in(state)))


def filled(x: Any, state: Arrays) -> Any:
    """Rows with missing values filled in, in the columns where all parties have too few for a bin of their own."""
    fill = state["fill"]
    if np.isnan(fill).all():
        return x
    x = x.copy()
    if hasattr(x, "indices"):
        x.data = np.where(np.isnan(x.data), fill[x.indices], x.data)
    else:
        for column in np.flatnonzero(~np.isnan(fill)):
            x[np.isnan(x[:, column]), column] = fill[column]
    return x


def with_directions(tree: Tree, state: Arrays) -> Tree:
    """The tree, with missing values going where the number goes that they count as."""
    if np.isnan(state["fill"]).all():
        return tree
    fill = np.append(state["fill"], np.float32(np.nan))[tree.feature]
    counted = ~np.isnan(fill)
    return replace(tree, missing_left=np.where(counted, fill < tree.threshold, tree.missing_left).astype(np.uint8))


def is_same(kept: NDArray[Any], given: NDArray[Any]) -> bool:
    """Whether two arrays are one, perhaps seen through another wrapper: then what was made of it still holds."""
    place = kept.__array_interface__
    return kept is given or {**place, "strides": kept.strides} == {
        **given.__array_interface__,
        "strides": given.strides,
    }


def drawn_rows(me: Me, round: int) -> int | NDArray[np.int64]:
    """The rows that this round's trees are grown on: all, or those that a party draws for itself."""
    count = len(me.rows.train)
    if me.terms.model.rows == 1:
        return count
    return np.flatnonzero(me.random("batches", round).random(count) < me.terms.model.rows)


def gradients(me: Me, state: Arrays) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """First and second derivatives of the training rows at their margins."""
    known = me.kept.get("gradients")
    if known is None or not is_same(known[0], state["margins"]):
        found = objective_in(me.terms).gradients(state["margins"], training_labels(me))
        me.kept["gradients"] = known = (state["margins"], *found)
    return known[1], known[2]


def validation_loss(me: Me, state: Arrays) -> int:
    """The sum of the losses of this party's validation rows at their margins, exact."""
    return objective_in(me.terms).losses(state["validation_margins"], me.rows.y[me.rows.validation])


def used_when_sound(me: Me, state: Arrays, trees: list[Tree]) -> Arrays:
    """The state after the last round's trees, which must have room for this party's rows."""
    binned = training_bins(me, state)
    if me.terms.model.rows == 1:
        for tree in trees:
            own = np.bincount(leaves(binned, tree), minlength=tree.size)
            check_own_rows(tree, np.arange(tree.size), own, me.terms.model)
    return used(me, state, trees)


def used(me: Me, state: Arrays, trees: list[Tree]) -> Arrays:
    """The state with what these trees say added to the margins of all rows."""
    margins = state["margins"].copy()
    for k, tree in enumerate(trees):
        add_values(margins[:, k % margins.shape[1]], training_bins(me, state), tree)
    return state | {"margins": margins, "validation_margins": validation_after(me, state, trees)}


def validation_after(me: Me, state: Arrays, trees: list[Tree]) -> NDArray[np.float64]:
    """The margins of validation rows with what these trees say added."""
    seen = state["validation_margins"].copy()
    if len(seen):
        for k, tree in enumerate(trees):
            add_values(seen[:, k % seen.shape[1]], validation_bins(me, state), tree)
    return seen
