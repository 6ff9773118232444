"""Quasi-Newton steps for linear models of split columns: few exchanges, each about all people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.contract import algorithm
from unalike.algorithms.protocol import NOTHING, Arrays, Inbox, Me, PublicTerms, Say, Turn, WrongMail, want
from unalike.algorithms.vertical.batches import outputs_of, round_half_up
from unalike.algorithms.vertical.descent import GREATEST_SCORE, columns_of, heard_residual, in_order, only, within
from unalike.algorithms.vertical.linear import LinearColumns, check_penalty
from unalike.algorithms.vertical.told import REASONS, learned
from unalike.errors import UserError
from unalike.vertical.arithmetic import Arithmetic
from unalike.vertical.curvature import best_step, combination
from unalike.vertical.objectives import loss_of

Floats = NDArray[np.float64]
_GREATEST: Final = 1e100


@algorithm("quasi-newton", paper="Yang et al. 2019, arXiv:1912.00513; Chen et al. 2014, vector-free L-BFGS")
class QuasiNewton(LinearColumns):
    """Linear models of split columns by L-BFGS: a tenth of the exchanges of gradient descent, or fewer.

    A step looks at all people. Every party keeps its own part of the last ``memory`` moves s and changes v of the
    gradient, and of the gradient g. The label holder adds the parties' inner products of them up, finds the
    direction d = -H g as a combination of them (the two-loop recursion on inner products alone), and tells the
    coefficients; the others answer with the scores X_k d_k of their parts. As the scores of all people along the
    line are then known to the label holder, it finds the best step by itself, and tells it with the new
    residuals. That is two exchanges a step; ``--steps`` says how many steps make a round, ``--epochs`` too.

    Departures: Yang et al. take stochastic steps with second derivatives of a sample; here gradients are of all
    people, so that the line search is exact, and there are no third parties and no encryption. Nothing is
    protected: as ``vertical(protect=clear)``, and the label holder also sees inner products of each holder's
    parts.
    """

    uses = frozenset({"epochs", "steps"})
    reasons: ClassVar[Mapping[str, str]] = {
        **REASONS,
        "lr": "the label holder finds the best step",
        "lr_decay": "the label holder finds the best step",
        "batch_size": "a step looks at all people",
    }

    memory: int = 10
    l2: float = 0.0

    def __post_init__(self) -> None:
        check_penalty("quasi-newton", "l2", self.l2)
        if not 1 <= self.memory <= 100:
            raise UserError(f"quasi-newton's memory must be from 1 to 100 moves, got {self.memory}. Use 10.")

    def protection(self, terms: PublicTerms) -> str:
        """None: scores and residuals go as they are."""
        return "clear"

    def start(self, me: Me) -> Arrays:
        """Weights of zero, no moves yet; the label holder has the intercept as its last weight, and all scores."""
        if me.data is None:
            return {}
        leads, outputs = me.number == me.terms.label_holder, outputs_of(me.terms)
        shape = (me.terms.columns[me.number] + leads, outputs)
        state: Arrays = {name: np.zeros(shape) for name in ("weights", "move", "gradient")}
        state |= {name: np.zeros((self.memory, *shape)) for name in ("moves", "changes")}
        state["count"] = np.zeros(1, np.int64)
        return state | ({"scores": np.zeros((len(me.rows.train), outputs))} if leads else {})

    def model(self, me: Me, state: Arrays, server: Arrays) -> Arrays | None:
        """A party's weights; the label holder's intercept apart."""
        if "weights" not in state:
            return None
        if me.number != me.terms.label_holder:
            return {"weights": state["weights"]}
        return {"weights": state["weights"][:-1], "bias": state["weights"][-1]}

    def learns(self, terms: PublicTerms) -> Mapping[str, str]:
        """As in the clear, and inner products."""
        told = dict(learned("clear", terms))
        if terms.parties > 1:
            told["label holder"] += "; inner products of each holder's gradients and moves of weights"
        return told

    # The label holder speaks in even turns, the others in odd ones.

    def _lead(self, me: Me, own: Arithmetic, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        steps, others = _steps(me.terms), [k for k in range(me.terms.parties) if k != me.number]
        if not others:
            for _ in range(steps):
                state = self._seen(me, own, state, self._residual(me, state))
                state = _along(state, self._combination(state, self._products(state)))
                state, _ = self._moved(me, own, state, {}, {})
            return state, Say(figures=self._figures(me, state))
        number, place = divmod(turn.number, 4)
        only(inbox, others if turn.number and place % 2 == 0 and number <= steps else ())
        if place == 2:
            size = 2 * self.memory + 1
            heard = {k: _finite(inbox, k, "products", (size, size)) for k in others}
            products = in_order({**heard, me.number: self._products(state)})
            told = self._combination(state, products)
            return _along(state, told), Say(mail={k: {"combination": told} for k in others})
        step = np.zeros(1)
        if number:
            people, outputs = len(me.rows.train), outputs_of(me.terms)
            scores = {
                k: within(want(inbox, k, "scores", "float64", (people, outputs)), GREATEST_SCORE, k, "scores")
                for k in others
            }
            sizes = {k: _finite(inbox, k, "sizes", (2,)) for k in others}
            state, step = self._moved(me, own, state, scores, sizes)
        if number == steps:
            return state, Say(mail={k: {"step": step} for k in others}, figures=self._figures(me, state))
        residual = self._residual(me, state)
        state = self._seen(me, own, state, residual)
        said = {"step": step, "residual": own.residual(residual)}
        return state, Say(mail=dict.fromkeys(others, said))

    def _follow(self, me: Me, own: Arithmetic, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        holder, (number, place) = me.terms.label_holder, divmod(turn.number, 4)
        assert holder is not None
        if turn.number == 0:
            return state, NOTHING
        only(inbox, [holder] if place % 2 and number <= _steps(me.terms) else ())
        if place == 3:
            told = _finite(inbox, holder, "combination", (2 * self.memory + 1,))
            state = _along(state, told)
            move = state["move"]
            scores = np.asarray(columns_of(me, own).values @ move)
            sizes = np.array([(state["weights"] * move).sum(), (move * move).sum()])
            return state, Say(mail={holder: {"scores": scores, "sizes": sizes}})
        step = float(_finite(inbox, holder, "step", (1,))[0])
        if number:
            state = _stepped(state, step)
        if number == _steps(me.terms):
            return state, NOTHING
        residual = heard_residual(me, own, inbox, len(me.rows.train))
        state = self._seen(me, own, state, residual)
        return state, Say(mail={holder: {"products": self._products(state)}})

    def _predict(self, me: Me, own: Arithmetic, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        found, said = super()._predict(me, own, self.model(me, state, {}) or {}, turn, inbox)
        return state | {name: array for name, array in found.items() if name == "margins"}, said

    # What happens in a step.

    def _residual(self, me: Me, state: Arrays) -> Floats:
        return loss_of(me.terms.classes, me.terms.target).residual(state["scores"], me.rows.y[me.rows.train])

    def _seen(self, me: Me, own: Arithmetic, state: Arrays, residual: Floats) -> Arrays:
        """What a party keeps when residuals are known: the new gradient, and the pair that it completes."""
        columns, leads = columns_of(me, own), me.number == me.terms.label_holder
        gradient = own.gradient(columns, residual)
        held = self.l2 * state["weights"]
        if leads:
            gradient = np.concatenate([gradient, own.pull(residual)[None]])
            held[-1] = 0.0
        gradient = gradient / len(residual) + held
        count, before = int(state["count"][0]), state["gradient"]
        state = state | {"gradient": gradient, "count": np.array([count + 1], np.int64)}
        if count:
            pair = {"moves": state["move"], "changes": gradient - before}
            state |= {name: np.concatenate([state[name][1:], last[None]]) for name, last in pair.items()}
        return state

    def _products(self, state: Arrays) -> Floats:
        vectors = np.concatenate([state["moves"], state["changes"], state["gradient"][None]])
        flat = vectors.reshape(len(vectors), -1)
        products: Floats = flat @ flat.T
        return products

    def _combination(self, state: Arrays, products: Floats) -> Floats:
        known = min(self.memory, int(state["count"][0]) - 1)
        found = combination(products, self.memory, known)
        if not np.abs(found).max() < _GREATEST:
            raise UserError(
                "The quasi-Newton direction is no number. Standardise columns, or use --algorithm vertical."
            )
        return found

    def _moved(
        self, me: Me, own: Arithmetic, state: Arrays, others: Mapping[int, Floats], sizes: Mapping[int, Floats]
    ) -> tuple[Arrays, Floats]:
        """The label holder after the best step along the direction, and that step."""
        move, weights, y = state["move"], state["weights"], me.rows.y[me.rows.train]
        mine = np.asarray(columns_of(me, own).values @ move[:-1]) + move[-1]
        along = in_order({**others, me.number: mine})
        inner = np.array([(weights[:-1] * move[:-1]).sum(), (move[:-1] * move[:-1]).sum()])
        inner = in_order({**sizes, me.number: inner})
        loss = loss_of(me.terms.classes, me.terms.target)

        def slope(step: float) -> float:
            pull = loss.residual(state["scores"] + step * along, y)
            return float((pull * along).sum() / len(y) + self.l2 * (inner[0] + step * inner[1]))

        step = best_step(slope)
        return _stepped(state, step) | {"scores": state["scores"] + step * along}, np.array([step])

    def _figures(self, me: Me, state: Arrays) -> dict[str, float]:
        loss = loss_of(me.terms.classes, me.terms.target)
        return {"train_loss": float(loss.row_losses(state["scores"], me.rows.y[me.rows.train]).mean())}


def _steps(terms: PublicTerms) -> int:
    """How many steps a round has."""
    pace = terms.pace
    return pace.steps if pace.steps is not None else max(1, round_half_up(pace.epochs))


def _along(state: Arrays, told: Floats) -> Arrays:
    """The direction as a party has its part of it, from the coefficients that all are told."""
    vectors = np.concatenate([state["moves"], state["changes"], state["gradient"][None]])
    return state | {"move": np.tensordot(told, vectors, axes=1)}


def _stepped(state: Arrays, step: float) -> Arrays:
    """Weights after so much of the direction, which becomes the move that was made."""
    move = step * state["move"]
    return state | {"weights": state["weights"] + move, "move": move}


def _finite(inbox: Inbox, sender: int, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Numbers that were received, none of them so large that arithmetic would fail."""
    found = want(inbox, sender, name, "float64", shape)
    if not np.abs(found).max() <= _GREATEST:
        raise WrongMail(sender, f"said {name!r} with entries that are no numbers, or are beyond {_GREATEST:g}.")
    return found
