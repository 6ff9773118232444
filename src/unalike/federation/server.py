"""The server of a federation: agree on a schema, play the rounds, keep a record that survives any stop."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, get_args

import numpy as np

import unalike
from unalike.algorithms.contract import Ask, Vectors
from unalike.channels import Channel, Participation
from unalike.channels.encrypted import Encrypted
from unalike.channels.masked import Masked
from unalike.channels.setting import Random, secret_random
from unalike.data.columns import Column
from unalike.data.sites.schema import Schema
from unalike.errors import UserError
from unalike.federation import folders
from unalike.federation.agreeing import agreement
from unalike.federation.dealing import deal_keys
from unalike.federation.envelope import Refused, pack
from unalike.federation.figures import checked_tallies, together, told_scores
from unalike.federation.lengths import FAR, NORMS, longest
from unalike.federation.measuring import measure_sites
from unalike.federation.plan import Plan
from unalike.federation.public import public_table
from unalike.federation.remote import Remote
from unalike.federation.replay import ANSWERED, PREPARED
from unalike.federation.rows import agreed_tasks, made_up_worker, share_public
from unalike.federation.speaker import Outgoing, Speaker, Transport
from unalike.federation.summing import Protection
from unalike.federation.work import model_digest
from unalike.measure.support import Of
from unalike.own_code import explained
from unalike.rounds.evaluation import Figures, summary, without_each
from unalike.rounds.gather import Gathered
from unalike.rounds.ledger import Ledger
from unalike.rounds.order import Order
from unalike.rounds.population import Population
from unalike.rounds.rehearse import Script, rehearse
from unalike.rounds.state import State
from unalike.runs.checkpoint import Checkpoint
from unalike.runs.files import atomic_write, private_folder
from unalike.runs.folder import RunDirectory
from unalike.runs.record import SEALS_WEIGHTS
from unalike.runs.rules import deploying
from unalike.runs.training import Training
from unalike.scores import score_of, scores_of, shown, value_of
from unalike.secure.crypto.primitives import signing_public
from unalike.tallies import Tally

T = TypeVar("T")


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
        _, self.adapting = deploying(plan.spec, self.recipe, tasks)
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
                nobody[number % len(nobody)], number=number, train=lambda round: np.arange(sizes[number])
            ),
            _protection(self.channel, speaker),
        )

    def _check_alike(self, script: Script) -> None:
        """Refuse what sites refuse: in a sum that hides them, all are asked the same."""
        own = [key for line in (*script.prepare, *script.round) for key in line.by_party]
        if own and self.channel.hides_single:
            raise UserError(
                f"{self.spec.algorithm} sends every site a {own[0]} of its own, but sites add to a hidden sum "
                f"only what all are asked alike. Leave --channel {self.spec.channel} out."
            )

    @property
    def engine_name(self) -> str:
        """What carries orders to the sites."""
        return self.sites.name

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

    def party_state(self, number: int) -> Vectors:
        """Nothing: what a party keeps stays with it."""
        return {}

    def play_round(self) -> tuple[State, Figures]:
        """As everywhere, and who answered; bytes are those that really went over the wire."""
        speaker = self.sites.speaker
        self.sites.answered, self.sites.norms = {}, []
        before = speaker.sent_by.total(), speaker.sent_to.total()
        state, row = super().play_round()
        up, down = speaker.sent_by.total() - before[0], speaker.sent_to.total() - before[1]
        row |= {
            "bytes_up": up,
            "bytes_down": down,
            "traffic": {"up": {"messages": up}, "down": {"messages": down}},
        }
        row[ANSWERED] = self.sites.answered[row["round"]]
        if 0 in self.sites.answered:
            row[PREPARED] = self.sites.answered[0]
        return state, row | ({NORMS: self.sites.norms} if self.channel.tells_single else {})

    def evaluate(self, after: State) -> Figures:
        """The figures of all sites' own rows, each counted at its site; none where the plan says so."""
        last = after.round == self.spec.rounds
        few, scores = (told_scores(self.score, rows, last=last) for rows in ("validation", "test"))
        figures: Figures = {"score": self.score.name, **together({}, "test", scores)}
        figures |= {f"validation_{key}": None for key in together({}, "validation", few)}
        w = self.algorithm.global_model(self.task, after.server)
        own = self.algorithm.overrides("personal") or bool(self.adapting)
        if self.plan.figures == "none" or (w is None and not own):
            return figures
        told: dict[str, dict[str, Tally]] = {}
        for party, message in self.sites.speaker.ask(self._about(after, "evaluate"), self.plan.deadline):
            try:
                told[party] = checked_tallies(message, self.score, self.task.classes, last=last)
            except Refused as error:
                self.sites.speaker.say(f"{party}'s figures are not used: {error}.")
        figures |= together(told, "test", scores)
        personal = "personal " if own else ""
        selecting = together(told, f"{personal}validation", few)
        figures |= {f"validation_{key}": value for key, value in selecting.items()}
        for key, name in (("parties", "held_out"), ("personal", "personal held_out")):
            each = [together({party: told.get(party, {})}, name, [self.score]) for party in self.plan.parties]
            if own if key == "personal" else w is not None:
                figures[key] = summary([one[self.score.key] for one in each], self.score)
        return without_each(figures)

    def finish(self) -> list[str]:
        """Give every site the final model; those that were not reached."""
        answers = self.sites.speaker.ask(self._about(self.state, "finish"), self.plan.deadline)
        reached = {party for party, _ in answers}
        return [party for party in self.plan.parties if party not in reached]

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


