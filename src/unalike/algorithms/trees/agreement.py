"""Round 0 of boosted trees: where columns are cut and what all rows start from, by sums of counts alone.

Turn by turn the server asks for counts, each time inside fewer and finer buckets (``unalike.trees.agreed``), and
at the end tells everybody the cuts and the start. A party answers each question once, at its turn.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from unalike.algorithms.protocol import (
    NOTHING,
    SERVER,
    SUM,
    Arrays,
    Inbox,
    Me,
    PublicTerms,
    Say,
    Turn,
    WrongMail,
    want,
)
from unalike.algorithms.trees.own_rows import objective_in, training_rows
from unalike.errors import UserError
from unalike.trees.agreed import (
    DIVISIONS,
    FIRST,
    MISSING,
    MORE,
    Buckets,
    cuts_between,
    fills,
    fine_counts,
    first_buckets,
    first_counts,
)
from unalike.trees.cuts import Cuts

_KEPT: Final = "bucket_"
"""What the names of the server's buckets begin with, while it keeps them."""


def room(terms: PublicTerms) -> Arrays:
    """Places for the cuts and for the start, before they are known."""
    return {
        "values": np.zeros(terms.features * (terms.model.bins - 1), np.float32),
        "starts": np.zeros(terms.features + 1, np.int64),
        "fill": np.full(terms.features, np.nan, np.float32),
        "base": np.zeros(objective_in(terms).outputs),
    }


def lead(me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
    """The server: ask for first counts, then into buckets that many rows share; tell the cuts in the end."""
    if turn.number == 0:
        return state, to_all(me, {"division": np.zeros(1, np.int64)})
    division = turn.number // 2
    if division == 1:
        state, buckets = _first_answers(me, state, inbox)
    else:
        buckets = Buckets(*(state[_KEPT + name] for name in ("column", "low", "bits", "rows")))
        chosen = state[_KEPT + "chosen"]
        buckets = buckets.divided(chosen, want(inbox, SUM, "rows", "int64", (len(chosen), 1 << MORE)))
    chosen = buckets.to_divide(me.terms.model.bins, me.terms.model.least_rows)
    if division > DIVISIONS or not len(chosen):
        return _finished(me, state, buckets)
    kept = {_KEPT + name: array for name, array in buckets.arrays().items()}
    mail = {
        "division": np.array([division], np.int64),
        "column": buckets.column[chosen],
        "low": buckets.low[chosen],
    }
    return state | kept | {_KEPT + "chosen": chosen}, to_all(me, mail)


def to_all(me: Me, mail: Arrays) -> Say:
    """The same mail to every party."""
    return Say(mail=dict.fromkeys(range(me.terms.parties), mail))


def _first_answers(me: Me, state: Arrays, inbox: Inbox) -> tuple[Arrays, Buckets]:
    """The start, and the first buckets, from the sums of what all parties counted."""
    terms = me.terms
    if terms.model.patience and not want(inbox, SUM, "validation", "int64", (1,))[0]:
        raise UserError(
            f"trees: patience={terms.model.patience} needs validation rows, and no party has any. "
            "Leave patience out, or keep rows for validation."
        )
    nothing = objective_in(terms).sums(np.zeros(0, np.int64 if terms.classes else np.float64))
    sums = want(inbox, SUM, "labels", "int64", nothing.shape)
    counts = want(inbox, SUM, "rows", "int64", (terms.features, MISSING + 1))
    kept = {"base": objective_in(terms).base(sums), _KEPT + "missing": counts[:, MISSING]}
    return state | kept, first_buckets(counts)


def _finished(me: Me, state: Arrays, buckets: Buckets) -> tuple[Arrays, Say]:
    """Cut between the buckets, forget them, and tell all parties."""
    terms = me.terms
    cuts = cuts_between(buckets, terms.features, terms.model.bins, terms.model.least_rows)
    fill = fills(cuts, state[_KEPT + "missing"], buckets, terms.model.least_rows)
    kept = {name: array for name, array in state.items() if not name.startswith(_KEPT)}
    return with_cuts(kept, cuts) | {"fill": fill}, to_all(
        me, cuts.arrays() | {"fill": fill, "base": state["base"]}
    )


def with_cuts(state: Arrays, cuts: Cuts) -> Arrays:
    """A role's state with these cuts in the places for them."""
    values = np.zeros_like(state["values"])
    values[: len(cuts.values)] = cuts.values
    return state | {"values": values, "starts": cuts.starts}


def answer(me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
    """A party: count what is asked, or keep the cuts and set all margins to the start."""
    if not inbox:
        return state, NOTHING
    if "starts" in inbox.get(SERVER, {}):
        return _told(me, state, inbox), NOTHING
    division = int(want(inbox, SERVER, "division", "int64", (1,))[0])
    if division != turn.number // 2 or not 0 <= division <= DIVISIONS:
        raise WrongMail(SERVER, f"asks for division {division} in turn {turn.number}. It has another turn.")
    x, y = training_rows(me)
    if division == 0:
        count = np.array([len(me.rows.validation)], np.int64)
        labels = objective_in(me.terms).sums(y)
        return state, Say(add={"rows": first_counts(x), "labels": labels, "validation": count})
    bits = FIRST + (division - 1) * MORE
    column, low = _asked(me.terms, inbox, bits)
    return state, Say(add={"rows": fine_counts(x, column, low, bits)})


def _asked(terms: PublicTerms, inbox: Inbox, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """The buckets that the server wants to look into, if they are what it may ask for."""
    column = want(inbox, SERVER, "column", "int64", (None,))
    low = want(inbox, SERVER, "low", "int64", column.shape)
    begins = column * (1 << 33) + low
    sound = (
        (column >= 0).all()
        and (column < terms.features).all()
        and (low >= 0).all()
        and (low < 1 << 32).all()
        and (low % (1 << (32 - bits)) == 0).all()
        and (np.diff(begins) > 0).all()
    )
    if not sound or (np.bincount(column, minlength=1) > 2 * terms.model.bins).any():
        raise WrongMail(SERVER, "asks for counts in buckets that are none, or in too many of a column.")
    return column, low


def _told(me: Me, state: Arrays, inbox: Inbox) -> Arrays:
    """Keep the cuts, and let all rows begin at the start."""
    outputs = state["base"].shape
    starts = want(inbox, SERVER, "starts", "int64", (me.terms.features + 1,))
    sizes = np.diff(starts)
    if starts[0] or (sizes < 0).any() or (sizes >= me.terms.model.bins).any():
        raise WrongMail(SERVER, f"tells cuts of more than {me.terms.model.bins} bins, or of fewer than none.")
    values = want(inbox, SERVER, "values", "float32", (int(starts[-1]),))
    base = want(inbox, SERVER, "base", "float64", outputs)
    fill = want(inbox, SERVER, "fill", "float32", (me.terms.features,))
    inner = np.ones(len(values), bool)
    inner[starts[:-1][sizes > 0]] = False
    if not np.isfinite(values).all() or (np.diff(values)[inner[1:]] <= 0).any() or not np.isfinite(base).all():
        raise WrongMail(SERVER, "tells cuts that do not ascend, or a start that is no number.")
    state = with_cuts(state, Cuts(values, starts)) | {"fill": fill, "base": base}
    margins = {name: np.zeros_like(state[name]) + base for name in ("margins", "validation_margins")}
    return state | margins
