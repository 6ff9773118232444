"""What the label holder and the other holders do with a batch, for linear models of split columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.protocol import SUM, Arrays, Inbox, Me, PublicTerms, WrongMail, want
from unalike.algorithms.vertical.batches import batches, learning_rate, outputs_of, round_half_up
from unalike.errors import UserError
from unalike.vertical.arithmetic import Arithmetic, OwnColumns, added_up
from unalike.vertical.grid import GREATEST, GREATEST_RESIDUAL, STEPS
from unalike.vertical.objectives import loss_of

Array = NDArray[Any]
Floats = NDArray[np.float64]
GREATEST_SCORE: Final = 2.0**40
"""Beyond, training has diverged: nobody sends such a score, and nobody takes one."""


@dataclass(frozen=True)
class LocalSteps:
    """Steps of gradient descent between two exchanges: how many, and what holds weights back."""

    steps: int
    l2: float
    proximal: float

    def down(self, weights: Floats, gradient: Floats, start: Floats, lr: float, l2: float) -> Floats:
        """Weights after one step; ``start`` is where they were at the last exchange."""
        pull = gradient
        if l2:
            pull = pull + l2 * weights
        if self.proximal:
            pull = pull + self.proximal * (weights - start)
        after: Floats = weights - lr * pull
        if not (np.vdot(after, after) < np.inf or np.isfinite(after).all()):
            raise UserError(f"Weights are no numbers any more: training diverges. Lower --lr, it is {lr:g}.")
        return after


def order_of(me: Me, round: int, fixed: bool = False) -> list[NDArray[np.int64]]:
    """The batches of a round, remembered until the next; ``fixed``: as :func:`fixed_batches` has them."""
    known = me.kept.get("order")
    if known is None or known[0] != round:
        known = me.kept["order"] = (round, _drawn(me.terms, len(me.rows.train), round, fixed))
    found: list[NDArray[np.int64]] = known[1]
    return found


@lru_cache(maxsize=4)
def _drawn(terms: PublicTerms, people: int, round: int, fixed: bool) -> list[NDArray[np.int64]]:
    """The batches of a round, drawn once for all roles that one process plays."""
    found = (fixed_batches if fixed else batches)(terms, people, round)
    for batch in found:
        batch.flags.writeable = False
    return found


def fixed_batches(terms: PublicTerms, people: int, round: int) -> list[NDArray[np.int64]]:
    """The batches of a round where everybody is in the same batch in all passes, and none is small.

    Sums over ever new batches of the same people would add up to as many equations as there are people. A last
    batch that is smaller is joined to the one before; a round goes on where the one before has ended.
    """
    pace = terms.pace
    drawn = batches(replace(terms, pace=replace(pace, steps=None, epochs=1.0)), people, 0)
    *whole, last = drawn
    if whole and len(last) < pace.batch_size:
        whole[-1] = np.concatenate([whole[-1], last])
    else:
        whole.append(last)
    count = pace.steps if pace.steps is not None else max(1, round_half_up(pace.epochs * len(whole)))
    return [whole[((round - 1) * count + number) % len(whole)] for number in range(count)]


def columns_of(me: Me, arithmetic: Arithmetic) -> OwnColumns:
    """A party's columns of the people to train on."""
    return me.remember("columns", lambda: arithmetic.columns(me.rows.x[me.rows.train]))


def batch_of(me: Me, arithmetic: Arithmetic, round: int, number: int) -> OwnColumns:
    """A party's columns of the people in a batch, remembered until the next."""
    known = me.kept.get("batch")
    if known is None or known[0] != (round, number):
        found = columns_of(me, arithmetic).of(order_of(me, round)[number])
        known = me.kept["batch"] = ((round, number), found)
    columns: OwnColumns = known[1]
    return columns


