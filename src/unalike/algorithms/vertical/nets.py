"""What protocols that train nets of split columns share: who speaks when, and their batches of small steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from numpy.typing import NDArray

from unalike.algorithms.protocol import NOTHING, SERVER, Arrays, Inbox, Me, Protocol, PublicTerms, Say, Turn
from unalike.algorithms.vertical.net_rows import round_batches
from unalike.errors import UserError

Batches = Sequence[NDArray[Any]]


class ColumnNets(Protocol):
    """A protocol in which parties train nets of their own columns, batch by batch, in step with the label holder.

    The server has nothing to do, and nothing is prepared in round 0.
    """

    splits: ClassVar[Literal["rows", "columns"]] = "columns"
    models: ClassVar[tuple[str, ...]] = ("mlp",)
    uses: ClassVar[frozenset[str]] = frozenset(("lr", "lr_decay", "epochs", "steps", "batch_size"))
    sends = "features"
    reasons: ClassVar[Mapping[str, str]] = {
        "model": "a party's columns are a flat block, which only an mlp reads as it is",
        "optimiser": "all nets descend by plain SGD",
        "loss": "the loss follows from what is predicted",
        "sample": "a batch needs what every party's net makes of it",
        "drop_last": "the last batch of a pass is as large as what is left",
        "dtype": "the precision is part of the protocol",
        "device": "a party's net is small, and computed on the processor",
        "batch_norm": "the nets have no such layers",
        "fine_tune": "no party has a whole net to train further",
    }

    def step(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """Silence where there is nothing to do; else train or predict, on one thread."""
        waits = turn.number > 0 and not inbox
        if me.number == SERVER or waits or (turn.round == 0 and turn.purpose == "train"):
            return state, NOTHING
        from unalike.vertical.net_part import on_one_thread  # torch is loaded when a net is used

        with on_one_thread():
            if turn.purpose == "train":
                found = round_batches(me, turn.round, len(me.rows.train))
                learns = self.lead if me.number == label_holder_of(me.terms) else self.follow
                return learns(me, state, turn, inbox, found)
            late = turn.number > 1
            early = turn.number == 0 and me.terms.parties > 1 and me.number == me.terms.label_holder
            return (state, NOTHING) if late or early else self.predict(me, state, turn, inbox)

    def lead(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox, found: Batches) -> tuple[Arrays, Say]:
        """What the label holder does in a turn of training; ``found`` are the round's batches."""
        raise NotImplementedError

    def follow(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox, found: Batches) -> tuple[Arrays, Say]:
        """What a party without labels does in a turn of training."""
        raise NotImplementedError

    def predict(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """A holder sends what its net makes of its rows; the label holder keeps the margins of all."""
        raise NotImplementedError


def label_holder_of(terms: PublicTerms) -> int:
    """The number of the party that has the labels."""
    if terms.label_holder is None:
        raise UserError("Nobody has the labels. Say which party does.")
    return terms.label_holder
