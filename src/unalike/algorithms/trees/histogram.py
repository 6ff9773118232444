"""Boosted trees from sums of gradients by bin: the same model whoever holds which row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.contract import algorithm
from unalike.algorithms.protocol import NOTHING, SUM, Arrays, Inbox, Me, Say, Turn, want
from unalike.algorithms.trees.agreement import to_all
from unalike.algorithms.trees.boosting import BoostedTrees, with_loss
from unalike.algorithms.trees.counted import bytes_of_round
from unalike.algorithms.trees.own_rows import (
    cuts_in,
    drawn_rows,
    gradients,
    is_same,
    objective_in,
    training_bins,
    used,
    used_when_sound,
    validation_after,
    validation_loss,
    with_directions,
)
from unalike.algorithms.trees.shelf import allowed_columns, tree_at, with_trees
from unalike.algorithms.trees.told import bytes_told, check_own_rows, heard, heard_wanted, new_moves, told
from unalike.models.trees import Trees
from unalike.trees.bins import Binned
from unalike.trees.building import Building
from unalike.trees.grow import Growing, grow, histograms, move
from unalike.trees.split import channels_of
from unalike.trees.tree import Tree

Ints = NDArray[np.int32]


@algorithm("histogram", paper="Chen & Guestrin 2016, arXiv:1603.02754; Li et al. 2023, FedTree")
class HistogramTrees(BoostedTrees):
    """Boosted trees from all parties' sums of gradients by bin: the same model whoever holds which row.

    A round grows one tree, or one for each class, level by level. Parties add the sums of first and second
    derivatives (and the numbers of rows) in each bin of the nodes that the server asks for; the server finds the
    splits. Sums of whole numbers are exact, and a round needs as many exchanges as a tree is deep: what the last
    splits were rides on the first message of the next round. With ``trees(rows=...)`` each party
    draws its own rows, so that then the split of rows does matter. Under hidden sums all parties take part in
    every round: who leaves could be found out by subtraction.
    """

    sends = "sums of gradients"
    only_sums: ClassVar[bool] = True

    def lead(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """The server: tell the last round's trees, then build new ones from sums until none wants any more."""
        terms, first = me.terms, (turn.round - 1) * objective_in(me.terms).outputs
        if turn.number == 0:
            return state, to_all(me, self.opening(me, state, turn.round))
        if turn.number == 2:
            buildings = self._begun(me, state, first)
            state = with_loss(me, state, turn.round, inbox)
        else:
            buildings = _unpacked(state, self.trees_a_round(terms), terms.model)
        _hear(buildings, inbox, terms.model)
        state = {name: array for name, array in state.items() if not name.startswith("building")}
        trees = [with_directions(building.tree, state) for building in buildings]
        if not any(len(building.wanted) for building in buildings):
            return state | with_trees(state, first, trees), NOTHING
        wanted = [(k, node) for k, building in enumerate(buildings) for node in building.wanted.tolist()]
        mail = told(trees) | {"wanted": np.array(wanted, np.int32)}
        return state | _packed(buildings), to_all(me, mail)

    def _begun(self, me: Me, state: Arrays, first: int) -> list[Building]:
        cuts, terms = cuts_in(state), me.terms
        numbers = range(first, first + self.trees_a_round(terms))
        return [Building(cuts, terms.model, allowed_columns(terms, number)) for number in numbers]

    def answer(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """A party: use the last round's trees, then add its histograms of the nodes that are wanted."""
        settings, binned = me.terms.model, training_bins(me, state)
        outputs = self.trees_a_round(me.terms)
        if turn.number == 1:
            if turn.round > 1:
                finished = heard(inbox, me.terms, cuts_in(state), outputs, "value")
                _check_same(me, turn.round - 1, finished)
                state = used_when_sound(me, state, finished)
            rows = drawn_rows(me, turn.round)
            empty = [Tree.empty(settings) for _ in range(outputs)]
            place = _Place(turn, empty, [Growing.start(rows, settings) for _ in range(outputs)])
            wanted = [(k, 0) for k in range(outputs)]
        else:
            place, wanted = self._moved(me, state, turn, inbox, binned)
        me.kept["places"] = [*me.kept.get("places", [])[-1:], place]
        g, h = gradients(me, state)
        channels = channels_of(settings)
        add = {"histograms": np.zeros((len(wanted), binned.cuts.slots, channels), np.int64)}
        for number, (k, node) in enumerate(wanted):
            if len(place.rows[k].rows(node)) >= max(1, me.least_rows):
                found = histograms(binned, g[k], h[k], place.rows[k], np.array([node]), channels)
                add["histograms"][number] = found[0]
        if turn.number == 1 and settings.patience:
            add["loss"] = np.array([validation_loss(me, state)], np.int64)
        return state, Say(add=add)

    def _moved(
        self, me: Me, state: Arrays, turn: Turn, inbox: Inbox, binned: Binned
    ) -> tuple[_Place, list[tuple[int, int]]]:
        """Where a party's rows are after the splits that it is told, and whose histograms are wanted."""
        trees = heard(inbox, me.terms, binned.cuts, self.trees_a_round(me.terms))
        before = next((p for p in me.kept.get("places", []) if p.turn == Turn(turn.round, turn.number - 2)), None)
        if before is None:
            rows = drawn_rows(me, turn.round)
            empty = [Tree.empty(me.terms.model) for _ in trees]
            before = _Place(turn, empty, [Growing.start(rows, me.terms.model) for _ in trees])
        wanted = heard_wanted(inbox, trees, before.asked)
        moves = [new_moves(old, new) for old, new in zip(before.trees, trees, strict=True)]
        rows_now = [move(binned, rows, m) for rows, m in zip(before.rows, moves, strict=True)]
        for tree, own in zip(trees, rows_now, strict=True):
            nodes = np.arange(tree.size)
            check_own_rows(tree, nodes, (own.ends - own.starts)[nodes], me.terms.model)
        return _Place(turn, trees, rows_now, before.asked | set(wanted)), wanted

    def whole_round(self, me: Me, server: Arrays, party: Arrays, round: int) -> tuple[Arrays, Arrays] | None:
        """The states after a round in which one party has all rows, by growing whole trees."""
        terms, settings = me.terms, me.terms.model
        if round == 0 or settings.rows < 1:
            return None
        outputs = self.trees_a_round(terms)
        known = me.kept.get("margins after")
        if round > 1 and known is not None and known[0] == round - 1 and is_same(known[1], party["margins"]):
            party = party | {"margins": known[2], "validation_margins": known[3]}
        elif round > 1:
            party = used(me, party, [tree_at(server, (round - 2) * outputs + k) for k in range(outputs)])
        if settings.patience:
            server = server | {"losses": server["losses"].copy()}
            server["losses"][round - 1] = validation_loss(me, party)
        binned, before = training_bins(me, party), party["margins"]
        after = np.empty_like(before)
        g, h = gradients(me, party)
        first = (round - 1) * outputs
        trees = [
            grow(
                binned,
                g[k],
                h[k],
                settings,
                allowed_columns(terms, first + k),
                margins=after[:, k],
                before=before[:, k],
            )
            for k in range(outputs)
        ]
        trees = [with_directions(tree, party) for tree in trees]
        seen = validation_after(me, party, trees) if len(me.rows.validation) else party["validation_margins"]
        me.kept["margins after"] = (round, party["margins"], after, seen)
        return server | with_trees(server, first, trees), party

    def said(self, me: Me, server: Arrays, round: int) -> tuple[dict[str, int], dict[str, int]] | None:
        """The bytes that a party adds and gets in a round, from the trees that it left."""
        settings, outputs = me.terms.model, self.trees_a_round(me.terms)
        if round == 0:
            return None
        first = (round - 1) * outputs
        trees = [tree_at(server, first + k) for k in range(outputs)]
        up, down = bytes_of_round(trees, settings, cuts_in(server))
        if round == 1:
            return up | ({"loss": 8} if settings.patience else {}), {"begin": 0} | down
        before = [tree_at(server, first - outputs + k) for k in range(outputs)]  # with which it begins
        for name, size in bytes_told(before, "value").items():
            down[name] = down.get(name, 0) + size
        return up | ({"loss": 8} if settings.patience else {}), down


@dataclass(frozen=True, eq=False)
class _Place:
    """Where a party is in a round: what it was told, where its rows are, and what it has answered for."""

    turn: Turn
    trees: list[Tree]
    rows: list[Growing]
    asked: set[tuple[int, int]] = field(default_factory=set)


def _check_same(me: Me, round: int, finished: list[Tree]) -> None:
    """Refuse a finished tree that is not what this party saw of it, if it still knows."""
    for place in me.kept.get("places", [])[-1:]:
        if place.turn.round == round:
            for before, tree in zip(place.trees, finished, strict=True):
                new_moves(before, tree)


def _hear(buildings: list[Building], inbox: Inbox, settings: Trees) -> None:
    """Let each tree hear its part of the sums."""
    counts = [len(building.wanted) for building in buildings]
    shape = (sum(counts), buildings[0].cuts.slots, channels_of(settings))
    parts = np.split(want(inbox, SUM, "histograms", "int64", shape), np.cumsum(counts)[:-1])
    for building, part in zip(buildings, parts, strict=True):
        if len(part):
            building.hear(part)


def _packed(buildings: list[Building]) -> Arrays:
    return {
        f"building {k} {name}": array
        for k, building in enumerate(buildings)
        for name, array in building.arrays().items()
    }


def _unpacked(state: Arrays, count: int, settings: Trees) -> list[Building]:
    found = []
    for k in range(count):
        begin = f"building {k} "
        own = {name.removeprefix(begin): array for name, array in state.items() if name.startswith(begin)}
        found.append(Building.of(own, cuts_in(state), settings))
    return found
