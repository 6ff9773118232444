"""The server of a federation: agree on a schema, play the rounds, keep a record that survives any stop."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args

import torch

import unalike
from unalike.data.schema import Schema
from unalike.errors import UserError
from unalike.federation import folders
from unalike.federation.agreeing import agreement
from unalike.federation.column_agreeing import column_agreement
from unalike.federation.column_talks import WORTH, RemoteColumns
from unalike.federation.lengths import FAR, NORMS, longest
from unalike.federation.matching import match_people
from unalike.federation.measuring import measure_sites
from unalike.federation.plan import Plan
from unalike.federation.public import public_table
from unalike.federation.replay import ANSWERED
from unalike.federation.speaker import Speaker, Transport
from unalike.federation.talks import RemoteTalk
from unalike.federation.training import RemoteTraining
from unalike.federation.using import site_model
from unalike.measure.support import Of
from unalike.rounds.state import State
from unalike.runs.checkpoint import Checkpoint
from unalike.runs.files import atomic_write, private_folder
from unalike.runs.folder import RunDirectory
from unalike.runs.model_file import KeptRound
from unalike.runs.record import MODEL, SEALS_MODEL, SEALS_WEIGHTS, WEIGHTS
from unalike.scores import Figures, score_of, scores_of, shown, value_of
from unalike.secure.crypto.primitives import signing_public

SiteTraining = RemoteTraining | RemoteTalk | RemoteColumns
"""A training whose parties are real sites: by exchanges, or by a protocol's turns."""


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
    roster = place.roster(plan)
    speaker = Speaker(
        plan=plan,
        transport=transport,
        signer=place.signer(),
        roster=roster,
        incarnation=place.next_incarnation(),
        say=say or place.say,
        stopped=stopped or place.stop_asked,
        waits=place.waits,
        heard=place.heard(roster),
    )
    if signing_public(speaker.signer).hex() != plan.server:
        raise UserError(f"The server's key in {folder} is not the one that {plan.name}'s plan names.")
    private_folder(place.run)
    with RunDirectory.open(place.run) as record, _kept(speaker, place):
        if plan.id:
            anew = place.job() == folders.MATCH
            if anew and record.rounds():
                raise UserError("Training has begun with the people that were matched, and goes on with them.")
            matching = match_people(plan, speaker, place, anew=anew)
            if anew:
                place.tell("matched people")
                return asdict(matching)
        if plan.splits_columns:
            return serve_columns(plan, speaker, record, place)
        schema, sizes = agreement(plan, speaker, place)
        if place.job() == folders.MEASURE:
            return _measure(speaker, schema, place)
        training: SiteTraining
        if plan.protocol is not None:
            training = RemoteTalk(plan, schema, speaker)
        else:
            training = RemoteTraining(plan, schema, sizes, speaker, public)
            training.sites.unmasking = place.unmasking()
            training.sites.keep_unmasking = place.keep_unmasking
        _check_models(place, training)
        return _play(training, record, place)


def serve_columns(plan: Plan, speaker: Speaker, record: RunDirectory, place: folders.ServerFolder) -> Figures:
    """The same where sites have other columns of the same people, whom they match before all else."""
    if place.job() == folders.MEASURE:
        raise UserError(f"{plan.name} has sites with other columns, which share nothing to measure. Run match.")
    agreed = column_agreement(plan, speaker, place)
    training = RemoteColumns(plan, agreed, speaker)
    _check_models(place, training)
    if place.job() != folders.PREDICT:
        return _play(training, record, place)
    _resume(training, record)
    place.tell("predicting")
    people = training.predict()
    place.tell(f"predicted {people:,} people")
    return {"people": people}


@contextmanager
def _kept(speaker: Speaker, place: folders.ServerFolder) -> Iterator[None]:
    """Keep at the end, however it comes, what the sites have answered."""
    try:
        yield
    finally:
        place.keep_heard(speaker.heard, speaker.roster)


def _measure(speaker: Speaker, schema: Schema, place: folders.ServerFolder) -> Figures:
    """How unalike the sites are, by labels and by features."""
    place.tell("measuring")
    kinds: tuple[Of, ...] = get_args(Of)
    found: Figures = {of: measure_sites(speaker, schema.digest, of, schema.features).to_dict() for of in kinds}
    atomic_write(place.path / "measure.json", json.dumps(found, indent=1).encode())
    place.tell("measured")
    return found


