"""A run by a protocol whose parties are real sites: rounds as in simulation, figures that are counted there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unalike.algorithms.contract import Vectors
from unalike.algorithms.protocol import Arrays
from unalike.data.schema import Schema
from unalike.federation.envelope import Envelope
from unalike.federation.growth import arrays_digest, changes
from unalike.federation.mail import pack_mail
from unalike.federation.plan import Plan
from unalike.federation.roles import first_told, grown, terms_digest, the_server
from unalike.federation.speaker import Outgoing, Speaker
from unalike.federation.talked_run import TalkedRun, arrays_in, tensors_of
from unalike.federation.told import site_figures
from unalike.federation.tried import PLACES, SINCE
from unalike.federation.turns import AGAIN
from unalike.scores import Figures


class RemoteTalk(TalkedRun):
    """A protocol's run between sites that have other rows of the same columns."""

    def __init__(self, plan: Plan, schema: Schema, speaker: Speaker) -> None:
        super().__init__(plan, speaker, the_server(plan, schema), schema.digest, first_told(plan, schema))
        self.schema = schema
        self._known: tuple[Arrays | None, set[str]] = (None, set())
        """the model that was tried last, and the sites that have it"""

    def model_digest(self, number: int) -> str:
        """What a site makes of the plan, if it has the same parts."""
        return terms_digest(self.plan, self.schema)

    def _evaluated(self, server: Arrays, number: int, *, last: bool) -> Figures:
        shared = self.protocol.model(self.me, server, server)
        return site_figures(
            self.speaker,
            lambda: self._asked_to_try(shared, number, last=last),
            self.score,
            self.me.terms.classes,
            last=last,
            shared=shared is not None,
            own=shared is None,
        )

    def _asked_to_try(self, shared: Arrays | None, number: int, *, last: bool) -> Iterator[tuple[str, Envelope]]:
        """What sites say of a model: those that have tried the one before are told only what is new of it."""
        seconds, known, self._known = self.plan.deadline, self._known, (shared, set[str]())
        whole = self._about(shared, number, "evaluate", last=last)
        short = {}
        if shared is not None and known[0] is not None:
            found, places = changes(known[0], shared)
            news = {SINCE: arrays_digest(known[0]), PLACES: places}
            short = {
                party: ({**header, **news}, body)
                for party, (header, body) in self._about(found, number, "evaluate", last=last).items()
                if party in known[1]
            }
        left = dict(whole)
        for messages in (short, left):
            for party, answer in self.speaker.ask(messages, seconds) if messages else ():
                if answer.header.get(AGAIN) is not True:
                    left.pop(party)
                    self._known[1].add(party)
                    yield party, answer

    def finish(self) -> list[str]:
        """Give every site the final model; those that were not reached."""
        server = arrays_in(self.state.server)
        shared = self.protocol.model(self.me, server, server)
        messages = self._about(shared, self.state.round, "finish", last=True)
        reached = {party for party, _ in self.speaker.ask(messages, self.plan.deadline)}
        return [party for party in self.plan.parties if party not in reached]

    def _about(self, shared: Arrays | None, number: int, kind: str, *, last: bool) -> Outgoing:
        """A message about the model of a round, for each party."""
        listed, body = pack_mail({} if shared is None else {self.me.number: shared})
        header: dict[str, Any] = {"kind": kind, "schema": self.schema.digest, "round": number, "mail": listed}
        return dict.fromkeys(self.plan.parties, ({**header, "last": last}, body))

    def final(self) -> tuple[Vectors, bool]:
        """The tensors that are kept of the last round, and whether they are a model."""
        server = arrays_in(self.state.server)
        shared = self.protocol.model(self.me, server, server)
        return (tensors_of(server), False) if shared is None else (tensors_of(shared), True)

    def about_model(self) -> dict[str, Any]:
        """How many numbers the model is made of, and its digest: the same however rows are split."""
        server = arrays_in(self.state.server)
        shared = self.protocol.model(self.me, server, server)
        if shared is None:
            return {"weights": 0}
        digest = grown(self.me.terms, shared).sha256
        return {"model_sha256": digest, "weights": sum(array.size for array in shared.values())}