def serve(
    transport: Transport,
    folder: Path,
    say: Callable[[str], None] | None = None,
    stopped: Callable[[], bool] | None = None,
) -> Figures:
    """Do the folder's job: train as the plan says, from where the last checkpoint left off, or measure first."""
    place = folders.ServerFolder(folder)
    plan = Plan.read(folder)
    public = public_table(folder, plan.public)
    private_folder(folder)  # it holds what sites sent
    speaker = Speaker(
        plan=plan,
        transport=transport,
        signer=place.signer(),
        roster=place.roster(plan),
        incarnation=place.next_incarnation(),
        say=say or place.say,
        stopped=stopped or place.stop_asked,
    )
    if signing_public(speaker.signer).hex() != plan.server:
        raise UserError(f"The server's key in {folder} is not the one that {plan.name}'s plan names.")
    private_folder(place.run)
    with RunDirectory.open(place.run) as record:
        schema, sizes = agreement(plan, speaker, place)
        if place.job() == folders.MEASURE:
            return _measure(speaker, schema, place)
        training = RemoteTraining(plan, schema, sizes, speaker, public)
        training.sites.unmasking = place.unmasking()
        training.sites.keep_unmasking = place.keep_unmasking
        _check_models(place, training)
        return _play(training, record, place)


def _measure(speaker: Speaker, schema: Schema, place: folders.ServerFolder) -> Figures:
    """How unalike the sites are, by labels and by features."""
    place.tell("measuring")
    kinds: tuple[Of, ...] = get_args(Of)
    found: Figures = {of: measure_sites(speaker, schema.digest, of, schema.features).to_dict() for of in kinds}
    atomic_write(place.path / "measure.json", json.dumps(found, indent=1).encode())
    place.tell("measured")
    return found


def _play(training: RemoteTraining, record: RunDirectory, place: folders.ServerFolder) -> Figures:
    spec, speaker = training.spec, training.sites.speaker
    record.write_spec(spec.to_toml(), spec.same_run)
    saved = record.load_checkpoint(
        speaker.say, lambda checkpoint: _check_origin(checkpoint, training, record.path)
    )
    if saved is not None:
        training.state = State.of(saved.round, saved.tensors)
        training.sites.accepted = {int(k): v for k, v in saved.meta["accepted"].items()}
        training.sites.durable = dict(training.sites.accepted)
        speaker.say(f"Going on after round {saved.round} of {spec.rounds}.")
    while training.state.round < spec.rounds:
        place.tell(f"round {training.state.round + 1} of {spec.rounds}")
        training.again = place.begin_round(training.state.round + 1)
        try:
            state, row = training.play_round()
        except UserError:  # an update that was blown up ends in no round: say whose it was
            _say_far(speaker, {"round": training.state.round + 1, NORMS: training.sites.norms})
            raise
        record.append_round(row)
        training.state = state
        meta = {**_origin(training), "accepted": {str(k): v for k, v in training.sites.accepted.items()}}
        record.save_checkpoint(Checkpoint(state.round, state.tensors(), meta))
        training.sites.durable = dict(training.sites.accepted)
        speaker.say(_line(row, spec.rounds))
        _say_far(speaker, row)
    left = training.finish()
    figures = _outcome(training, record.rounds(), left)
    w = training.algorithm.global_model(training.task, training.state.server)
    model = training.state.server if w is None else training.task.named(w, training.state.buffers)
    about = {"key": spec.key, "algorithm": spec.algorithm}
    figures[SEALS_WEIGHTS] = record.save_weights(model, about)
    record.write_result(figures)
    place.tell("finished" + (f"; not reached with the final model: {', '.join(left)}" if left else ""))
    return figures


def _say_far(speaker: Speaker, row: Figures) -> None:
    for party, one in longest([row]).items():
        if one.times >= FAR:
            speaker.say(one.line(party))


def _check_models(place: folders.ServerFolder, training: RemoteTraining) -> None:
    for party, model in place.models.items():
        if model != model_digest(training.task_of(training.plan.number(party))):
            raise UserError(
                f"{party} makes another model from the plan than the server. Install the same versions of unalike "
                "and torch on both."
            )


def _origin(training: RemoteTraining) -> dict[str, str]:
    return {"plan": training.plan.digest, "schema": training.schema.digest, "version": unalike.__version__}


def _check_origin(saved: Checkpoint, training: RemoteTraining, run: Path) -> None:
    """Refuse to go on from what another plan, schema or program made; to begin anew is for a person to decide."""
    for key, value in _origin(training).items():
        if saved.meta.get(key) != value:
            raise UserError(
                f"{run} holds a training of another {key} ({str(saved.meta.get(key))[:12]}, now {value[:12]}). "
                f"Go on with that {key}, or move {run} away to begin anew."
            )


def _outcome(training: RemoteTraining, rows: list[Figures], left: list[str]) -> Figures:
    last = rows[-1]
    scores = (score.key for score in scores_of(training.score.task))
    kept = ("score", "loss", "train_loss", "parties", "personal", *scores)
    return {
        "key": training.spec.key,
        **{key: value for key, value in last.items() if key in kept or key.startswith("validation_")},
        "rounds": last["round"],
        **training.privacy(last),
        **{key: sum(row[key] for row in rows) for key in ("bytes_up", "bytes_down", "seconds")},
        "server_sha256": training.state.server_digest(),
        "weights": training.task.size,
        "engine": training.engine_name,
        "not_reached": left,
        "version": unalike.__version__,
    }


def _line(row: Figures, rounds: int) -> str:
    value = value_of(row)
    told = "" if value is None else f", {score_of(row)} {shown(score_of(row), value)} on the sites' test rows"
    return f"Round {row['round']} of {rounds}: {len(row['answered'][-1])} parties{told}."
