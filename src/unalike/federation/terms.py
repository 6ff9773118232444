"""What a site is asked to agree to: from the plan, its own table, and one round that it plays alone.

Nothing is sent: the round is a rehearsal on a few of the site's own rows, so that what leaves is told by the names
and sizes that the algorithm really uploads, not by what somebody wrote about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unalike.algorithms import ALGORITHMS
from unalike.channels import CHANNELS, Accountant, Channel, Participation, parse_channel
from unalike.channels.masked import Masked
from unalike.data.columns import Column
from unalike.data.dataset import Dataset
from unalike.data.digest import table_digest
from unalike.data.labels import class_names
from unalike.data.numerals import plain_number
from unalike.data.sites import site_data
from unalike.data.sites.agreement import agree
from unalike.data.sites.description import Description, describe
from unalike.errors import UserError
from unalike.federation.plan import Plan
from unalike.federation.row_turns import TurnWork
from unalike.federation.talk_terms import said_in_rounds
from unalike.federation.work import SiteWork
from unalike.own_code import explained
from unalike.rounds.rehearse import rehearse
from unalike.runs.rules import cohort_of, cohort_size

_MOST_ROWS = 40
"""Rows of each class that the rehearsal uses: names and sizes of uploads do not depend on more."""


@dataclass(frozen=True)
class Disclosure:
    """What leaves the site in one exchange of a round: each name, and how many numbers it is.

    ``kind`` is what is asked; of a protocol, whether it is added to the others' or mailed as it is.
    """

    kind: str
    sizes: dict[str, int]
    once: bool = False
    """whether it leaves once, before round 1"""


@dataclass(frozen=True)
class Terms:
    """What a site is asked to agree to."""

    plan: Plan
    algorithm: str
    summary: str
    paper: str
    description: Description
    uploads: tuple[Disclosure, ...]
    weights: int
    hidden: str
    """what the server sees in place of this site's own update, in words; empty where it can look at that"""
    channel: str
    noise: str
    """in words; empty without noise"""
    epsilon: float | None
    delta: float | None
    public: int = 0
    """public rows that everybody has"""
    rows: str = ""
    """SHA-256 of the site's own rows: an agreement is for these"""


def terms_of(plan: Plan, name: str, columns: Sequence[Column], public: Sequence[Column] | None = None) -> Terms:
    """The terms for a site with this table; a table that does not suit the plan, or a public one, is told here."""
    spec = plan.spec
    told = describe(columns, plan.label, plan.ignore, plan.missing, plan.test)
    work = _rehearsed(plan, name, list(columns), told, public)
    channel = parse_channel(spec.channel)
    part: Any = work.protocol if isinstance(work, TurnWork) else work.algorithm
    uploads = _said(work) if isinstance(work, TurnWork) else _uploads(work, channel)
    entry = ALGORITHMS.entry_of(part)
    return Terms(
        plan=plan,
        algorithm=ALGORITHMS.brief(part),
        summary=entry.summary,
        paper=entry.paper,
        description=told,
        uploads=uploads,
        weights=0 if isinstance(work, TurnWork) else work.task.size,
        hidden=_hidden(plan, channel),
        channel=CHANNELS.brief(channel) if channel.parts else "",
        noise=_noise(channel),
        epsilon=_epsilon(plan, plan.number(name), channel, uploads),
        delta=None if channel.noise is None else channel.noise.delta,
        public=0 if isinstance(work, TurnWork) or work.worker.public is None else len(work.worker.public),
        rows=table_digest(columns),
    )


def _rehearsed(
    plan: Plan, name: str, columns: list[Column], told: Description, public: Sequence[Column] | None
) -> SiteWork | TurnWork:
    """The site's own part of the run, on a few of its rows."""
    classes = told.classes
    if public is not None:
        labels = [column for column in public if column.name == plan.label]
        known = [plain_number(value) for column in labels for value in column.values.values()]
        classes = class_names([*classes, *known])
    # A site may have patients of one kind only: the others' labels are not known yet.
    classes = classes if len(classes) > 1 else (*classes, f"not {classes[0]}")
    schema = agree({name: replace(told, classes=classes)})
    data = site_data(name, schema, columns, plan.missing, plan.test)
    if plan.protocol is not None:
        return TurnWork(plan, schema, _fewer(data), plan.number(name))
    return SiteWork(plan, schema, _fewer(data), plan.number(name), public=public)


