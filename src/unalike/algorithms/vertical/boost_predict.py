"""What the trees of ``secureboost`` say of rows: by a conversation, or as one model that reads all columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.protocol import NOTHING, Arrays, Inbox, Me, PublicTerms, Say, Turn, WrongMail, want
from unalike.algorithms.trees.boosting import has_ended
from unalike.algorithms.trees.own_rows import cuts_in, objective_in
from unalike.algorithms.trees.shelf import no_trees
from unalike.algorithms.vertical.boost_rows import features_at, holders
from unalike.trees.soundness import grown_trees
from unalike.trees.tree import Tree
from unalike.vertical.instance_space import from_bits, to_bits

_SPLIT = ("feature", "bin", "threshold", "missing_left")
"""What the party that owns a split knows of it."""


def part(me: Me, state: Arrays) -> Arrays:
    """A party's part of the model; of trees that were grown after the best round nothing is used."""
    own = cuts_in(state).arrays()
    if me.number != holders(me.terms).guest:
        return {name: state[name] for name in _SPLIT} | own
    trees = {name: state[name] for name in Tree.empty(me.terms.model).arrays()}
    used = _used(me.terms, state)
    none = no_trees(me.terms.model, len(trees["left"]) - used)
    trees = {name: np.concatenate([array[:used], none[name]]) for name, array in trees.items()}
    return trees | {"base": state["base"]} | own


def _used(terms: PublicTerms, state: Arrays) -> int:
    """How many trees predict: all, or those up to the least loss on validation rows where that has ended them."""
    outputs = objective_in(terms).outputs
    return int(np.argmin(state["losses"])) * outputs if has_ended(state) else grown_trees(state, outputs)


def joined(terms: PublicTerms, parts: Sequence[Arrays], columns: Sequence[NDArray[np.int64]]) -> Arrays:
    """The arrays of ordinary trees; where two parties have a column, its cuts are the first one's."""
    guest = holders(terms).guest
    found = {name: array.copy() for name, array in parts[guest].items() if name not in ("values", "starts")}
    feature, own = parts[guest]["feature"], terms.columns[guest]
    mine = (feature >= 0) & (feature < own)
    found["feature"][mine] = columns[guest][feature[mine]]
    for party, table in enumerate(parts):
        if party == guest:
            continue
        theirs = feature == own + party
        for name in _SPLIT:
            found[name][theirs] = table[name][theirs]
        found["feature"][theirs] = columns[party][table["feature"][theirs]]
    total = max(terms.features, *(int(held.max(initial=-1)) + 1 for held in columns))
    cuts = [np.zeros(0, np.float32)] * total
    for table, held in reversed(list(zip(parts, columns, strict=True))):
        for place, column in enumerate(held.tolist()):
            cuts[column] = table["values"][table["starts"][place] : table["starts"][place + 1]]
    starts = np.concatenate([[0], np.cumsum([len(values) for values in cuts])]).astype(np.int64)
    return found | {"values": np.concatenate([*cuts, np.zeros(0, np.float32)]), "starts": starts}


def host(me: Me, state: Arrays, turn: Turn) -> tuple[Arrays, Say]:
    """A party without labels says which way each row goes at each of its splits, of all trees at once."""
    if turn.number:
        return state, NOTHING
    rows = _Rows(me)
    bits = [rows.left(state, int(tree), int(node)) for tree, node in np.argwhere(state["feature"] >= 0)]
    return state, Say(mail={holders(me.terms).guest: {"bits": to_bits(bits)}})


class _Rows:
    """A party's rows to predict, by column in single precision."""

    def __init__(self, me: Me) -> None:
        self.x = features_at(me, me.rows.train)
        self.x = self.x.tocsc() if hasattr(self.x, "tocsc") else self.x
        self.columns: dict[int, NDArray[np.float32]] = {}

    def left(self, state: Arrays, tree: int, node: int) -> NDArray[np.bool_]:
        """Which rows go left at one of the party's own splits."""
        at, feature = (tree, node), int(state["feature"][tree, node])
        if feature not in self.columns:
            column: Any = self.x[:, [feature]]
            dense = np.asarray(column.toarray() if hasattr(column, "toarray") else column).ravel()
            with np.errstate(over="ignore"):
                self.columns[feature] = dense.astype(np.float32)
        values = self.columns[feature]
        gap = bool(state["missing_left"][at] > 0)
        found: NDArray[np.bool_] = np.where(np.isnan(values), gap, values < state["threshold"][at])
        return found


def guest(me: Me, state: Arrays, inbox: Inbox) -> tuple[Arrays, Say]:
    """The label holder walks all rows down all trees when the others have answered, and keeps their margins."""
    others = holders(me.terms).others()
    if not inbox and others:
        return state, NOTHING
    rows, own = len(me.rows.train), me.terms.columns[me.number]
    bits: dict[tuple[int, int], NDArray[np.bool_]] = {}
    for party in others:
        places = np.argwhere(state["feature"] == own + party).tolist()
        packed = want(inbox, party, "bits", "uint8", (None,))
        try:
            found = from_bits(packed, [rows] * len(places))
        except ValueError as error:
            raise WrongMail(party, f"says who goes left in the wrong form: {error}.") from error
        bits |= {(tree, node): left for (tree, node), left in zip(places, found, strict=True)}
    outputs = len(state["base"])
    margins, own_rows = np.zeros((rows, outputs)) + state["base"], _Rows(me)
    for tree in range(_used(me.terms, state)):
        at = np.zeros(rows, np.int64)
        for node in np.flatnonzero(state["left"][tree] >= 0).tolist():  # parents come before their children
            here = np.flatnonzero(at == node)
            mine = state["feature"][tree, node] < own
            left = (own_rows.left(state, tree, node) if mine else bits[tree, node])[here]
            at[here] = np.where(left, state["left"][tree, node], state["right"][tree, node])
        margins[:, tree % outputs] += state["value"][tree][at]
    return state | {"margins": margins}, NOTHING
