"""A run whose parties are real sites: rounds as everywhere, orders as messages, figures that are counted there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unalike.algorithms.contract import Ask, Vectors
from unalike.channels import Channel, Participation
from unalike.channels.encrypted import Encrypted
from unalike.channels.masked import Masked
from unalike.channels.setting import Random, secret_random
from unalike.data.columns import Column
from unalike.data.schema import Schema
from unalike.errors import UserError
from unalike.federation.dealing import deal_keys
from unalike.federation.envelope import Refused, pack
from unalike.federation.lengths import NORMS
from unalike.federation.plan import Plan
from unalike.federation.remote import Remote
from unalike.federation.replay import ANSWERED, PREPARED
from unalike.federation.rows import agreed_tasks, made_up_worker, share_public
from unalike.federation.speaker import Outgoing, Speaker
from unalike.federation.summing import Protection
from unalike.federation.told import site_figures, wire_figures
from unalike.federation.work import model_digest
from unalike.own_code import explained
from unalike.rounds.cohorts import KnownParties
from unalike.rounds.gather import Gathered
from unalike.rounds.ledger import Ledger
from unalike.rounds.order import Order
from unalike.rounds.population import Population
from unalike.rounds.rehearse import Script, rehearse
from unalike.rounds.state import State
from unalike.runs.rules import deploying
from unalike.runs.training import Training
from unalike.scores import Figures


class RemoteTraining(Training):
    """A run whose parties are elsewhere."""

    again = 0
    """rounds that were begun again after a restart"""

    def __init__(
        self,
        plan: Plan,
        schema: Schema,
        sizes: Sequence[int],
        speaker: Speaker,
        public: Sequence[Column] | None = None,
    ) -> None:
        self.plan, self.schema = plan, schema
        tasks = agreed_tasks(plan.spec, schema)
        rows = share_public(tasks, schema, public, plan.missing)
        super().__init__(plan.spec, tasks, Population(sizes))
        self.adapts = any(deploying(plan.spec, self.recipe, tasks)[1])
        self.accountant = replace(self.accountant, known=True)  # all sites can draw the cohorts as we do
        nobody = [made_up_worker(schema, task, self.recipe, which, rows) for which, task in enumerate(tasks)]
        with explained(self.algorithm):
            scripts = [rehearse(one, self.task, len(plan.parties)) for one in nobody]
        self._check_alike(scripts[0])
        self.sites = Remote(
            speaker,
            schema.digest,
            self.receiver,
            lambda number: scripts[number % len(scripts)],
            lambda number: replace(
                nobody[number % len(nobody)],
                number=number,
                train=lambda round: np.broadcast_to(np.int64(0), sizes[number]),  # counted, and takes no memory
            ),
            _protection(self.channel, speaker),
        )

    def known_parties(self) -> KnownParties:
        """What every site knows too, so that it can tell by itself when it is asked: nothing but their number."""
        return KnownParties(len(self.plan.parties))

    @property
    def origin(self) -> str:
        """What a checkpoint must have in common with the run to be of it."""
        return self.schema.digest

    def _check_alike(self, script: Script) -> None:
        """Refuse what sites refuse: in a sum that hides them, all are asked the same."""
        own = [key for line in (*script.prepare, *script.round) for key in line.by_party]
        if own and self.channel.hides_single:
            raise UserError(
                f"{self.spec.algorithm} sends every site a {own[0]} of its own, but sites add to a hidden sum "
                f"only what all are asked alike. Leave --channel {self.spec.channel} out."
            )

    def gather(self, orders: Sequence[Order]) -> Gathered:
        """The sums over the sites that answer."""
        return self.sites.gather(orders)

    def fewest(self, cohort: int) -> int:
        """Shares of noise are made for as many parties as a round needs."""
        return self.plan.needed(cohort)

    def random(self, number: int, turn: int, party: int | None) -> Random:
        """The server's noise is its secret."""
        return secret_random

    def participation(self, state: State) -> Participation:
        """With the rounds that were played again: the server drew its noise anew, and sites may have seen both."""
        done = super().participation(state)
        if not self.again or self.channel.noise is None or self.channel.noise.where != "server":
            return done
        turns, again = max(state.exchanges), self.again * (2 if self._prepares else 1)  # round 0 with the first
        rounds = {**done.rounds, turns: done.rounds.get(turns, 0) + again}
        return Participation(rounds, done.most + turns * again)

    def party_state(self, number: int, state: State | None = None) -> Vectors:
        """Nothing: what a party keeps stays with it."""
        return {}

    def play_round(self) -> tuple[State, Figures]:
        """As everywhere, and who answered; bytes are those that really went over the wire."""
        speaker = self.sites.speaker
        self.sites.answered, self.sites.norms = {}, []
        speaker.slowest, before = {}, (speaker.sent_by.copy(), speaker.sent_to.copy())
        state, row = super().play_round()
        row |= wire_figures(speaker, *before)
        row[ANSWERED] = self.sites.answered.get(row["round"], [])
        if 0 in self.sites.answered:
            row[PREPARED] = self.sites.answered[0]
        return state, row | ({NORMS: self.sites.norms} if self.channel.tells_single else {})

    def evaluate(self, after: State) -> Figures:
        """The figures of all sites' own rows, each counted at its site; none where the plan says so."""
        w = self.algorithm.global_model(self.task, after.server)
        return site_figures(
            self.speaker,
            lambda: self.speaker.ask(self._about(after, "evaluate"), self.plan.deadline),
            self.score,
            self.task.classes,
            last=after.round == self.spec.rounds,
            shared=w is not None,
            own=self.algorithm.overrides("personal") or self.adapts,
        )

    def finish(self) -> list[str]:
        """Give every site the final model; those that were not reached."""
        answers = self.sites.speaker.ask(self._about(self.state, "finish"), self.plan.deadline)
        reached = {party for party, _ in answers}
        return [party for party in self.plan.parties if party not in reached]

    @property
    def speaker(self) -> Speaker:
        """Who signs, numbers and sends the server's messages."""
        return self.sites.speaker

    @property
    def norms(self) -> Sequence[dict[str, float]]:
        """By exchange of this round, how long each party's upload is, where single ones are seen."""
        return self.sites.norms

    @property
    def stopped(self) -> str | None:
        """Nothing ends training before its last round."""
        return None

    def resume(self, state: State, accepted: Mapping[str, str]) -> None:
        """Go on from a checkpoint, and from the versions of the sites' states that it names."""
        self.state = state
        self.sites.accepted = {int(number): version for number, version in accepted.items()}
        self.kept()

    def accepted(self) -> dict[str, str]:
        """For a checkpoint: the version of each site's state that the server has accepted."""
        return {str(number): version for number, version in self.sites.accepted.items()}

    def kept(self) -> None:
        """The checkpoint is written: a restarted server asks for these versions."""
        self.sites.durable = dict(self.sites.accepted)

    def model_digest(self, number: int) -> str:
        """What a site makes of the plan, if it has the same parts."""
        return model_digest(self.task_of(number))

    def final(self) -> tuple[Vectors, bool]:
        """The tensors that are kept of the last round, and whether they are a model."""
        w = self.algorithm.global_model(self.task, self.state.server)
        return (self.state.server, False) if w is None else (self.task.named(w, self.state.buffers), True)

    def about_model(self) -> dict[str, Any]:
        """How many weights the model has."""
        return {"weights": self.task.size}

    def _about(self, state: State, kind: str) -> Outgoing:
        """A message about the state of the training, for each party."""
        ask = Ask("train", self.algorithm.send(self.task, state.server))
        w = self.algorithm.global_model(self.task, state.server)
        ledger, messages = Ledger(state.buffers), {}
        for number, party in enumerate(self.plan.parties):
            order = self.order(ask, number, max(1, state.round), ledger)
            arrays, body = pack(self.sites.outgoing(order) | ({} if w is None else {"w": w}))
            messages[party] = ({**self.sites.header(order), "kind": kind, "arrays": arrays}, body)
        return messages


def _protection(channel: Channel, speaker: Speaker) -> Protection | None:
    """How sums are protected; for ciphertexts, with keys that the sites deal."""
    if isinstance(channel.hidden, Encrypted):
        try:
            return Protection(context=deal_keys(speaker))
        except Refused as error:
            raise UserError(f"{error}.") from None
    return Protection(bits=channel.hidden.bits) if isinstance(channel.hidden, Masked) else None
