"""A net split between parties: each has a body for its own columns, the label holder also the head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.contract import algorithm
from unalike.algorithms.protocol import NOTHING, SERVER, Arrays, Inbox, Me, PublicTerms, Say, Turn
from unalike.algorithms.vertical.batches import learning_rate, outputs_of
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
    from unalike.vertical.block_net import Blocks
    from unalike.vertical.block_training import HeadTraining, SgdStep, TrainedPart

Array = NDArray[Any]


@algorithm("split-net", paper="Chen et al. 2020, VAFL (arXiv:2007.06081), without its asynchronous rounds")
class SplitNet(ColumnNets):
    """A net of blocks: holders send what their bodies make of a batch, and get its derivatives back.

    The score of a person is head(merge(body_1(x_1), ..., body_n(x_n))). A body has the hidden layers of
    ``--model mlp(32,16)`` for a party's own columns; ``merge`` puts what they make side by side ("concat") or adds
    it up ("sum"); ``top`` are the widths of the head's own hidden layers: without any, no two parties' columns
    interact. For each batch every holder mails its embedding, the label holder steps its own body and the head,
    and mails each holder the derivatives by its embedding: two trips. Training by it has the bits of training the
    joint net of blocks by plain SGD, in single precision.

    ``clip`` shortens what a body makes of a row to this length, in training and after it. ``noise`` is the
    perturbed embedding of the paper: what a holder sends in training has Gaussian noise of so many times ``clip``
    added. ``gradient_noise`` is for the labels, which derivatives show: Gaussian noise whose length is about so
    many times the longest derivative of the batch is added to what a holder gets.

    Departures. It is what is sent that is clipped and perturbed; the paper, which was not at hand in full, has its
    own way to. Its parties send and step whenever they like; here a batch has all parties, so that the outcome
    depends on nobody's speed: asynchronous rounds are not built. What a holder sends of people to predict has no
    noise: the bits are those of the joined model.
    """

    predictor: ClassVar[str] = "unalike.vertical.block_net:BlockNet"

    merge: Literal["concat", "sum"] = "concat"
    top: tuple[int, ...] = ()
    momentum: float = 0.0
    clip: float = 0.0
    noise: float = 0.0
    gradient_noise: float = 0.0

    def __post_init__(self) -> None:
        if len(self.top) and min(self.top) < 1:
            raise UserError(f"split-net: the widths of top must be 1 or more, got {self.top}. Write top=(16,).")
        if not 0 <= self.momentum < 1:
            raise UserError(f"split-net: momentum must be from 0 to below 1, got {self.momentum:g}. Use 0.9.")
        for name in ("clip", "noise", "gradient_noise"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UserError(
                    f"split-net: {name} must be 0 or more, got {getattr(self, name):g}. Use 0 for none."
                )
        if self.noise and not self.clip:
            raise UserError(
                f"split-net: noise={self.noise:g} is counted in greatest lengths of a row. Say one with clip=1."
            )

    # What roles keep.

    def start(self, me: Me) -> Arrays:
        """A party has a body, the label holder the head too: random weights of its own making."""
        check_mlp(me.terms.model, "split-net")
        if me.number == SERVER:
            return {}
        check_common(me, "split-net")
        blocks, terms = self._blocks(me.terms), me.terms
        parts = {"body": blocks.body(terms.columns[me.number], own_random(me, "body"))}
        if me.number == terms.label_holder:
            parts["head"] = blocks.head(terms.parties, outputs_of(terms), own_random(me, "head"))
        state: Arrays = {name: part.weights for name, part in parts.items()}
        if self.momentum:
            state |= {f"{name}_velocity": np.zeros_like(weights) for name, weights in state.items()}
        return state | ({"loss": np.zeros(1)} if me.number == terms.label_holder else {})

    # A holder of columns.

    def follow(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox, found: Batches) -> tuple[Arrays, Say]:
        """Step along the derivatives that came back, then send what the body makes of the next batch."""
        leader, body, number = label_holder_of(me.terms), self._body(me), turn.number // 2
        if turn.number:
            batch = found[batch_told(turn, leader, len(found), number - 1)]
            gradient = heard_rows(inbox, leader, "gradient", "float32", (len(batch), self._blocks(me.terms).width))
            weights, velocity = body.back(
                state["body"],
                (turn.round, number - 1),
                batch,
                gradient,
                self._descent(me, turn),
                state.get("body_velocity"),
            )
            state = state | _kept("body", weights, velocity)
        if number == len(found):
            return state, NOTHING
        made = body.made(state["body"], (turn.round, number), found[number]).detach().numpy()
        sent = self._perturbed(
            me, said_rows(me, made, turn, "what its body makes of its rows"), turn.round, number
        )
        return state, Say(mail={leader: {"embedding": sent}})

    def _perturbed(self, me: Me, made: Array, round: int, number: int) -> Array:
        """What a holder sends in place of what its body made."""
        if not self.noise:
            return made
        drawn = own_random(me, "embeddings", round, number).standard_normal(made.shape)
        return (made + self.noise * self.clip * drawn).astype(np.float32)

    # The label holder.

    def lead(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox, found: Batches) -> tuple[Arrays, Say]:
        """Hear what all bodies make of a batch, step, and tell each holder the derivatives."""
        if me.terms.parties == 1:
            for number, batch in enumerate(found):
                state, _ = self._stepped(me, state, turn, (turn.round, number), batch, {})
            return self._told_loss(me, state, turn, len(found))
        if not turn.number:
            return state, NOTHING
        number = batch_told(turn, min(inbox), len(found), turn.number // 2)
        batch, width = found[number], self._blocks(me.terms).width
        others = {
            party: heard_rows(inbox, party, "embedding", "float32", (len(batch), width))
            for party in range(me.terms.parties)
            if party != me.number
        }
        state, gradients = self._stepped(me, state, turn, (turn.round, number), batch, others)
        mail = {party: {"gradient": self._hidden(me, each, turn, number)} for party, each in gradients.items()}
        if number + 1 < len(found):
            return state, Say(mail=mail)
        state, told = self._told_loss(me, state, turn, len(found))
        return state, Say(mail=mail, figures=told.figures)

    def _stepped(
        self,
        me: Me,
        state: Arrays,
        turn: Turn,
        place: tuple[int, int],
        batch: Array,
        others: Mapping[int, Array],
    ) -> tuple[Arrays, dict[int, Array]]:
        """The state after a step of the own body and the head, and the others' derivatives."""
        training, descent = self._head(me), self._descent(me, turn)
        loss, gradients = training.back(state, me.number, place, batch, others)
        for gradient in gradients.values():
            said_rows(me, gradient, turn, "the derivative of the loss")
        said_rows(me, np.array([loss]), turn, "the loss")
        before = state["loss"] if place[1] else np.zeros(1)
        state = state | {"loss": before + loss}
        for name, part in (("body", training.body), ("head", training.head)):
            state |= _kept(name, *part.stepped(descent, state.get(f"{name}_velocity")))
        return state, gradients

    def _hidden(self, me: Me, gradient: Array, turn: Turn, number: int) -> Array:
        """The derivatives that a holder is told: as they are, or under noise."""
        if not self.gradient_noise:
            return gradient
        longest = float(np.linalg.norm(gradient.astype(np.float64), axis=1).max())
        drawn = own_random(me, "gradients", turn.round, number).standard_normal(gradient.shape)
        scale = self.gradient_noise * longest / np.sqrt(gradient.shape[1])
        told: Array = (gradient + scale * drawn).astype(np.float32)
        return told

    def _told_loss(self, me: Me, state: Arrays, turn: Turn, count: int) -> tuple[Arrays, Say]:
        mean = state["loss"] / count
        return state | {"loss": mean}, Say(figures={"train_loss": float(mean[0])})

    # Predictions, and the joined model.

    def predict(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """A holder sends what its body makes of its rows; the label holder keeps the margins of all."""
        terms, blocks = me.terms, self._blocks(me.terms)
        rows = net_rows(me, me.rows.train, "float32")
        body = blocks.body(rows.shape[1])
        body.use(state["body"])
        made = said_rows(me, blocks.embedded(body, rows), turn, "what its body makes of its rows")
        if me.number != terms.label_holder:
            return state, Say(mail={label_holder_of(me.terms): {"embedding": made}})
        embeddings = [
            made if party == me.number else heard_rows(inbox, party, "embedding", "float32", made.shape)
            for party in range(terms.parties)
        ]
        head = blocks.head(terms.parties, outputs_of(terms))
        head.use(state["head"])
        return state | {"margins": blocks.margins(head, embeddings)}, NOTHING

    def model(self, me: Me, state: Arrays, server: Arrays) -> Arrays | None:
        """A party's body; the label holder has the head too."""
        return {name: state[name] for name in ("body", "head") if name in state} or None

    def joined(self, terms: PublicTerms, parts: Sequence[Arrays], columns: Sequence[NDArray[np.int64]]) -> Arrays:
        """The net of blocks of somebody who has all columns."""
        return {
            "bodies": np.concatenate([part["body"] for part in parts]),
            "head": parts[label_holder_of(terms)]["head"],
            "columns": np.concatenate(columns).astype(np.int64),
            "counts": np.array([len(own) for own in columns], np.int64),
            "merge": np.array([["concat", "sum"].index(self.merge)], np.int64),
            "top": np.array(self.top, np.int64),
            "clip": np.array([self.clip]),
        }

    def learns(self, terms: PublicTerms) -> Mapping[str, str]:
        """What each role sees of the others: embeddings one way, derivatives the other."""
        width = self._width(terms)
        noise = f", with noise of {self.noise:g} times its greatest length in training" if self.noise else ""
        hidden = f", under noise of {self.gradient_noise:g} times the longest" if self.gradient_noise else ""
        return {
            "label holder": f"{width} numbers that each holder's net makes of a person's columns, for every "
            f"person and every pass{noise}; for predicted people without noise. Columns may be reconstructed",
            "other holders": "the derivatives of the loss by those numbers, for every person in "
            f"training{hidden}: labels can be read from their lengths and directions",
            "server": "nothing, where mail passes it in boxes",
        }

    # Parts.

    def _width(self, terms: PublicTerms) -> int:
        return int(terms.model.hidden[-1])

    def _blocks(self, terms: PublicTerms) -> Blocks:
        from unalike.vertical.block_net import Blocks

        return Blocks(terms.model, self.merge, self.top, self.clip)

    def _descent(self, me: Me, turn: Turn) -> SgdStep:
        from unalike.vertical.block_training import SgdStep

        return SgdStep(learning_rate(me.terms, turn.round), self.momentum)

    def _body(self, me: Me) -> TrainedPart:
        from unalike.vertical.block_training import trained_body

        return me.remember(
            "split-net body", lambda: trained_body(self._blocks(me.terms), net_rows(me, me.rows.train, "float32"))
        )

    def _head(self, me: Me) -> HeadTraining:
        from unalike.vertical.block_training import head_training

        terms = me.terms

        def make() -> HeadTraining:
            y = me.rows.y[me.rows.train]
            return head_training(
                self._blocks(terms), self._body(me), terms.parties, y, terms.classes, terms.target
            )

        return me.remember("split-net head", make)


def _kept(name: str, weights: Array, velocity: Array | None) -> Arrays:
    return {name: weights} if velocity is None else {name: weights, f"{name}_velocity": velocity}
