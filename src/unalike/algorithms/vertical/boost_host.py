"""A feature holder's side of ``secureboost``: add what is encrypted, by bins of own columns, and keep the cuts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.protocol import Arrays, Inbox, Me, Say, Turn, WrongMail, want
from unalike.algorithms.trees.own_rows import cuts_in
from unalike.algorithms.vertical.boost_rows import (
    MOST_BYTES,
    Sealing,
    allowed_here,
    check,
    code_of,
    holders,
    in_round,
    remember_last,
    rows_by_bin,
    with_round,
)
from unalike.secure.crypto.additive import Ciphers, PublicKey, read_ciphers, read_public, rerandomised
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.packing import Packing
from unalike.secure.crypto.primitives import stream
from unalike.trees.grow import Growing
from unalike.trees.reference import goes_left
from unalike.vertical.candidates import Candidates, slot_products
from unalike.vertical.instance_space import drawn_of, from_bits, moved, to_bits


@dataclass(frozen=True, eq=False)
class Host:
    """A party without labels in one turn; it does what the label holder's mail asks for."""

    me: Me
    turn: Turn
    sealing: Sealing
    outputs: int

    def step(self, state: Arrays, inbox: Inbox) -> tuple[Arrays, Say]:
        """Keep what splits it has won, and answer what it is asked."""
        guest = holders(self.me.terms).guest
        check(min(inbox), set(inbox) == {guest}, "asks for sums, and has no labels.")
        mail, kept = inbox[guest], in_round(state)
        if "last" in mail:
            check(guest, "tree" in kept, "ends a tree that it has not begun.")
            state, kept = self._won(state, kept, want(inbox, guest, "last", "int32", (None, 5))), {}
        if "public" in mail:
            check(guest, "tree" not in kept, "begins a tree before the last one has ended.")
            return self._begun(state, inbox, guest)
        asked = next((name for name in ("ciphers", "moves", "tied", "more") if name in mail), None)
        if asked is None:
            check(guest, "last" in mail, "says nothing that a tree has a place for.")
            return with_round(state, None), Say()
        check(guest, "tree" in kept, "goes on with a tree that it has not begun.")
        if asked == "ciphers":
            return self._received(state, kept, want(inbox, guest, "ciphers", "uint8", (None, None)), guest)
        if asked == "moves":
            return self._moved(state, kept, inbox, guest)
        if asked == "tied":
            return self._choice(state, kept, want(inbox, guest, "tied", "int32", (None, 3)), guest)
        return self._rest(state, kept, guest)

    def _begun(self, state: Arrays, inbox: Inbox, guest: int) -> tuple[Arrays, Say]:
        """A new tree: its key, which rows it is grown on, and the first ciphertexts."""
        settings, rows = self.me.terms.model, rows_by_bin(self.me, state).rows
        train = len(self.me.rows.train)
        tree = want(inbox, guest, "tree", "int64", (1,))
        first = (self.turn.round - 1) * self.outputs
        check(guest, first <= tree[0] < first + self.outputs, f"begins tree {tree[0]}, which is of another round.")
        drawn = np.arange(rows) < train
        if settings.rows < 1:
            try:
                drawn[:train] = from_bits(want(inbox, guest, "drawn", "uint8", (None,)), [train])[0]
            except ValueError as error:
                raise WrongMail(guest, f"draws rows in the wrong form: {error}.") from error
        kept = {
            "tree": tree,
            "public": want(inbox, guest, "public", "uint8", (3, None)),
            "totals": want(inbox, guest, "totals", "uint8", (1, None)),
            "drawn": drawn.astype(np.uint8),
            "wanted": np.zeros(1, np.int32),
            "pending": np.zeros((0, 5), np.int32),
        } | Growing.start(rows, settings).arrays()
        public = self._public(kept, guest)
        return self._received(state, kept, want(inbox, guest, "ciphers", "uint8", (None, public.width)), guest)

    def _public(self, kept: Arrays, guest: int) -> PublicKey:
        """The tree's public key, looked at once."""

        def make() -> PublicKey:
            try:
                return read_public(kept["public"], *vars(self.sealing).values())
            except CryptoError as error:
                raise WrongMail(guest, f"sends a key that is none: {error}") from error

        return remember_last(self.me, "public key", self._place(kept), make)

    def _place(self, kept: Arrays) -> tuple[int, ...]:
        return (self.turn.round, int(kept["tree"][0]))

    def _received(self, state: Arrays, kept: Arrays, part: NDArray[np.uint8], guest: int) -> tuple[Arrays, Say]:
        """Take ciphertexts until there is one for each row; then say the root's sums."""
        width, wanted = self._public(kept, guest).width, int(kept["drawn"].sum())
        so_far = kept.get("ciphers", part[:0])
        here = len(so_far) + len(part)
        check(guest, part.shape[1] == width and len(part) > 0 and here <= wanted, "sends too many ciphertexts.")
        kept = kept | {"ciphers": np.concatenate([so_far, part])}
        if here < wanted:
            return with_round(state, kept), Say(mail={guest: {"more": np.array([here], np.int64)}})
        return self._summed(state, kept, guest)

    def _values(self, kept: Arrays, guest: int) -> list[object]:
        """The rows' ciphertexts as numbers, by row; none for rows that the tree is not grown on."""

        def make() -> list[object]:
            found: list[object] = [None] * len(kept["drawn"])
            for row, value in zip(
                np.flatnonzero(kept["drawn"]).tolist(),
                self._read(kept, kept["ciphers"], guest).values,
                strict=True,
            ):
                found[row] = value
            return found

        return remember_last(self.me, "rows' ciphertexts", self._place(kept), make)

    def _read(self, kept: Arrays, array: NDArray[np.uint8], guest: int) -> Ciphers:
        try:
            return read_ciphers(self._public(kept, guest), array)
        except CryptoError as error:
            raise WrongMail(guest, f"sends ciphertexts that are none: {error}") from error

    def _candidates(self, state: Arrays, kept: Arrays) -> tuple[Candidates, NDArray[np.int64]]:
        """The splits that this party offers, and the place of each number among them: this tree's own secret."""

        def make() -> tuple[Candidates, NDArray[np.int64]]:
            place = self._place(kept)
            found = Candidates.of(
                rows_by_bin(self.me, state), allowed_here(self.me.terms, self.me.number, place[1])
            )
            drawn = stream(self.me.secret("numbers of splits", *place))(8 * len(found))
            return found, np.argsort(np.frombuffer(drawn, "<u8"), kind="stable")

        return remember_last(self.me, "candidates", self._place(kept), make)

    def _summed(self, state: Arrays, kept: Arrays, guest: int) -> tuple[Arrays, Say]:
        """Say what each candidate sends left, in each node that is wanted: encrypted sums, and numbers of rows."""
        binned, public = rows_by_bin(self.me, state), self._public(kept, guest)
        candidates, order = self._candidates(state, kept)
        growing, values = drawn_of(Growing.of(kept), kept["drawn"] > 0), self._values(kept, guest)
        totals = self._read(kept, kept["totals"], guest)
        found = []
        for node, total in zip(kept["wanted"].tolist(), totals.values, strict=True):
            short = slot_products(binned, values, public.modulus, growing.rows(node))
            products = candidates.products(binned, short, total, public.modulus)
            found += [products[place] for place in order.tolist()]
        packed = Packing(code_of(self.me).bits, public.room).packed(Ciphers(public, found))
        fresh = rerandomised(packed, self.me.secret("sums made fresh", self.turn.round, self.turn.number))
        rows: Arrays = {"rows": candidates.counts(binned, growing, kept["wanted"])[:, order].astype(np.int32)}
        return self._said(state, kept | {"sums": fresh.to_array()}, rows, guest)

    def _said(self, state: Arrays, kept: Arrays, mail: Arrays, guest: int) -> tuple[Arrays, Say]:
        """Send as many sums as a mail takes, and keep the rest."""
        most = max(1, MOST_BYTES // kept["sums"].shape[1])
        mail = mail | {"sums": kept["sums"][:most]}
        return with_round(state, kept | {"sums": kept["sums"][most:]}), Say(mail={guest: mail})

    def _rest(self, state: Arrays, kept: Arrays, guest: int) -> tuple[Arrays, Say]:
        check(guest, len(kept.get("sums", ())), "asks for more sums than there are.")
        return self._said(state, kept, {}, guest)

    def _moved(self, state: Arrays, kept: Arrays, inbox: Inbox, guest: int) -> tuple[Arrays, Say]:
        """Move rows as told, keep the splits that are this party's, and say the sums of the nodes wanted next."""
        moves = want(inbox, guest, "moves", "int32", (None, 5))
        wanted = want(inbox, guest, "wanted", "int32", (None,))
        totals = want(inbox, guest, "totals", "uint8", (len(wanted), None))
        growing = Growing.of(kept)
        check(guest, ((moves >= 0) & (moves < len(growing.starts))).all(), "splits nodes that there are none of.")
        try:
            lengths = [len(growing.rows(node)) for node in moves[:, 0].tolist()]
            bits = from_bits(want(inbox, guest, "bits", "uint8", (None,)), lengths)
            growing = moved(growing, [(*m[:3], b) for m, b in zip(moves.tolist(), bits, strict=True)])
        except ValueError as error:
            raise WrongMail(guest, f"tells splits in the wrong form: {error}.") from error
        sizes = [int(growing.ends[n] - growing.starts[n]) for n in wanted.tolist() if 0 <= n < len(growing.ends)]
        check(guest, len(wanted) and len(sizes) == len(wanted) and min(sizes), "wants nodes that have no rows.")
        state = self._won(state, kept, moves)
        return self._summed(state, kept | growing.arrays() | {"wanted": wanted, "totals": totals}, guest)

    def _choice(self, state: Arrays, kept: Arrays, tied: NDArray[np.int32], guest: int) -> tuple[Arrays, Say]:
        """Of the equally good candidates in each node choose the first, and say who goes left by it."""
        binned, growing = rows_by_bin(self.me, state), Growing.of(kept)
        candidates, order = self._candidates(state, kept)
        nodes, numbers = tied[:, 0], tied[:, 1]
        inside = (nodes >= 0) & (nodes < len(growing.starts)) & (numbers >= 0) & (numbers < len(order))
        check(guest, len(tied) and inside.all(), "names splits that were not offered.")
        chosen, bits, pending = [], [], [kept["pending"]]
        for node in np.unique(nodes).tolist():
            own = tied[nodes == node]
            best = int(np.argmin(order[own[:, 1]]))
            place = int(order[own[best, 1]])
            feature, bin, gap = (
                int(part[place]) for part in (candidates.feature, candidates.bin, candidates.missing_left)
            )
            rows = growing.rows(node)
            unseen = self._unseen(state, kept, candidates, order, own, best, rows)
            chosen.append(int(own[best, 1]))
            bits.append(goes_left(binned, rows, feature, bin, bool(gap)))
            pending.append(np.array([[node, feature, bin, gap, unseen]], np.int32))
        kept = kept | {"pending": np.concatenate(pending)}
        mail: Arrays = {"chosen": np.array(chosen, np.int32), "bits": to_bits(bits)}
        return with_round(state, kept), Say(mail={guest: mail})

    def _unseen(
        self,
        state: Arrays,
        kept: Arrays,
        candidates: Candidates,
        order: NDArray[np.int64],
        tied: NDArray[np.int32],
        best: int,
        rows: NDArray[np.int32],
    ) -> bool:
        """Whether nothing is missing in a node of the column that splits it, or what is weighs nothing at all."""
        place = int(order[tied[best, 1]])
        feature = int(candidates.feature[place])
        gap = len(cuts_in(state).of_feature(feature)) + 1
        drawn = rows[kept["drawn"][rows] > 0]
        if not (rows_by_bin(self.me, state).bins(feature, drawn) == gap).any():
            return True
        if self.me.terms.model.least_rows > 1:
            return False
        places = order[tied[:, 1]]
        twin = (
            (candidates.feature[places] == feature)
            & (candidates.bin[places] == candidates.bin[place])
            & (tied[:, 2] == tied[best, 2])
        )
        return int(twin.sum()) > 1

    def _won(self, state: Arrays, kept: Arrays, moves: NDArray[np.int32]) -> Arrays:
        """Write down the column and cut of each split that is this party's, and where missing values go."""
        guest, cuts, pending = holders(self.me.terms).guest, cuts_in(state), kept.get("pending", np.zeros((0, 5)))
        table = {name: state[name].copy() for name in ("feature", "bin", "threshold", "missing_left")}
        for node, _, _, own, larger in moves.tolist():
            if not own:
                continue
            found = pending[pending[:, 0] == node]
            check(guest, len(found) == 1, f"says that node {node} is split here, which was not chosen.")
            feature, bin, gap, unseen = found[0, 1:].tolist()
            at, fill, threshold = (
                (int(kept["tree"][0]), node),
                state["fill"][feature],
                cuts.threshold(feature, bin),
            )
            left = larger if unseen else gap
            table["feature"][at], table["bin"][at], table["threshold"][at] = feature, bin, threshold
            table["missing_left"][at] = left if np.isnan(fill) else fill < threshold
        return state | table
