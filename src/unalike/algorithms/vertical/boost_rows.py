"""What both sides of ``secureboost`` share: rows by bin, who holds what, keys, and mail in parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.protocol import Arrays, Me, PublicTerms, WrongMail
from unalike.algorithms.trees.agreement import with_cuts
from unalike.algorithms.trees.own_rows import cuts_in, filled, objective_in, training_labels
from unalike.errors import UserError
from unalike.randomness import stream
from unalike.secure.crypto.additive_keys import Cipher, Exponents
from unalike.trees.agreed import own_agreement
from unalike.trees.bins import Binned, bin_rows
from unalike.vertical.gradient_code import GradientCode

MOST_BYTES: Final = 2**26
"""Bytes that a role mails in a turn at most; more goes in several turns."""
NOW: Final = "now "
"""What the names begin with of what is kept within a round only."""
T = TypeVar("T")


@dataclass(frozen=True)
class Sealing:
    """What keys are made of, in the order in which :func:`make_keys` and :func:`read_public` take it."""

    bits: int
    cipher: Cipher
    exponents: Exponents


@dataclass(frozen=True)
class ColumnHolders:
    """Who has labels, and which columns of all parties side by side each has: from ``begins[k]`` on."""

    guest: int
    begins: NDArray[np.int64]

    def others(self) -> list[int]:
        """The numbers of the parties without labels."""
        return [party for party in range(len(self.begins) - 1) if party != self.guest]


def holders(terms: PublicTerms) -> ColumnHolders:
    """Who holds what by these terms."""
    if terms.label_holder is None:
        raise UserError("secureboost: nobody holds labels. Say which party does.")
    return ColumnHolders(terms.label_holder, np.concatenate([[0], np.cumsum(terms.columns)]).astype(np.int64))


def allowed_here(terms: PublicTerms, party: int, tree: int) -> NDArray[np.bool_]:
    """A party's columns that a tree may split on: its part of a share of all, drawn by the tree's number."""
    own, count = holders(terms).begins, sum(terms.columns)
    allowed = np.ones(count, bool)
    if terms.model.columns < 1:
        most = max(1, round(terms.model.columns * count))
        allowed[stream(terms.seed, "columns", tree).permutation(count)[most:]] = False
    return allowed[own[party] : own[party + 1]]


def room_for_rows(me: Me) -> Arrays:
    """Places for a party's cuts; with labels, for the start and for what trees say of its rows."""
    columns = me.terms.columns[me.number]
    room = {
        "values": np.zeros(columns * (me.terms.model.bins - 1), np.float32),
        "starts": np.zeros(columns + 1, np.int64),
        "fill": np.full(columns, np.nan, np.float32),
    }
    if me.number != me.terms.label_holder:
        return room
    outputs = objective_in(me.terms).outputs
    return room | {
        "base": np.zeros(outputs),
        "margins": np.zeros((len(me.rows.train), outputs)),
        "validation_margins": np.zeros((len(me.rows.validation), outputs)),
    }


def begun(me: Me, state: Arrays) -> Arrays:
    """Round 0: a party cuts its own columns by its own rows; with labels it begins all margins at the start."""
    settings = me.terms.model
    x = features_at(me, me.rows.train)
    cuts, fill = own_agreement(x, settings.bins, settings.least_rows)
    state = with_cuts(state, cuts) | {"fill": fill}
    if me.number != me.terms.label_holder:
        return state
    if settings.patience and not len(me.rows.validation):
        raise UserError(
            f"trees: patience={settings.patience} needs validation rows, and there are none. "
            "Leave patience out, or keep rows for validation."
        )
    objective = objective_in(me.terms)
    base = objective.base(objective.sums(training_labels(me)))
    return state | {"base": base} | {name: state[name] + base for name in ("margins", "validation_margins")}


def rows_by_bin(me: Me, state: Arrays) -> Binned:
    """The rows that are followed through trees, by bin: those to train on, then those of validation."""

    def make() -> Binned:
        return bin_rows(filled(features_at(me, followed(me)), state), cuts_in(state))

    return me.remember("rows by bin", make)


def features_at(me: Me, places: NDArray[np.int64]) -> Any:
    """A party's columns of some of its rows."""
    rows = me.rows.x[places]
    return rows if rows.ndim == 2 else rows.reshape(len(places), -1)


def followed(me: Me) -> NDArray[np.int64]:
    """The places of those rows; validation is followed where it may end the training."""
    seen = me.rows.validation if me.terms.model.patience else me.rows.validation[:0]
    return np.concatenate([me.rows.train, seen])


def code_of(me: Me) -> GradientCode:
    """How derivatives of so many rows become integers."""
    return GradientCode.of(objective_in(me.terms).name, len(me.rows.train))


def remember_last(me: Me, name: str, place: tuple[int, ...], make: Callable[[], T]) -> T:
    """What ``make`` gives, made once for a place such as a tree, and forgotten when another place has its turn."""
    known = me.kept.get(name)
    if known is None or known[0] != place:
        me.kept[name] = known = (place, make())
    made: T = known[1]
    return made


def in_round(state: Arrays) -> Arrays:
    """What is kept within a round, by the names it has there."""
    return {name.removeprefix(NOW): array for name, array in state.items() if name.startswith(NOW)}


def with_round(state: Arrays, kept: Arrays | None) -> Arrays:
    """The state with this kept within the round, and nothing else of it; None: the round is over."""
    rest = {name: array for name, array in state.items() if not name.startswith(NOW)}
    return rest | {NOW + name: array for name, array in (kept or {}).items()}


def check(sender: int, right: Any, problem: str) -> None:
    """Refuse mail that is not right, in the name of who sent it."""
    if not right:
        raise WrongMail(sender, problem)
