"""A run by a protocol whose parties are real sites: rounds as in simulation, figures that are counted there."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from unalike.algorithms.contract import Vectors
from unalike.algorithms.protocol import Arrays
from unalike.data.schema import Schema
from unalike.federation.asking import Asking
from unalike.federation.envelope import Envelope
from unalike.federation.growth import arrays_digest, changes
from unalike.federation.mail import pack_mail
from unalike.federation.plan import Plan
from unalike.federation.replay import ANSWERED, PREPARED
from unalike.federation.roles import first_told, grown, terms_digest, the_server
from unalike.federation.speaker import Outgoing, Speaker
from unalike.federation.talk_rounds import Conversation
from unalike.federation.told import site_figures, wire_figures
from unalike.federation.tried import PLACES, SINCE
from unalike.federation.turns import AGAIN, as_tensor
from unalike.own_code import explained
from unalike.rounds.evaluation import Figures
from unalike.rounds.state import State
from unalike.scores import choose


class RemoteTalk:
    """A protocol's run whose parties are elsewhere; ``state`` is the server's after the last whole round."""

    again = 0
    norms: Sequence[dict[str, float]] = ()

    def __init__(self, plan: Plan, schema: Schema, speaker: Speaker) -> None:
        assert plan.protocol is not None
        self.plan, self.schema, self.speaker, self.spec = plan, schema, speaker, plan.spec
        self.protocol, self.me = plan.protocol, the_server(plan, schema)
        self.score = choose(self.spec.score, "classification")
        with explained(self.protocol):
            start = self.protocol.start(self.me)
        told = dict.fromkeys(range(len(plan.parties)), first_told(plan, schema))
        self._talk = Conversation(self.protocol, self.me, Asking(speaker), schema.digest, start, told)
        self._after = told
        self._known: tuple[Arrays | None, set[str]] = (None, set())
        """the model that was tried last, and the sites that have it"""
        self.state = State(0, tensors_of(start), torch.zeros(0), {})

    @property
    def origin(self) -> str:
        """What a checkpoint must have in common with the run to be of it."""
        return self.schema.digest

    @property
    def stopped(self) -> str | None:
        """Why training ends before its last round, in words; None to go on."""
        return self.protocol.finished(arrays_in(self.state.server)) if self.state.round else None

    def resume(self, state: State, accepted: Mapping[str, str]) -> None:
        """Go on from a checkpoint, and from what it says that sites were told until then."""
        self.state, self._talk.state = state, arrays_in(state.server)
        self._talk.told = self._after = {int(number): bytes.fromhex(told) for number, told in accepted.items()}

    def accepted(self) -> dict[str, str]:
        """For a checkpoint: what each site was told until the round that is whole."""
        return {str(number): told.hex() for number, told in self._after.items()}

    def kept(self) -> None:
        """The checkpoint is written: the next round goes on from it."""
        self._talk.state, self._talk.told = arrays_in(self.state.server), self._after

    def model_digest(self, number: int) -> str:
        """What a site makes of the plan, if it has the same parts."""
        return terms_digest(self.plan, self.schema)

    def play_round(self) -> tuple[State, Figures]:
        """Play the next round; nothing changes until ``state`` is set to what is returned, and ``kept``."""
        began, number, speaker = time.perf_counter(), self.state.round + 1, self.speaker
        speaker.slowest, before = {}, (speaker.sent_by.copy(), speaker.sent_to.copy())
        rounds = [0, 1] if number == 1 else [number]
        with explained(self.protocol):
            server, self._after, spoken = self._talk.play(rounds)
        after = State(number, tensors_of(server), torch.zeros(0), {})
        everybody = list(range(len(self.plan.parties)))
        row: Figures = {"round": number, "train_loss": math.nan, **spoken[-1].figures}
        row |= dict(self.protocol.figures(server, number))
        last = number == self.spec.rounds or self.protocol.finished(server) is not None
        if last or number % self.spec.evaluate_every == 0:
            row |= self._evaluated(server, number, last=last)
        row |= {"cohort": len(everybody), "turns": sum(one.turns for one in spoken), ANSWERED: [everybody]}
        row |= {PREPARED: [everybody]} if number == 1 else {}
        return after, row | wire_figures(speaker, *before) | {"seconds": time.perf_counter() - began}

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

    def privacy(self, last: Figures) -> dict[str, Any]:
        """Nothing: there is no noise."""
        return {}


def tensors_of(arrays: Arrays) -> Vectors:
    """What a role keeps, as tensors with memory of their own."""
    return {name: as_tensor(array) for name, array in arrays.items()}


def arrays_in(tensors: Vectors) -> Arrays:
    """What a role keeps, as arrays that share the memory of tensors."""
    return {name: value.numpy() for name, value in tensors.items()}