def _said(work: TurnWork) -> tuple[Disclosure, ...]:
    """What leaves in the turns of a protocol: of those before round 1, and of a round."""
    try:
        return tuple(Disclosure(way, sizes, once) for once, way, sizes in said_in_rounds(work))
    except (RuntimeError, ValueError, KeyError) as error:
        raise UserError(f"{work.spec.algorithm} cannot be played on this table: {error}") from None


def _uploads(work: SiteWork, channel: Channel) -> tuple[Disclosure, ...]:
    """What leaves in each exchange: of those before round 1, and of a round."""
    try:
        with explained(work.algorithm):
            script = rehearse(work.worker, work.tasks[0], len(work.plan.parties))
    except (RuntimeError, ValueError, KeyError) as error:
        raise UserError(f"{work.spec.algorithm} cannot be played on this table: {error}") from None
    found = []
    for number, line in enumerate((*script.prepare, *script.round)):
        sizes = {key.removeprefix("engine/"): value.numel() for key, value in line.message.vectors.items()}
        sizes |= {"weight": 1} | ({} if line.message.loss is None else {"loss": 1})
        # With noise, all sites weigh the same and tell no loss.
        unsaid = ("weight", "loss") if channel.uniform_weights else ()
        sizes = {key: size for key, size in sizes.items() if size and key not in unsaid}
        found.append(Disclosure(line.kind, sizes, once=number < len(script.prepare)))
    return tuple(found)


def _fewer(data: Dataset) -> Dataset:
    """At most so many rows of each class."""
    chosen = [np.flatnonzero(data.y == label)[:_MOST_ROWS] for label in range(len(data.classes))]
    rows = np.sort(np.concatenate(chosen))
    return replace(data, x=data.x[rows], y=data.y[rows])


def _hidden(plan: Plan, channel: Channel) -> str:
    """Over whom a sum is that hides single updates, and against whom that holds."""
    if plan.one_trip is not None:
        return (
            f"only the sum over all {plan.cohort} sites that are asked, in one trip, and noise while one is "
            "missing. That holds against a server that lies; sites in league with it have the sum of the others' "
            "updates"
        )
    if plan.several_trips:
        return (
            f"only the sum over all {plan.cohort} sites, in five trips, which bear that a site vanishes after it "
            "has added. That holds against a server that lies with under a third of the sites in league"
        )
    over = f"only the sum over the sites that answered, {plan.needed(plan.cohort)} of {plan.cohort} at least"
    if isinstance(channel.hidden, Masked):
        return f"{over}, in five trips. That holds against a server that lies with under a third of them in league"
    return f"{over}. One site in league with it can read the others' updates" if channel.hidden else ""


def _noise(channel: Channel) -> str:
    noise = channel.noise
    if noise is None:
        return ""
    where = {
        "server": "added by the server to the sum: you trust it to do so",
        "party": "added here, before anything leaves",
        "shared": "added here in parts that make up the whole together with the others'",
    }
    return f"{CHANNELS.brief(channel)}, {where[noise.where]}"


def _epsilon(plan: Plan, number: int, channel: Channel, uploads: Sequence[Disclosure]) -> float | None:
    """Of the whole run for this party, if everybody answers every time."""
    spec, parties = plan.spec, len(plan.parties)
    if channel.noise is None:
        return None
    own = sum(number in cohort_of(spec, parties, round) for round in range(1, spec.rounds + 1))
    before = sum(one.once for one in uploads)
    rounds = Counter({len(uploads) - before: spec.rounds})
    if before:  # all take part in what prepares
        rounds[before] += 1
        own += 1
    done = Participation(rounds, max(rounds) * own)
    return Accountant(channel, parties, cohort_size(spec, parties), known=True).epsilon(done)
