"""The label holder's side of ``secureboost``: seal derivatives, read sums, choose splits, tell who goes where."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.protocol import SERVER, Arrays, Inbox, Me, Say, Turn, WrongMail, want
from unalike.algorithms.trees.boosting import has_ended
from unalike.algorithms.trees.own_rows import cuts_in, objective_in, training_labels
from unalike.algorithms.trees.shelf import with_trees
from unalike.algorithms.vertical.boost_rows import (
    check,
    code_of,
    in_round,
    rows_by_bin,
    with_round,
)
from unalike.algorithms.vertical.boost_sealed import SealedTrees
from unalike.secure.crypto.additive import SecretKeys, decrypt, read_ciphers
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.packing import Packing
from unalike.trees.grow import Growing, add_values, grow, histograms
from unalike.trees.reference import goes_left
from unalike.trees.split import channels_of
from unalike.trees.tree import Tree
from unalike.vertical.instance_space import drawn_of, from_bits, leaf_values, moved, to_bits
from unalike.vertical.joint_building import JointBuilding

Mail = dict[int, Arrays]


@dataclass(frozen=True, eq=False)
class Guest:
    """The label holder in one turn: ``sealed`` is what it has to encrypt."""

    me: Me
    turn: Turn
    sealed: SealedTrees

    @property
    def hosts(self) -> list[int]:
        """The other parties that take part in the round."""
        return self.sealed.hosts

    def step(self, state: Arrays, inbox: Inbox) -> tuple[Arrays, Say]:
        """Begin the round's trees, or go on with what the others have said."""
        if not inbox:
            seen = [state["margins"], state["validation_margins"]][: 2 if self.me.terms.model.patience else 1]
            return self._trees(state, {"margins": np.concatenate(seen)}, 0, {})
        kept = in_round(state)
        check(min(inbox), set(inbox) <= set(self.hosts) and "k" in kept, "says something, and was not asked.")
        if all("more" in mail for mail in inbox.values()):
            return self._more(state, kept, inbox)
        if "tied" in kept:
            return self._chosen(state, kept, inbox)
        return self._sums(state, kept, inbox)

    def _trees(self, state: Arrays, kept: Arrays, k: int, mail: Mail) -> tuple[Arrays, Say]:
        """Grow the round's trees from this one on: alone, until one takes others' columns; then end the round."""
        drawn = self.sealed.drawn(state)
        while k < self.sealed.outputs:
            if self.hosts and drawn.any():
                return self._sealed(state, kept, k, mail)
            tree, margins = self._alone(state, k, drawn), kept["margins"].copy()
            binned = rows_by_bin(self.me, state)
            if binned.cuts.features:
                add_values(margins[:, k], binned, tree)
            else:
                margins[:, k] += tree.value[0]
            state, kept, k = self._with_tree(state, k, tree), kept | {"margins": margins}, k + 1
        return self._over(state, kept["margins"], mail)

    def _alone(self, state: Arrays, k: int, drawn: NDArray[np.bool_]) -> Tree:
        """A tree on own columns only: nothing is encrypted."""
        binned, settings, allowed = rows_by_bin(self.me, state), self.me.terms.model, self.sealed.allowed(k)
        if not drawn.any():
            return Tree.empty(settings)
        (g, h), rows = self.sealed.gradients(state), None if drawn.all() else np.flatnonzero(drawn)
        if binned.cuts.features:
            return grow(binned, g[k], h[k], settings, allowed, rows)
        building = JointBuilding(binned.cuts, settings, allowed, 0, (0,))
        building.begin(self.sealed.total(state, k))
        return building.tree

    def _with_tree(self, state: Arrays, k: int, tree: Tree) -> Arrays:
        """Keep a finished tree; missing values that count as a number go where that number goes."""
        own = (tree.feature >= 0) & (tree.feature < self.me.terms.columns[self.me.number])
        fill = np.full(len(own), np.nan, np.float32)
        fill[own] = state["fill"][tree.feature[own]]
        left = np.where(np.isnan(fill), tree.missing_left, fill < tree.threshold).astype(np.uint8)
        return state | with_trees(state, self.sealed.number(k), [replace(tree, missing_left=left)])

    def _over(self, state: Arrays, margins: NDArray[np.float64], mail: Mail) -> tuple[Arrays, Say]:
        """End the round: keep what the trees say of all rows, and tell the server if no more are to come."""
        objective, labels, train = objective_in(self.me.terms), self.me.rows.y, len(self.me.rows.train)
        state = with_round(state, None) | {"margins": margins[:train]}
        if self.me.terms.model.patience:
            losses = state["losses"].copy()
            for round, seen in ((0, state["validation_margins"]), (self.turn.round, margins[train:])):
                if round or self.turn.round == 1:
                    losses[round] = objective.losses(seen, labels[self.me.rows.validation])
            state = state | {"validation_margins": margins[train:], "losses": losses}
        if has_ended(state):
            mail = mail | {SERVER: {"ended": np.array([1 + int(np.argmin(state["losses"]))], np.int64)}}
        loss = float(objective.row_losses(state["margins"], training_labels(self.me)).mean())
        return state, Say(mail=mail, figures={"train_loss": loss})

    def _sealed(self, state: Arrays, kept: Arrays, k: int, mail: Mail) -> tuple[Arrays, Say]:
        """Begin a tree: send all rows' derivatives, encrypted."""
        keys, drawn, settings = self.sealed.keys(k), self.sealed.drawn(state), self.me.terms.model
        growing = Growing.start(len(drawn), settings)
        begin: Arrays = {
            "tree": np.array([self.sealed.number(k)], np.int64),
            "public": keys.public.to_array(),
            "ciphers": self.sealed.ciphers(state, k)[: self.sealed.at_once(keys)].to_array(),
            "totals": self.sealed.encrypted_sums(keys, self.sealed.total(state, k)[None]),
        }
        if settings.rows < 1:
            begin["drawn"] = to_bits([drawn[: len(self.me.rows.train)]])
        kept = {"margins": kept["margins"], "k": np.array([k], np.int64)} | growing.arrays()
        return with_round(state, kept), Say(
            mail={h: mail.get(h, {}) | begin for h in self.hosts} | _rest(mail, self)
        )

    def _more(self, state: Arrays, kept: Arrays, inbox: Inbox) -> tuple[Arrays, Say]:
        """Send the next part of a tree's ciphertexts to those who have the ones before."""
        k = int(kept["k"][0])
        ciphers, size = self.sealed.ciphers(state, k), self.sealed.at_once(self.sealed.keys(k))
        mail: Mail = {}
        for host in sorted(inbox):
            at = int(want(inbox, host, "more", "int64", (1,))[0])
            check(host, 0 < at < len(ciphers), f"asks for ciphertexts after {at} of {len(ciphers)}.")
            mail[host] = {"ciphers": ciphers[at : at + size].to_array()}
        return state, Say(mail=mail)

    def _building(self, state: Arrays, kept: Arrays) -> JointBuilding:
        """The tree as far as it is built."""
        settings, counts = self.me.terms.model, kept["candidates"].tolist()
        building = JointBuilding(
            cuts_in(state), settings, self.sealed.allowed(int(kept["k"][0])), self.me.number, counts
        )
        if "building size" not in kept:
            building.begin(self.sealed.total(state, int(kept["k"][0])))
        else:
            start = "building "
            building.fill({n.removeprefix(start): a for n, a in kept.items() if n.startswith(start)})
        return building

    def _sums(self, state: Arrays, kept: Arrays, inbox: Inbox) -> tuple[Arrays, Say]:
        """Take what the others say of the nodes that are wanted; when all is there, look for splits."""
        keys, wanted = self.sealed.keys(int(kept["k"][0])), kept.get("building wanted", np.zeros(1, np.int32))
        wanted = wanted[wanted >= 0]
        packing, kept, missing = Packing(code_of(self.me).bits, keys.public.room), dict(kept), []
        for host in self.hosts:
            if host in inbox:
                part = want(inbox, host, "sums", "uint8", (None, keys.public.width))
                if (so_far := kept.get(f"sums {host}")) is None:
                    kept[f"rows {host}"] = want(inbox, host, "rows", "int32", (len(wanted), None))
                    so_far = part[:0]
                kept[f"sums {host}"] = np.concatenate([so_far, part])
                whole = packing.ciphertexts(kept[f"rows {host}"].size)
                here = len(kept[f"sums {host}"])
                check(
                    host, here == whole or 0 < len(part) < whole, f"sends {here} ciphertexts in place of {whole}."
                )
                if here < whole:
                    missing.append(host)
            check(host, f"sums {host}" in kept, "was asked for sums and sends none.")
        if missing:
            ask = {"more": np.zeros(0, np.uint8)}
            return with_round(state, kept), Say(mail=dict.fromkeys(missing, ask))
        counts = np.zeros(self.me.terms.parties, np.int64)
        for host in self.hosts:
            counts[host] = kept[f"rows {host}"].shape[1]
            told = kept.get("candidates")
            check(host, told is None or told[host] == counts[host], "offers another number of splits than before.")
        kept["candidates"] = counts
        return self._searched(state, kept, wanted, keys, packing)

    def _searched(
        self, state: Arrays, kept: Arrays, wanted: NDArray[np.int32], keys: SecretKeys, packing: Packing
    ) -> tuple[Arrays, Say]:
        """Look for the best splits; where one is another party's, let it say which of the equally good it is."""
        (g, h), k = self.sealed.gradients(state), int(kept["k"][0])
        binned, channels = rows_by_bin(self.me, state), channels_of(self.me.terms.model)
        building = self._building(state, kept)
        growing = drawn_of(Growing.of(kept), self.sealed.drawn(state))
        parts: list[NDArray[np.int64]] = [histograms(binned, g[k], h[k], growing, wanted, channels)]
        sizes = np.array([len(growing.rows(int(node))) for node in wanted])
        for host in self.hosts:
            found = self._opened(host, kept, keys, packing, sizes)
            parts.append(found[:, :, :channels])
        nodes = building.search(np.concatenate(parts, axis=1))
        if (wrong := building.beyond()) is not None:
            raise WrongMail(wrong[0], f"sends sums beyond those of all rows in node {wrong[1]}.")
        kept = {n: a for n, a in kept.items() if not n.startswith(("sums ", "rows "))}
        kept |= {"nodes": np.array(nodes, np.int32)}
        if not len(building.tied):
            return self._grown(state, kept, building, growing_of=Growing.of(kept))
        kept |= _packed(building) | {"tied": building.tied}
        mail = {
            host: {"tied": np.ascontiguousarray(building.tied[building.tied[:, 1] == host][:, [0, 2, 3]])}
            for host in np.unique(building.tied[:, 1]).tolist()
        }
        return with_round(state, kept), Say(mail=mail)

    def _opened(
        self, host: int, kept: Arrays, keys: SecretKeys, packing: Packing, sizes: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """A party's sums of the wanted nodes, int64 [nodes, candidates, 3], if they can be such."""
        rows = kept[f"rows {host}"].astype(np.int64)
        check(host, ((rows >= 0) & (rows <= sizes[:, None])).all(), "counts more rows in a node than it has.")
        try:
            integers = decrypt(keys, read_ciphers(keys.public, kept[f"sums {host}"]))
            sums = code_of(self.me).sums(packing.unpacked(integers, rows.size))
        except CryptoError as error:
            raise WrongMail(host, f"sends sums that cannot be read: {error}") from error
        return np.concatenate([sums.reshape(*rows.shape, 2), rows[:, :, None]], axis=2)

    def _chosen(self, state: Arrays, kept: Arrays, inbox: Inbox) -> tuple[Arrays, Say]:
        """Take the candidates that their parties prefer among equals, and who goes left by them."""
        kept, building, growing = dict(kept), self._building(state, kept), Growing.of(kept)
        (g, h), k, drawn = self.sealed.gradients(state), int(kept["k"][0]), self.sealed.drawn(state)
        tied = kept.pop("tied")
        for host in np.unique(tied[:, 1]).tolist():
            own = tied[tied[:, 1] == host]
            nodes = np.unique(own[:, 0]).tolist()
            numbers = want(inbox, host, "chosen", "int32", (len(nodes),)).tolist()
            packed = want(inbox, host, "bits", "uint8", (None,))
            rows = [growing.rows(node) for node in nodes]
            try:
                bits = from_bits(packed, map(len, rows))
            except ValueError as error:
                raise WrongMail(host, f"says who goes left in the wrong form: {error}.") from error
            for node, number, here, left in zip(nodes, numbers, rows, bits, strict=True):
                offered = own[own[:, 0] == node][:, 2]
                check(
                    host, number in offered, f"chooses split {number} of node {node}, which is not among the best."
                )
                building.choose(node, number)
                who = here[left & drawn[here]]
                sums = [g[k][who].sum(dtype=np.int64), h[k][who].sum(dtype=np.int64), len(who)]
                same = np.array_equal(sums[: building.sums.shape[1]], building.found_left[node])
                check(host, same, f"sends rows left in node {node} whose sums are not those that it sent.")
                kept[f"bits {node}"] = to_bits([left])
        return self._grown(state, kept, building, growing)

    def _grown(
        self, state: Arrays, kept: Arrays, building: JointBuilding, growing_of: Growing
    ) -> tuple[Arrays, Say]:
        """Split what is found, move all rows, and ask for the next nodes; or end the tree and begin the next."""
        kept, binned = dict(kept), rows_by_bin(self.me, state)
        moves = building.go_on(kept["nodes"].tolist())
        splits, table = [], []
        for node, left, right in zip(*(a.tolist() for a in (moves.node, moves.left, moves.right)), strict=True):
            rows, owner = growing_of.rows(node), building.owner(node)
            if owner == self.me.number:
                tree = building.tree
                numbers = int(tree.feature[node]), int(tree.bin[node]), bool(tree.missing_left[node])
                to_left = goes_left(binned, rows, *numbers)
            else:
                to_left = from_bits(kept.pop(f"bits {node}"), [len(rows)])[0]
            splits.append((node, left, right, to_left))
            table.append((node, left, right, owner, int(building.sums[left, 1] > building.sums[right, 1])))
        growing = moved(growing_of, splits)
        told = np.array(table, np.int32).reshape(-1, 5)
        if len(building.wanted):
            keys = self.sealed.keys(int(kept["k"][0]))
            more: Arrays = {
                "bits": to_bits(split[3] for split in splits),
                "wanted": building.wanted,
                "totals": self.sealed.encrypted_sums(keys, building.sums[building.wanted]),
            }
            mail = {host: {"moves": _for(host, told)} | more for host in self.hosts}
            return with_round(state, kept | growing.arrays() | _packed(building)), Say(mail=mail)
        k, margins = int(kept["k"][0]), kept["margins"].copy()
        margins[:, k] += leaf_values(growing, building.tree)
        last = {host: {"last": _for(host, told[told[:, 3] == host])} for host in self.hosts}
        return self._trees(self._with_tree(state, k, building.tree), {"margins": margins}, k + 1, last)


def _rest(mail: Mail, guest: Guest) -> Mail:
    """Mail to roles that get nothing else in this turn."""
    return {role: arrays for role, arrays in mail.items() if role not in guest.hosts}


def _packed(building: JointBuilding) -> Arrays:
    return {f"building {name}": array for name, array in building.arrays().items()}


def _for(host: int, told: NDArray[np.int32]) -> NDArray[Any]:
    """Splits as one party is told them: whether one is its own, and then which side weighs more."""
    own = (told[:, 3] == host).astype(np.int32)
    return np.ascontiguousarray(np.column_stack([told[:, :3], own, own * told[:, 4]]))
