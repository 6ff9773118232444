"""What a spec says to every side of a run: who takes part when, how parties work, and when training has failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch

from unalike.algorithms.contract import ALGORITHMS, Algorithm, Phase, Vectors
from unalike.channels import CHANNELS, Channel
from unalike.channels.rules import FEWEST_HIDDEN
from unalike.errors import UserError
from unalike.models.task import Task
from unalike.randomness import stream
from unalike.rounds.cohorts import COHORTS, CohortRule, KnownParties
from unalike.rounds.optimisers import build_optimiser
from unalike.rounds.personal import FineTuned
from unalike.rounds.upload import RandomOf, Wire
from unalike.rounds.work import LocalWork
from unalike.rounds.worker import Recipe
from unalike.runs.spec import RunSpec


class Diverged(UserError):
    """The weights are no longer finite."""


def check_finite(spec: RunSpec, vectors: Vectors, number: int, whose: str) -> None:
    """Refuse vectors that are no longer finite, with what to do about it."""
    for key, value in vectors.items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise Diverged(
                f"Training diverged in round {number}: {whose}{key} is not finite. "
                f"Lower --lr (now {spec.lr}), or change {spec.algorithm} or {spec.optimiser}."
            )


def check_states(spec: RunSpec, states: Mapping[int, Vectors], number: int) -> None:
    """The same of what parties keep: one look at all together; at each only where something is wrong."""
    values = [value for state in states.values() for value in state.values() if value.is_floating_point()]
    if values and not bool(torch.stack([torch.isfinite(value).all() for value in values]).all()):
        for k, state in states.items():
            check_finite(spec, state, number, f"party {k}'s ")


def recipe_of(spec: RunSpec, algorithm: Algorithm, tasks: Sequence[Task], wire: Wire | None) -> Recipe:
    """How every party of a run works, whose nets are those of ``tasks``."""
    local = spec.batch_norm == "local" and not algorithm.pools
    keeps = local or any(map(algorithm.keeps_statistics_of, tasks))
    return Recipe(
        algorithm,
        build_optimiser(spec.optimiser),
        spec.work,
        spec.seed,
        augment=spec.augment != "none",
        keeps_statistics=keeps and any(task.buffers.size for task in tasks),
        wire=wire,
    )


def wire_of(
    spec: RunSpec,
    channel: Channel,
    tasks: Sequence[Task],
    asked_in: Callable[[int], int],
    random_of: RandomOf,
    fewest: Callable[[int], int],
) -> Wire | None:
    """The private channel of a run as both sides have it, or None where nothing lies in between."""
    if not channel.parts:
        return None
    layers = tasks[0].parameters.layers if len(tasks) == 1 else ()
    if channel.chosen is not None:
        channel.chosen.check(layers)
    return Wire(channel, asked_in, random_of, fewest, spec.seed, layers)


def deploying(spec: RunSpec, recipe: Recipe, tasks: Sequence[Task]) -> tuple[Recipe, list[tuple[Phase, ...]]]:
    """How a party of each task trains its model further before it is tried or deployed; often by no phases."""
    if not spec.fine_tune:
        return recipe, [recipe.algorithm.adapt(task) for task in tasks]
    plain = replace(recipe, algorithm=FineTuned(recipe.algorithm), wire=None)
    return plain, [(Phase("fine-tune", epochs=spec.fine_tune),) for _ in tasks]


def check_channel(algorithm: Algorithm, channel: Channel, *, everybody: bool) -> None:
    """Refuse an algorithm that the channel does not carry; ``everybody``: whether all take part in each round."""
    name, noisy = ALGORITHMS.brief(algorithm), channel.noise is not None
    if algorithm.needs_each and (channel.hides_single or noisy):
        raise UserError(
            f"{name} needs to see single uploads, which --channel {CHANNELS.brief(channel)} "
            "does not show. Choose another algorithm, or a channel without noise, masked and encrypted."
        )
    if algorithm.needs_exact and noisy:
        raise UserError(
            f"{name} divides by sums that --channel {CHANNELS.brief(channel)} adds noise to. "
            "Choose another algorithm, or a channel without noise, such as masked."
        )
    if algorithm.needs_whole and channel.parts:
        raise UserError(
            f"{name} sends rows, labels or counts, which --channel {CHANNELS.brief(channel)} would make others "
            "of. Leave --channel out, or choose another algorithm."
        )
    if algorithm.overrides("prepare") and not everybody and (channel.hides_single or noisy):
        raise UserError(
            f"{name} prepares with all parties, but this channel is made for the cohort of a round. "
            "Use --sample 1, or leave --channel out."
        )


def least_opened(channel: Channel, asked: int, needed: int) -> int:
    """How many parties a part of a sum must have to be opened, counted before as many leave as may be missing."""
    return 1 if channel.hidden is None else FEWEST_HIDDEN + asked - needed


def pooled_work(spec: RunSpec, rows: int, parties: int) -> LocalWork:
    """What one party with all rows does in a round: as many passes over them as the parties take together."""
    cohort = cohort_size(spec, parties)
    if spec.steps is not None:
        return replace(spec.work, steps=cohort * spec.steps)
    if cohort == parties:
        return spec.work
    return replace(spec.work, epochs=None, steps=max(1, round(spec.work.count(rows) * cohort / parties)))


def learning_rate(spec: RunSpec, round: int) -> float:
    """The local learning rate in a round; what prepares has that of the first."""
    return spec.lr * spec.lr_decay ** (max(1, round) - 1)


def cohort_size(spec: RunSpec, parties: int) -> int:
    """How many of so many parties take part in a round."""
    return max(1, round(spec.sample * parties))


def asked_in(spec: RunSpec, parties: int, round: int) -> int:
    """The public number of parties that are asked in a round; in round 0, which prepares, it is all."""
    return cohort_size(spec, parties) if round else parties


def cohort_rule(spec: RunSpec) -> CohortRule:
    """How the cohorts of a run are chosen."""
    return COHORTS.build(spec.cohort)


def cohort_of(spec: RunSpec, parties: int, round: int, known: KnownParties | None = None) -> list[int]:
    """The parties of a round, ascending: the same for every algorithm with the same seed; in round 0 all.

    ``known`` is what the rule must know of them. Where it chooses by losses, these are the candidates, as drawn.
    """
    size, rule = asked_in(spec, parties, round), cohort_rule(spec)
    if size == parties:
        return list(range(parties))
    drawn = rule.draw(stream(spec.seed, "cohort", round), rule.informed(known or KnownParties(parties)), size)
    return drawn if rule.by_loss else sorted(drawn)
