"""Federated transfer learning: one party's labels for another party's people, of whom few are common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.contract import algorithm
from unalike.algorithms.protocol import NOTHING, SERVER, Arrays, Inbox, Me, PublicTerms, Say, Turn
from unalike.algorithms.vertical.batches import learning_rate
from unalike.algorithms.vertical.net_rows import (
    batch_told,
    check_common,
    check_mlp,
    heard_rows,
    net_rows,
    own_random,
    said_rows,
)
from unalike.algorithms.vertical.nets import Batches, ColumnNets, label_holder_of
from unalike.errors import UserError

if TYPE_CHECKING:  # torch is loaded when a net is made
    from unalike.vertical.block_training import SgdStep, TrainedPart
    from unalike.vertical.transfer import LabelSide, TransferObjective

Array = NDArray[Any]
_WHOLE = "what its net makes of its rows"


@algorithm("ftl", paper="Liu et al. 2020, A Secure Federated Transfer Learning Framework (arXiv:1812.03337)")
class TransferLearning(ColumnNets):
    """Federated transfer learning of two parties: A has labels, B's people are predicted by B's columns.

    Both have a net (the hidden layers of ``--model``, then ``width`` numbers from -1 to 1): u^A and u^B. All rows
    of A, those of people unknown to B too, make the translator F = mean_i y_i u^A_i, y = -1 or 1; the score of B's
    row j is F u^B_j. On the rows that both know, both nets lower

        mean log(1 + exp(-y_i F u^B_i)) + alignment * mean |u^A_i - u^B_i|^2 + l2 / 2 * |all weights|^2

    With ``loss="taylor"``, as in the paper, log(1 + exp(-y f)) is log 2 - y f / 2 + f^2 / 8. Then the derivatives
    are polynomials, and both say at once what the other needs, one trip a batch: A the components F'F / 8,
    -y_i F / 2 and alignment * kappa * u^A_i (kappa = -2), B its u^B_i, of which its components are made. With
    ``loss="logistic"`` A answers each u^B with its derivatives: two trips. ``distance="product"`` is -u^A u^B
    (kappa = -1).

    A's rows of people unknown to B are ``Own.apart``; A's labels are of all its rows. Several classes are each one
    against the rest, with a line of F each. To predict, B sends u^B of its rows and A answers: A's columns are not
    read, so the joined model needs B's alone. Without a partner A's own u^A is scored in place of u^B.

    Departures: ``translator="balanced"`` is half the mean of u^A of a class less half the mean of the rest,
    without which rare classes train to nothing ("mean" is the paper's). Means instead of sums over rows, so that
    the step size does not depend on their number; batches of common rows instead of all at once (the translator
    always has all rows of A). Nothing is encrypted: what the paper sends as ciphertexts is sent in the clear,
    where -y_i F / 2 shows the labels of common people. It takes greater steps than other nets: begin with --lr 1.
    """

    predictor: ClassVar[str] = "unalike.vertical.transfer:TransferredNet"
    most_parties: ClassVar[int | None] = 2

    width: int = 16
    alignment: float = 0.01
    l2: float = 0.0
    loss: Literal["taylor", "logistic"] = "taylor"
    distance: Literal["square", "product"] = "square"
    translator: Literal["balanced", "mean"] = "balanced"

    def __post_init__(self) -> None:
        if self.width < 1:
            raise UserError(f"ftl: width must be 1 or more, got {self.width}. Use 16.")
        for name in ("alignment", "l2"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UserError(f"ftl: {name} must be 0 or more, got {getattr(self, name):g}. Use 0 for none.")

    def start(self, me: Me) -> Arrays:
        """Each party has a net with random weights of its own making; the label holder the translator too."""
        terms = me.terms
        check_mlp(terms.model, "ftl")
        _check_terms(terms)
        if me.number == SERVER:
            return {}
        check_common(me, "ftl")
        from unalike.vertical.transfer import representation

        net = representation(terms.model, terms.columns[me.number], self.width, own_random(me, "net"))
        state = {"weights": net.weights}
        if me.number != terms.label_holder:
            return state
        return self._with_translator(me, state) | {"loss": np.zeros(1)}

    # The label holder.

    def lead(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox, found: Batches) -> tuple[Arrays, Say]:
        """Step by what the partner said of a batch; tell it its derivatives, or the next batch's components."""
        if me.terms.parties == 1:
            for number, batch in enumerate(found):
                state, _ = self._stepped(me, state, turn, number, batch, None)
            return self._finished(me, state, len(found))
        other, mail = 1 - me.number, dict[str, Array]()
        if turn.number:
            number = turn.number - 1 if self.loss == "taylor" else turn.number // 2
            batch = found[batch_told(turn, other, len(found), number)]
            theirs = heard_rows(inbox, other, "made", "float64", (len(batch), self.width))
            state, gradient = self._stepped(me, state, turn, number, batch, theirs)
            mail = {"gradient": gradient}
        if self.loss == "taylor":
            mail, number = {}, turn.number
            if number < len(found):
                mail = self._side(me).components(state["weights"], (turn.round, number), found[number])
        elif not turn.number:
            return state, NOTHING
        say = Say(mail={other: mail} if mail else {})
        if not turn.number or number < len(found) - (self.loss == "logistic"):
            return state, say
        state, told = self._finished(me, state, len(found))
        return state, Say(mail=say.mail, figures=told.figures)

    def _stepped(
        self, me: Me, state: Arrays, turn: Turn, number: int, batch: Array, theirs: Array | None
    ) -> tuple[Arrays, Array]:
        """The state after a step on a batch, and the derivatives by what the partner said of it."""
        weights, loss, gradient = self._side(me).back(
            state["weights"], (turn.round, number), batch, theirs, self._descent(me, turn)
        )
        said_rows(me, np.append(weights, loss), turn, "its net")
        before = state["loss"] if number else np.zeros(1)
        return state | {"weights": weights, "loss": before + loss}, gradient

    def _finished(self, me: Me, state: Arrays, count: int) -> tuple[Arrays, Say]:
        """The state at a round's end: with the translator of its last weights."""
        mean = state["loss"] / count
        return self._with_translator(me, state) | {"loss": mean}, Say(figures={"train_loss": float(mean[0])})

    def _with_translator(self, me: Me, state: Arrays) -> Arrays:
        return state | {"translator": self._side(me).translator(state["weights"])}

    # The partner.

    def follow(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox, found: Batches) -> tuple[Arrays, Say]:
        """Step by what the label holder said of a batch, then say what the net makes of the next one."""
        other, side = 1 - me.number, self._net(me)
        number = turn.number if self.loss == "taylor" else turn.number // 2
        if turn.number:
            batch = found[batch_told(turn, other, len(found), number - 1)]
            place = turn.round, number - 1
            gradient = self._heard(state, side, place, batch, inbox, other)
            weights, _ = side.back(state["weights"], place, batch, gradient, self._descent(me, turn), None)
            state = state | {"weights": weights}
        if number == len(found):
            return state, NOTHING
        made = side.made(state["weights"], (turn.round, number), found[number]).detach().numpy()
        return state, Say(mail={other: {"made": said_rows(me, made, turn, _WHOLE)}})

    def _heard(
        self, state: Arrays, side: TrainedPart, place: tuple[int, int], batch: Array, inbox: Inbox, other: int
    ) -> Array:
        """The derivatives by what this party said of a batch, as told or by the components that were told."""
        shapes: dict[str, tuple[int, ...]] = {"gradient": (len(batch), self.width)}
        if self.loss == "taylor":
            shapes = {name: (len(batch), self.width) for name in ("linear", "aligned")}
            shapes["square"] = (self.width, self.width)
        told = {name: heard_rows(inbox, other, name, "float64", shape) for name, shape in shapes.items()}
        if self.loss == "logistic":
            return told["gradient"]
        made = side.made(state["weights"], place, batch).detach().numpy()
        return self._objective().by_components(made, told)

    # Predictions, and the joined model.

    def predict(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """The partner sends what its net makes of its rows; the label holder keeps their margins."""
        from unalike.vertical.transfer import representation, translated

        terms = me.terms
        if turn.number == 0:
            rows = net_rows(me, me.rows.train, "float64")
            net = representation(terms.model, rows.shape[1], self.width)
            net.use(state["weights"])
            made = said_rows(me, net.in_blocks(rows), turn, _WHOLE)
            if me.number != terms.label_holder:
                return state, Say(mail={1 - me.number: {"made": made}})
        else:
            made = heard_rows(inbox, 1 - me.number, "made", "float64", (len(me.rows.train), self.width))
        return state | {"margins": translated(made, state["translator"])}, NOTHING

    def model(self, me: Me, state: Arrays, server: Arrays) -> Arrays | None:
        """A party's net; the label holder has the translator too."""
        return {name: state[name] for name in ("weights", "translator") if name in state} or None

    def joined(self, terms: PublicTerms, parts: Sequence[Arrays], columns: Sequence[NDArray[np.int64]]) -> Arrays:
        """The net that predicts, which reads the partner's columns alone, and the translator."""
        leader = _check_terms(terms)
        who = 1 - leader if terms.parties == 2 else leader
        return {
            "weights": parts[who]["weights"],
            "translator": parts[leader]["translator"].reshape(-1),
            "columns": np.asarray(columns[who], np.int64),
        }

    def learns(self, terms: PublicTerms) -> Mapping[str, str]:
        """What each role sees of the other: representations one way, labels and components the other."""
        shown = {
            "taylor": "how the label holder's net sees each common person and, in the mean, each class; by them "
            "the labels of all common people",
            "logistic": "the derivatives of the loss by those numbers for each common person: labels can be read "
            "from them",
        }
        return {
            "label holder": f"{self.width} numbers that the other's net makes of a person's columns, for every "
            "common person and every pass, and for those who are predicted. Columns may be reconstructed",
            "other holders": shown[self.loss],
            "server": "nothing, where mail passes it in boxes",
        }

    # Parts.

    def _objective(self) -> TransferObjective:
        from unalike.vertical.transfer import TransferObjective

        return TransferObjective(
            self.alignment, self.loss == "taylor", self.distance == "product", self.translator == "balanced"
        )

    def _descent(self, me: Me, turn: Turn) -> SgdStep:
        from unalike.vertical.block_training import SgdStep

        return SgdStep(learning_rate(me.terms, turn.round), l2=self.l2)

    def _side(self, me: Me) -> LabelSide:
        from unalike.vertical.transfer import label_side

        def make() -> LabelSide:
            places = np.concatenate([me.rows.train, me.rows.apart])
            rows, terms = net_rows(me, places, "float64"), me.terms
            return label_side(self._objective(), terms.model, self.width, rows, me.rows.y[places], terms.classes)

        return me.remember("ftl labels", make)

    def _net(self, me: Me) -> TrainedPart:
        from unalike.vertical.transfer import partner_side

        return me.remember(
            "ftl partner",
            lambda: partner_side(me.terms.model, self.width, net_rows(me, me.rows.train, "float64")),
        )


def _check_terms(terms: PublicTerms) -> int:
    """The number of the party that has the labels; refuses more than two parties, and numbers to predict."""
    if terms.parties > 2:
        raise UserError(
            f'ftl is between two parties, got {terms.parties}. Use --partition "vertical(2)", or split-net.'
        )
    if not terms.classes:
        raise UserError("ftl predicts classes, and the target is a number. Use --algorithm split-net.")
    return label_holder_of(terms)
