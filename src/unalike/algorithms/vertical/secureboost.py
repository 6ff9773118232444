"""Boosted trees over split columns: the label holder finds splits on sums that others add while encrypted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.contract import algorithm
from unalike.algorithms.protocol import (
    NOTHING,
    SERVER,
    Arrays,
    Inbox,
    Me,
    Protocol,
    PublicTerms,
    Say,
    Sends,
    Turn,
    want,
)
from unalike.algorithms.trees.boosting import has_ended, room_for_trees
from unalike.algorithms.trees.own_rows import objective_in
from unalike.algorithms.vertical import boost_guest, boost_host, boost_predict, boost_sealed
from unalike.algorithms.vertical.boost_rows import Sealing, begun, holders, room_for_rows
from unalike.errors import UserError
from unalike.secure.crypto.additive_keys import MOST_BITS, SAFE_BITS, Cipher, Exponents
from unalike.trees.tree import most_nodes

_REFUSED = ("rising", "falling")


@algorithm("secureboost", paper="Cheng et al. 2021, arXiv:1901.08755")
class SecureBoost(Protocol):
    """Boosted trees over split columns: the very trees of somebody who has all columns, and labels stay encrypted.

    For each tree the label holder encrypts every row's first and second derivative, g and h, as one integer
    [g 2^b + h]. Every other party multiplies ciphertexts into the bins of its own columns, packs the sums of
    the rows that each possible split would send left, and sends them under secret numbers. The label holder
    decrypts the sums and takes the split of the greatest gain

        G_L^2 / (H_L + l2) + G_R^2 / (H_R + l2) - G^2 / (H + l2).

    Its owner alone knows which column and cut that is; everybody is told which rows go left. All sums are whole
    numbers, so the trees are to the bit those of ``histogram`` on the joined table, in the order of parties.

    Departures: keys are of Okamoto and Uchiyama (``cipher="paillier"`` for the paper's), fresh for each tree; the
    sum of a node's sibling is subtracted in the clear; candidates that are equally good are told to their owner,
    who has the lowest. ``first="own"`` grows the first round's trees, whose leaves tell most of labels, on the
    label holder's columns alone; ``mix`` grows each round's on one party's columns, in turn, as SecureBoost+
    (Chen et al. 2021) does. ``exponents="full"`` does without the assumption about short ones, and is slow.
    """

    bits: int = SAFE_BITS
    cipher: Cipher = "okamoto-uchiyama"
    first: Literal["all", "own"] = "all"
    mix: bool = False
    exponents: Exponents = "short"

    splits = "columns"
    models: ClassVar[tuple[str, ...]] = ("trees",)
    sends: ClassVar[Sends] = "encrypted gradients"
    predictor: ClassVar[str] = "unalike.trees.ensemble:Ensemble"
    reasons: ClassVar[Mapping[str, str]] = {
        "lr": "the shrinkage of a tree is trees(eta=0.3)",
        "batch_size": "each tree is grown on all rows, or on a share of them: trees(rows=0.5)",
        "epochs": "a round is a tree",
        "steps": "a round is a tree",
    }
    least_bits: ClassVar[int] = 2048
    """The shortest keys that a run may have."""

    def __post_init__(self) -> None:
        if not self.least_bits <= self.bits <= MOST_BITS:
            raise UserError(
                f"secureboost: bits must be from {self.least_bits} to {MOST_BITS:,}, got {self.bits}: short keys "
                f"protect nobody. Use bits={SAFE_BITS}."
            )

    @property
    def sealing(self) -> Sealing:
        """What keys are made of."""
        return Sealing(self.bits, self.cipher, self.exponents)

    def owners(self, terms: PublicTerms, round: int) -> tuple[int, ...]:
        """Whose columns a round's trees may look at, in the order of parties."""
        guest = holders(terms).guest
        if self.first == "own" and round == 1:
            return (guest,)
        if self.mix:
            return ((guest + round - 1) % terms.parties,)
        return tuple(range(terms.parties))

    def start(self, me: Me) -> Arrays:
        """Room for cuts and trees; with the label holder also for what they say of its rows."""
        if me.number == SERVER:
            return {"ended": np.zeros(1, np.int64)}
        for name in _REFUSED:
            if getattr(me.terms.model, name):
                raise UserError(
                    f"secureboost: trees({name}=...) names columns, and the label holder is not to know which "
                    f"column of another party a split is on. Leave {name} out."
                )
        outputs = objective_in(me.terms).outputs
        if me.number == holders(me.terms).guest:
            return room_for_rows(me) | room_for_trees(me.terms, outputs)
        shape = (me.terms.rounds * outputs, most_nodes(me.terms.model))
        table: Arrays = {
            "feature": np.full(shape, -1, np.int32),
            "bin": np.full(shape, -1, np.int32),
            "threshold": np.zeros(shape, np.float32),
            "missing_left": np.zeros(shape, np.uint8),
        }
        return room_for_rows(me) | table

    def step(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """Round 0 cuts columns; the others grow trees, led by the label holder. The server hears of the end."""
        if me.number == SERVER:
            return _server(me, state, inbox), NOTHING
        is_guest = me.number == holders(me.terms).guest
        if turn.purpose == "predict":
            return boost_predict.guest(me, state, inbox) if is_guest else boost_predict.host(me, state, turn)
        if turn.round == 0:
            return (begun(me, state) if turn.number == 0 else state), NOTHING
        owners, outputs = self.owners(me.terms, turn.round), objective_in(me.terms).outputs
        if is_guest:
            if has_ended(state):
                return state, NOTHING
            sealed = boost_sealed.SealedTrees(me, turn, self.sealing, owners, outputs)
            return boost_guest.Guest(me, turn, sealed).step(state, inbox)
        return boost_host.Host(me, turn, self.sealing, outputs).step(state, inbox) if inbox else (state, NOTHING)

    def model(self, me: Me, state: Arrays, server: Arrays) -> Arrays | None:
        """A party's part of the trees: the label holder's shape and leaves, others' columns and cuts."""
        if me.number == SERVER:
            return None
        return boost_predict.part(me, state)

    def joined(self, terms: PublicTerms, parts: Sequence[Arrays], columns: Sequence[NDArray[np.int64]]) -> Arrays:
        """The arrays of ordinary trees, whose nodes look at columns of the whole table."""
        return boost_predict.joined(terms, parts, columns)

    def learns(self, terms: PublicTerms) -> Mapping[str, str]:
        """What each role learns, for consent."""
        return {
            "label holder": (
                "For every tree: which rows go left at each split of another holder, and in each node the sums of "
                "derivatives and the numbers of rows that each of its possible splits sends left, under secret "
                "numbers; not which columns and cuts they are. When it predicts: which way each row goes at each "
                "of those splits."
            ),
            "other holders": (
                "Which rows are together in each node of the trees that their columns take part in. Rows that "
                "share a leaf tend to share a label, in the first trees most (first=own keeps those to the label "
                "holder). Of their own possible splits: which are the best of all, and which child weighs more. "
                "Derivatives are encrypted: labels are not told."
            ),
            "server": "Sizes and times of mail, and when training ends early. Nothing of rows, labels or columns.",
        }

    def finished(self, server: Arrays) -> str | None:
        """Why training ends: the label holder has seen no better loss for as many rounds as it has patience."""
        if not server["ended"][0]:
            return None
        best = int(server["ended"][0]) - 1
        return (
            f"the loss on validation rows was least after round {best} and not lower for as long as patience says"
        )


def _server(me: Me, state: Arrays, inbox: Inbox) -> Arrays:
    if not inbox:
        return state
    return {"ended": want(inbox, holders(me.terms).guest, "ended", "int64", (1,))}