def _play(training: SiteTraining, record: RunDirectory, place: folders.ServerFolder) -> Figures:
    spec, speaker = training.spec, training.speaker
    record.write_spec(spec.to_toml(), spec.same_run)
    if _resume(training, record):
        speaker.say(f"Going on after round {training.state.round} of {spec.rounds}.")
    while training.state.round < spec.rounds and training.stopped is None:
        place.tell(f"round {training.state.round + 1} of {spec.rounds}", round=training.state.round + 1)
        training.again = place.begin_round(training.state.round + 1)
        try:
            state, row = training.play_round()
        except UserError:  # an update that was blown up ends in no round: say whose it was
            _say_far(speaker, {"round": training.state.round + 1, NORMS: training.norms})
            raise
        record.append_round(row)
        training.state = state
        meta = {**_origin(training), "accepted": training.accepted()}
        record.save_checkpoint(Checkpoint(state.round, state.tensors(), meta))
        training.kept()
        place.keep_heard(speaker.heard, speaker.roster)
        speaker.say(_line(row, spec.rounds))
        _say_far(speaker, row)
    return _finish(training, record, place)


def _resume(training: SiteTraining, record: RunDirectory) -> bool:
    """Go on from the last checkpoint, if there is one."""
    saved = record.load_checkpoint(
        training.speaker.say, lambda checkpoint: _check_origin(checkpoint, training, record.path)
    )
    if saved is not None:
        training.resume(State.of(saved.round, saved.tensors), saved.meta["accepted"])
    return saved is not None


def _finish(training: SiteTraining, record: RunDirectory, place: folders.ServerFolder) -> Figures:
    """Hand out the final model, and keep it with the result."""
    spec, rounds = training.spec, training.state.round
    left = training.finish()
    figures = _outcome(training, record.rounds(), left)
    model, usable = training.final()
    about = {"key": spec.key, "algorithm": spec.algorithm}
    figures[SEALS_WEIGHTS] = record.save_weights(model, about)
    kept = KeptRound(rounds, WEIGHTS, figures[SEALS_WEIGHTS]) if usable else KeptRound(rounds)
    if not isinstance(training, RemoteColumns):  # there, no side has the whole model
        described = replace(site_model(training.plan, training.schema), stages={"final": kept})
        figures[SEALS_MODEL] = record.save_files({MODEL: described.encode()})
    record.write_result(figures)
    why = f" after round {rounds}: {training.stopped}" if rounds < spec.rounds else ""
    place.tell(f"finished{why}" + (f"; not reached with the final model: {', '.join(left)}" if left else ""))
    return figures


def _say_far(speaker: Speaker, row: Figures) -> None:
    for party, one in longest([row]).items():
        if one.times >= FAR:
            speaker.say(one.line(party))


def _check_models(place: folders.ServerFolder, training: SiteTraining) -> None:
    for party, model in place.models.items():
        if model != training.model_digest(training.plan.number(party)):
            raise UserError(
                f"{party} makes another model from the plan than the server. Install the same versions of unalike "
                "and torch on both."
            )


def _origin(training: SiteTraining) -> dict[str, str]:
    """What a checkpoint must share with a training to be of it; another torch would mix other bits in."""
    versions = {"version": unalike.__version__, "torch": torch.__version__}
    return {"plan": training.plan.digest, "schema": training.origin, **versions}


def _check_origin(saved: Checkpoint, training: SiteTraining, run: Path) -> None:
    """Refuse to go on from what another plan, schema or program made; to begin anew is for a person to decide."""
    for key, value in _origin(training).items():
        if saved.meta.get(key, value if key == "torch" else None) != value:  # older checkpoints do not name it
            raise UserError(
                f"{run} holds a training of another {key} ({str(saved.meta.get(key))[:12]}, now {value[:12]}). "
                f"Go on with that {key}, or move {run} away to begin anew."
            )


def _outcome(training: SiteTraining, rows: list[Figures], left: list[str]) -> Figures:
    last = rows[-1]
    scores = (score.key for score in scores_of(training.score.task))
    kept = ("score", "loss", "train_loss", "parties", "personal", *scores, *WORTH)
    return {
        "key": training.spec.key,
        **{
            key: value
            for key, value in last.items()
            if key in kept or key.startswith(("validation_", "held_out_"))
        },
        "rounds": last["round"],
        **training.privacy(last),
        **{key: sum(row[key] for row in rows) for key in ("bytes_up", "bytes_down", "seconds")},
        "server_sha256": training.state.server_digest(),
        **training.about_model(),
        **_early(training),
        "engine": "sites",
        "not_reached": left,
        "version": unalike.__version__,
    }


def _early(training: SiteTraining) -> Figures:
    """Where and why a training ended before its last round, if it did."""
    done = training.state.round
    return {"stopped": {"round": done, "why": training.stopped}} if done < training.spec.rounds else {}


def _line(row: Figures, rounds: int) -> str:
    value = value_of(row)
    told = "" if value is None else f", {score_of(row)} {shown(score_of(row), value)} on the sites' test rows"
    answered = row[ANSWERED][-1] if row[ANSWERED] else []
    return f"Round {row['round']} of {rounds}: {len(answered)} parties{told}."