def lead(
    me: Me,
    arithmetic: Arithmetic,
    descent: LocalSteps,
    state: Arrays,
    turn: tuple[int, int],
    others: Mapping[int, Array],
) -> tuple[Arrays, Array]:
    """The label holder's steps on a batch (round, number), given other parties' scores by number.

    What it keeps then, and the residuals before the first of the steps, which the others need.
    """
    terms, (round, number) = me.terms, turn
    columns = batch_of(me, arithmetic, round, number)
    y = me.remember("labels", lambda: me.rows.y[me.rows.train])[order_of(me, round)[number]]
    loss, lr = loss_of(terms.classes, terms.target), learning_rate(terms, round)
    weights, bias, told = state["weights"], state["bias"], None
    for _ in range(descent.steps):
        own = checked(arithmetic, arithmetic.scores(columns, weights, terms.parties) + arithmetic.intercept(bias))
        scores = arithmetic.plain(in_order({**others, me.number: own}))
        residual = arithmetic.residual(loss.residual(scores, y))
        if told is None:
            told = residual
            lost = np.array([loss.row_losses(scores, y).sum(), len(y)])
        gradient = arithmetic.gradient(columns, residual) / len(y)
        pull = arithmetic.pull(residual) / len(y)
        weights = descent.down(weights, gradient, state["weights"], lr, descent.l2)
        bias = descent.down(bias, pull, state["bias"], lr, 0.0)
    assert told is not None
    so_far = state["loss"] if number else np.zeros(2)
    return {"weights": weights, "bias": bias, "loss": so_far + lost}, told


def follow(me: Me, descent: LocalSteps, state: Arrays, gradient: Floats, people: int, round: int) -> Arrays:
    """Another holder's steps on a batch, along the gradient that was so at the exchange."""
    weights, lr = state["weights"], learning_rate(me.terms, round)
    mean = gradient / people
    for _ in range(descent.steps):
        weights = descent.down(weights, mean, state["weights"], lr, descent.l2)
    return {"weights": weights}


def checked(arithmetic: Arithmetic, scores: Array) -> Array:
    """A party's own scores, if they are such as others take."""
    if arithmetic.sent == "float64" and not is_within(scores, GREATEST_SCORE):
        raise UserError(f"A score is {np.abs(scores).max():.3g}: training diverges. Lower --lr.")
    return scores


def in_order(parts: Mapping[int, Array]) -> Array:
    """Scores added in the order of parties; a sum of several comes first."""
    return added_up([parts[number] for number in sorted(parts)])


def heard_scores(me: Me, arithmetic: Arithmetic, inbox: Inbox, people: int, summed: bool) -> dict[int, Array]:
    """The other parties' scores of so many people: each party's, or their sum alone."""
    senders = [SUM] if summed else [number for number in range(me.terms.parties) if number != me.number]
    only(inbox, senders)
    shape = (people, outputs_of(me.terms))
    most = GREATEST if arithmetic.sent == "int64" else GREATEST_SCORE
    return {k: within(want(inbox, k, "scores", arithmetic.sent, shape), most, k, "scores") for k in senders}


def heard_residual(me: Me, arithmetic: Arithmetic, inbox: Inbox, people: int) -> Array:
    """What the label holder says of the people in a batch."""
    holder = me.terms.label_holder
    assert holder is not None
    only(inbox, [holder])
    found = want(inbox, holder, "residual", arithmetic.sent, (people, outputs_of(me.terms)))
    most = int(GREATEST_RESIDUAL) << (STEPS if arithmetic.sent == "int64" else 0)
    return within(found, most, holder, "residual")


def is_within(found: Array, most: float) -> bool:
    """Whether all entries are numbers, and none is beyond ``most`` either way."""
    if found.dtype.kind == "f" and float(np.vdot(found, found)) <= most:  # most is 1 or more: the usual case
        return True
    return not found.size or bool(found.max() <= most and found.min() >= -most)


def within(found: Array, most: float, sender: int, name: str) -> Array:
    """What was received, all numbers and none of them too large; else it is the sender's fault."""
    if not is_within(found, most):
        raise WrongMail(sender, f"said {name!r} with entries that are no numbers, or beyond {most:.3g}.")
    return found


def only(inbox: Inbox, senders: Iterable[int]) -> None:
    """Refuse mail of anybody else."""
    unasked = sorted(set(inbox) - set(senders))
    if unasked:
        raise WrongMail(unasked[0], "speaks out of turn. Ask again.")
