"""Linear models of columns that several parties have: one model, trained as if one table had them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.contract import algorithm
from unalike.algorithms.protocol import NOTHING, SERVER, Arrays, Inbox, Me, Protocol, PublicTerms, Say, Turn
from unalike.algorithms.vertical.batches import outputs_of
from unalike.algorithms.vertical.descent import (
    LocalSteps,
    batch_of,
    checked,
    columns_of,
    follow,
    heard_residual,
    heard_scores,
    in_order,
    lead,
    only,
    order_of,
)
from unalike.algorithms.vertical.sealed import Seal, check_batches
from unalike.algorithms.vertical.told import REASONS, learned
from unalike.errors import UserError
from unalike.secure.crypto.additive_keys import MOST_BITS, SAFE_BITS, Cipher
from unalike.vertical.arithmetic import Arithmetic, arithmetic_of
from unalike.vertical.linear import joined_linear

Array = NDArray[Any]
Protect = Literal["auto", "clear", "masked", "encrypted"]
LEAST_BITS = 2048
"""Bits of a key below which it is known how to break it, or nearly so."""
FEWEST = 32
"""Rows that are predicted together at least, where scores are hidden in sums."""


class LinearColumns(Protocol):
    """What ``vertical`` and ``fedbcd`` share: who says what, in which turn, and what hides it."""

    splits = "columns"
    models = ("logistic", "linear")
    uses = frozenset({"lr", "lr_decay", "epochs", "steps", "batch_size"})
    sends = "scores"
    predictor = "unalike.vertical.linear:JoinedLinear"
    reasons = REASONS

    l2: float
    protect: Protect
    bits: int
    cipher: Cipher
    least_predicted: int

    def check(self, name: str) -> None:
        """Refuse parameters that mean nothing, or protect nobody."""
        check_penalty(name, "l2", self.l2)
        if self.bits < LEAST_BITS:
            raise UserError(
                f"{name}'s bits must be {LEAST_BITS} or more, got {self.bits}: shorter keys are broken. "
                f"Use {SAFE_BITS}."
            )
        if self.bits > MOST_BITS:
            raise UserError(
                f"{name}'s bits must be at most {MOST_BITS:,}, got {self.bits}: longer keys take hours to make. "
                f"Use {SAFE_BITS}."
            )
        if self.least_predicted < 1:
            raise UserError(f"{name}'s least_predicted must be >= 1, got {self.least_predicted}. Use {FEWEST}.")

    @property
    def descent(self) -> LocalSteps:
        """The steps of a party between two exchanges."""
        return LocalSteps(1, self.l2, 0.0)

    def protection(self, terms: PublicTerms) -> str:
        """What hides scores and residuals: nothing, sums of scores ("masked"), or encryption of residuals too."""
        if self.protect == "auto":
            return "masked" if terms.parties >= 3 else "clear"
        if self.protect == "masked" and terms.parties == 2:
            raise UserError(
                "protect=masked hides scores in a sum of two parties' or more, but there is one beside the label "
                "holder. Use protect=clear, or three parties."
            )
        return self.protect

    @property
    def seal(self) -> Seal:
        """What residuals are encrypted with."""
        return Seal(self.bits, self.cipher)

    def trips(self, terms: PublicTerms) -> int:
        """How many turns a batch takes: scores and residuals, and two more for sums under encryption."""
        return 4 if self.protection(terms) == "encrypted" else 2

    def start(self, me: Me) -> Arrays:
        """Weights of zero for a party's columns; the label holder has the intercept."""
        self.protection(me.terms)
        if me.data is None:
            return {}
        assert me.terms.label_holder is not None
        width, outputs = me.terms.columns[me.number], outputs_of(me.terms)
        state: Arrays = {"weights": np.zeros((width, outputs))}
        if me.number == me.terms.label_holder:
            state |= {"bias": np.zeros(outputs), "loss": np.zeros(2)}
        return state

    def step(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """Scores to the label holder in even turns, residuals back in odd ones."""
        if me.number == SERVER:
            only(inbox, ())
            return state, NOTHING
        own = arithmetic_of(self.protection(me.terms) != "clear")
        leads = me.number == me.terms.label_holder
        if turn.purpose == "predict":
            return self._predict(me, own, state, turn, inbox)
        if turn.round == 0:
            columns_of(me, own)  # what cannot be trained on is refused before anything is sent
            if self.protection(me.terms) == "encrypted":
                check_batches(me.terms, len(me.rows.train))
            return state, NOTHING
        return (self._lead if leads else self._follow)(me, own, state, turn, inbox)

    def _lead(self, me: Me, own: Arithmetic, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        order = self._order(me, turn)
        count = len(order)
        number, place = divmod(turn.number, self.trips(me.terms))
        if me.terms.parties == 1:
            for number in range(count):
                state, _ = lead(me, own, self.descent, state, (turn.round, number), {})
            return state, Say(figures=_figures(state))
        if turn.number == 0:
            return state, NOTHING
        if place % 2 == 0 or number >= count:
            only(inbox, ())
        at = turn.round, number
        if place == 3:
            return state, Say(mail=self.seal.opened(me, inbox, at))
        people = len(order[number])
        others = heard_scores(me, own, inbox, people, self._summed(me.terms))
        state, residual = lead(me, own, self.descent, state, at, others)
        sealed = self.protection(me.terms) == "encrypted"
        said = self.seal.residual(me, residual, at) if sealed else {"residual": residual}
        mail = {k: said for k in range(me.terms.parties) if k != me.number}
        return state, Say(mail=mail, figures=_figures(state) if number == count - 1 else {})

    def _follow(self, me: Me, own: Arithmetic, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        order, (number, place) = self._order(me, turn), divmod(turn.number, self.trips(me.terms))
        if place % 2 or number + bool(place) > len(order):
            only(inbox, ())
        if place == 2:
            assert me.terms.label_holder is not None
            columns = batch_of(me, own, turn.round, number)
            state, hidden = self.seal.answer(me, state, inbox, columns, (turn.round, number))
            return state, Say(mail={me.terms.label_holder: hidden})
        if number:
            columns = batch_of(me, own, turn.round, number - 1)
            if self.protection(me.terms) == "encrypted":
                gradient = self.seal.gradient(me, inbox, columns, (turn.round, number - 1))
            else:
                gradient = own.gradient(columns, heard_residual(me, own, inbox, columns.people))
            kept = {"key": state["key"]} if "key" in state and number < len(order) else {}
            state = follow(me, self.descent, state, gradient, columns.people, turn.round) | kept
        if number == len(order):
            return state, NOTHING
        columns = batch_of(me, own, turn.round, number)
        scores = checked(own, own.scores(columns, state["weights"], me.terms.parties))
        return state, self._say(me.terms, scores)

    def _predict(self, me: Me, own: Arithmetic, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        leads, alone = me.number == me.terms.label_holder, me.terms.parties == 1
        if leads and turn.number == 0 and not alone:
            return state, NOTHING
        places = me.rows.train
        if turn.number > leads:
            only(inbox, ())
        columns = own.columns(me.rows.x[places])
        scores = checked(own, own.steady(columns, state["weights"], me.terms.parties))
        if not leads:
            if self._summed(me.terms) and len(places) < self.least_predicted:
                raise UserError(
                    f"{len(places)} rows are to be predicted, but scores are hidden, and fewer than "
                    f"{self.least_predicted} at a time are refused. Predict more together, or train with "
                    "least_predicted=1."
                )
            return state, self._say(me.terms, scores)
        others = {} if alone else heard_scores(me, own, inbox, len(places), self._summed(me.terms))
        scores = checked(own, scores + own.intercept(state["bias"]))
        return state | {"margins": own.plain(in_order({**others, me.number: scores}))}, NOTHING

    def _order(self, me: Me, turn: Turn) -> list[NDArray[np.int64]]:
        return order_of(me, turn.round, fixed=self.protection(me.terms) == "encrypted")

    def _summed(self, terms: PublicTerms) -> bool:
        """Whether the label holder gets the sum of the others' scores and no single one."""
        return self.protection(terms) != "clear" and terms.parties >= 3

    def _say(self, terms: PublicTerms, scores: Array) -> Say:
        assert terms.label_holder is not None
        if self._summed(terms):
            return Say(add={"scores": scores}, to=terms.label_holder)
        return Say(mail={terms.label_holder: {"scores": scores}})

    def model(self, me: Me, state: Arrays, server: Arrays) -> Arrays | None:
        """A party's weights; the label holder's intercept too."""
        return {name: state[name] for name in ("weights", "bias") if name in state} or None

    def joined(self, terms: PublicTerms, parts: Sequence[Arrays], columns: Sequence[NDArray[np.int64]]) -> Arrays:
        """The model of all columns; the weights of a column that several parties have add up."""
        assert terms.label_holder is not None
        return joined_linear(parts, columns, terms.label_holder, self.protection(terms) != "clear")

    def learns(self, terms: PublicTerms) -> Mapping[str, str]:
        """What each role learns of the others, by what hides scores and residuals."""
        return learned(self.protection(terms), terms)


def check_penalty(name: str, field: str, value: float) -> None:
    """Refuse a penalty that would push weights apart."""
    if not 0 <= value < np.inf:
        raise UserError(f"{name}'s {field} must be >= 0, got {value:g}. Use 0.")


def _figures(state: Arrays) -> dict[str, float]:
    """The mean loss over the batches of a round, each before its step."""
    total, rows = state["loss"]
    return {"train_loss": float(total / rows)}


@algorithm("vertical", paper="Hardy et al. 2017; Zhu et al. 2021, arXiv:2106.06843, section 2.2")
class VerticalLinear(LinearColumns):
    """Linear models of split columns: logistic, softmax or least squares, as if one table had all columns.

    For a batch B, drawn alike by all, each holder k of columns X_k sends its scores z_k = X_k w_k; the label
    holder adds them to its own, sends back the residuals r = dloss/dz, and all step along their part of the
    gradient,

        w_k <- w_k - lr (X_k^T r / |B| + l2 w_k),

    which is the step of joint training on all columns: two trips a batch, as the next scores travel with nothing
    else. Two classes have one score (the log-odds), several have one each, whoever and however many the holders
    are: that is the setting of MMVFL (Feng & Yu 2020), several classes and more than two parties. There every
    party learns its own model and selects features; here all parties have parts of one softmax regression.
    With ``linear`` on numbers the target is standardised and the loss half the squared error, so l2 makes it ridge
    regression. The intercept is the label holder's, and no penalty falls on it.

    ``protect=clear``: float64; the label holder sees each party's scores, and everybody who gets residuals reads
    labels off their sign. ``masked`` (usual from three parties on): scores are whole numbers (grid 2^-44), and the
    label holder hears their sum alone; residuals are as in the clear. Training is exactly that of one table on the
    same grid. ``encrypted``: residuals too are read by nobody but the label holder. The others add them up in an
    encryption that adds (Okamoto-Uchiyama, or ``cipher=paillier``, keys of ``bits``), under random masks, and
    learn their own part of the gradient: two trips more a batch, and exactly the same model. That part tells
    labels where a batch has few people for so many columns: fewer than twenty a column are refused, and what more
    of them still tell is in the documentation. Everybody is in the same batch in all passes, as ever new batches
    would be ever new equations; a last one that is smaller is joined to the one before. From three parties on
    scores are summed as well; with two the label holder sees the other's scores on the grid.

    A column that several parties have gets a weight at each: they add up, take steps that add up as well, and
    with l2 the penalty on their sum is divided by the number of parties that have it.
    """

    l2: float = 0.0
    protect: Protect = "auto"
    bits: int = SAFE_BITS
    cipher: Cipher = "okamoto-uchiyama"
    least_predicted: int = FEWEST

    def __post_init__(self) -> None:
        self.check("vertical")
