"""A party's rows as nets need them, and checks of what parties of split nets tell each other."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.protocol import Inbox, Me, Turn, WrongMail, role_name, want
from unalike.algorithms.vertical.batches import batches
from unalike.algorithms.vertical.descent import within
from unalike.errors import UserError

Array = NDArray[Any]
GREATEST: Final = 2.0**40
"""Beyond, training has run away: nobody sends such a number, and nobody takes one."""


def net_rows(me: Me, places: NDArray[np.int64], dtype: str) -> Array:
    """A party's rows at these places as a dense table of that type; refuses missing values."""
    rows = me.rows.x[places]
    rows = rows.toarray() if hasattr(rows, "indptr") else rows
    table = np.ascontiguousarray(rows.reshape(len(places), math.prod(rows.shape[1:])), dtype)
    wrong = table.size - int(np.isfinite(table).sum())
    if wrong:
        raise UserError(
            f"{role_name(me.number)} has {wrong} missing or infinite values, which a net cannot read. Use "
            "missing=indicate, or let trees learn from them: --model trees --algorithm secureboost."
        )
    return table


def round_batches(me: Me, round: int, people: int) -> list[NDArray[np.int64]]:
    """Who is in the batches of a round; those of the last one that was asked for are remembered."""
    known: tuple[int, list[NDArray[np.int64]]] | None = me.kept.get("batches of a round")
    if known is None or known[0] != round:
        me.kept["batches of a round"] = known = (round, batches(me.terms, people, round))
    return known[1]


def own_random(me: Me, use: str, *place: int) -> np.random.Generator:
    """Random numbers that nobody else can draw, such as first weights and noise: they are of a party's secrets."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(me.secret(use, *place)[:16], "little")))


def check_common(me: Me, protocol: str) -> None:
    """Refuse to train where parties have nobody in common."""
    if not len(me.rows.train):
        raise UserError(f"{protocol} trains on people whom all parties know, and there is none. Match ids again.")


def check_mlp(model: Any, protocol: str) -> None:
    """Refuse models whose body cannot read a plain row of columns."""
    if not isinstance(getattr(model, "hidden", None), tuple) or not hasattr(model, "build"):
        raise UserError(
            f"{protocol} trains an mlp, not {type(model).__name__}: what a party has of an image or a text is a "
            'flat block of columns, which only fully connected layers read. Use --model "mlp(32,16)".'
        )


def heard_rows(inbox: Inbox, sender: int, name: str, dtype: str, shape: tuple[int, ...]) -> Array:
    """An array of one line for each row that a role sent; refuses what is no number, or too large."""
    return within(want(inbox, sender, name, dtype, shape), GREATEST, sender, name)


def batch_told(turn: Turn, sender: int, count: int, number: int) -> int:
    """The number of the batch that mail of this turn is about, of so many; refuses mail of no batch."""
    if not 0 <= number < count:
        raise WrongMail(sender, f"writes in turn {turn.number} of round {turn.round}, which has {count} batches.")
    return number


def said_rows(me: Me, rows: Array, turn: Turn, what: str) -> Array:
    """What a party is about to send, if training has not run away."""
    if rows.size and not np.abs(rows).max() <= GREATEST:
        when = f"round {turn.round}" if turn.purpose == "train" else "predicting"
        raise UserError(
            f"{role_name(me.number)}: {what} has grown beyond all bounds in {when}. Use a smaller --lr, it is "
            f"{me.terms.pace.lr:g}."
        )
    return rows
