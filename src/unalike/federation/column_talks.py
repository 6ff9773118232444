"""A run by a protocol between real sites with other columns of the same people, as the server sees it.

It carries boxes and masked words, counts rounds, and gets figures from the site that has the labels. It has no
model: every site keeps its part.
"""

from __future__ import annotations

import math
import secrets
from typing import Any

from unalike.algorithms.contract import Vectors
from unalike.algorithms.protocol import Arrays
from unalike.errors import UserError
from unalike.federation.column_predict import PREDICT, PREDICTED, fewest_of, job_session
from unalike.federation.column_site import columns_digest
from unalike.federation.column_work import column_server, columns_told, tried_session
from unalike.federation.columns_agreed import ColumnsAgreed
from unalike.federation.conversing import LostPlace
from unalike.federation.envelope import Envelope, Refused, shown
from unalike.federation.figures import checked_tallies, together, told_scores
from unalike.federation.pairing import OCCASION
from unalike.federation.plan import Plan
from unalike.federation.speaker import Speaker
from unalike.federation.talked_run import TalkedRun, arrays_in
from unalike.federation.turns import AGAIN, FIGURES
from unalike.own_code import explained
from unalike.scores import Figures

WORTH = ("alone", "gain")
"""Figures that the label holder tells at the end: what it could do alone, and what the others add."""


class RemoteColumns(TalkedRun):
    """A protocol's run between sites that have other columns of the same people."""

    def __init__(self, plan: Plan, agreed: ColumnsAgreed, speaker: Speaker) -> None:
        self._first = columns_told(plan, agreed)
        super().__init__(plan, speaker, column_server(plan, agreed), agreed.digest, self._first)
        self.agreed = agreed

    def model_digest(self, number: int) -> str:
        """What a site makes of the plan, if it has the same parts."""
        return columns_digest(self.plan, self.agreed)

    def _evaluated(self, server: Arrays, number: int, *, last: bool) -> Figures:
        """The figures that the label holder finds of people of the run, whom all sites predict together."""
        few, scores = (told_scores(self.score, use, last=last) for use in ("validation", "test"))
        figures: Figures = {"score": self.score.name, **together({}, "test", scores)}
        figures |= {f"validation_{key}": None for key in together({}, "validation", few)}
        if self.plan.figures == "none":
            return figures
        told = self._talk.until_whole(
            lambda: self._tried(server, number, last=last), f"the trial of round {number}"
        )
        name = self.plan.parties[self.agreed.label_holder]
        try:
            tallies = {name: checked_tallies(told, self.score, self.agreed.classes, last=last)}
            worth = _worth(told.header.get(FIGURES), last=last)
        except Refused as error:
            self.speaker.say(f"{name}'s figures are not used: {error}.")
            return figures
        figures |= together(tallies, "test", scores)
        figures |= {f"validation_{key}": value for key, value in together(tallies, "validation", few).items()}
        figures[f"held_out_{self.score.key}"] = together(tallies, "held_out", [self.score])[self.score.key]
        return figures | worth

    def _tried(self, server: Arrays, number: int, *, last: bool) -> Envelope:
        """What the label holder tells of a model, after the sites have tried it together."""
        talk = self._talk
        talk.predict(server, self._after, number, tried_session(self._first), talk.keys)
        about = {"kind": "evaluate", "schema": self.agreed.digest, "round": number, "last": last}
        name = self.plan.parties[self.agreed.label_holder]
        answers = talk.asking.collect({name: (about, b"")}, lambda who, answer: answer, 1)
        if answers[name].header.get(AGAIN) is True:
            raise LostPlace([name])
        return answers[name]

    def predict(self) -> int:
        """Have the sites predict the new people of the tables that they offer; how many there are."""
        if not self.state.round:
            raise UserError("There is no trained model yet. Run the training first: unalike federation run DIR.")
        job = secrets.token_hex(16)
        about: dict[str, Any] = {"schema": self.agreed.digest, "round": self.state.round, OCCASION: job}
        names = self.plan.parties
        asked = {name: ({**about, "kind": PREDICT}, b"") for name in names}
        offers = self._talk.asking.collect(asked, _offered, len(names))
        for name in names:
            if offers[name] != offers[names[0]]:
                raise UserError(
                    f"{name} offers a table of other people than {names[0]} ({offers[name][0]:,} and "
                    f"{offers[names[0]][0]:,}). Let all offer the same people, in any order."
                )
        people, ids = offers[names[0]]
        if people < (least := fewest_of(self.plan)):
            raise UserError(f"The tables have {people} people, and {least} are predicted together at least.")
        session = job_session(self._first, job, ids)
        server, keys = arrays_in(self.state.server), dict[str, str]()

        def once() -> None:
            self._talk.predict(server, self._after, self.state.round, session, keys, job)
            holder = names[self.agreed.label_holder]
            # The label holder last of all: while its answer is not there, the others can play it again.
            ended = {name: ({**about, "kind": PREDICTED}, b"") for name in names}
            lost = self._talk.asking.collect(
                {holder: ended.pop(holder)}, lambda who, answer: answer.header.get(AGAIN) is True, 1
            )
            if lost[holder]:
                raise LostPlace([holder])
            self._talk.asking.everybody(ended)

        with explained(self.protocol):
            self._talk.until_whole(once, "the prediction")
        return people

    def finish(self) -> list[str]:
        """Have every site keep its part of the model; those that were not reached."""
        header = {"kind": "finish", "schema": self.agreed.digest, "round": self.state.round, "last": True}
        messages = dict.fromkeys(self.plan.parties, (header, b""))
        reached = {party for party, _ in self.speaker.ask(messages, self.plan.deadline)}
        return [party for party in self.plan.parties if party not in reached]

    def final(self) -> tuple[Vectors, bool]:
        """What the server keeps of the last round, which is no model."""
        return dict(self.state.server), False

    def about_model(self) -> dict[str, Any]:
        """Nothing: no side has the whole model."""
        return {}


def _offered(name: str, answer: Envelope) -> tuple[int, str]:
    """How many people a site's new table has, and the hash of their ids."""
    people, ids = answer.header.get("people"), answer.header.get("ids")
    if type(people) is not int or not 0 < people < 2**31 or not isinstance(ids, str) or len(ids) != 64:
        raise Refused(f"it does not say how many people its new table has: {shown(people, 20)}")
    return people, ids


def _worth(told: Any, *, last: bool) -> Figures:
    """What the label holder tells of its own columns' worth, at the end; finite numbers."""
    if not last or not told:
        return {}
    if not isinstance(told, dict) or not all(
        name in WORTH and type(value) is float and math.isfinite(value) for name, value in told.items()
    ):
        raise Refused("what it tells of its own columns is no finite number")
    return dict(told)
