"""What a site with columns of its own brings to a protocol: its part of the people that all sites know."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from unalike.algorithms.protocol import SERVER, Me, Own, Pace, Protocol, PublicTerms
from unalike.data.dataset import Array
from unalike.data.sites.side_by_side import SidePeople
from unalike.federation.columns_agreed import ColumnOffer, ColumnsAgreed
from unalike.federation.contents import digest_of
from unalike.federation.once import Once
from unalike.federation.plan import Plan
from unalike.federation.roles import SitePart
from unalike.federation.turns import SiteTurns
from unalike.models import MODELS
from unalike.partition.holdout import hold_out
from unalike.randomness import stream
from unalike.rounds.conversation import role_random
from unalike.runs.spec import RunSpec
from unalike.secure.crypto.primitives import derive


@dataclass(frozen=True, eq=False)
class PeopleSplit:
    """The places of common people who are no test people: to train on, to select and to report by."""

    train: Array
    validation: Array
    held_out: Array


def split_people(spec: RunSpec, people: int) -> PeopleSplit:
    """What the people that all sites know are for: no label is looked at, as most sites have none."""
    places, alike = np.arange(people), np.zeros(people, np.int64)
    return PeopleSplit(*hold_out(places, alike, spec.validation, spec.held_out, stream(spec.seed, "holdout", 0)))


def column_terms(plan: Plan, agreed: ColumnsAgreed) -> PublicTerms:
    """What all roles know of a run between sites with other columns, as in simulation."""
    spec = plan.spec
    return PublicTerms(
        parties=len(plan.parties),
        rounds=spec.rounds,
        seed=spec.seed,
        model=MODELS.build(str(spec.model)),
        features=sum(agreed.columns),
        classes=agreed.classes,
        label_holder=agreed.label_holder,
        columns=agreed.columns,
        pace=Pace(spec.lr, spec.epochs or 1.0, spec.steps, spec.batch_size, spec.lr_decay),
    )


def columns_told(plan: Plan, agreed: ColumnsAgreed) -> bytes:
    """What every role has been told before round 0: the plan, and what was agreed on."""
    return bytes.fromhex(digest_of(b"unalike columns", plan.digest.encode(), agreed.digest.encode()))


def tried_session(first: bytes) -> bytes:
    """The conversation in which the model is tried on people of the run."""
    return bytes.fromhex(digest_of(b"tried", first))


def column_server(plan: Plan, agreed: ColumnsAgreed) -> Me:
    """The server's role, which has no rows and no secrets."""
    return Me(column_terms(plan, agreed), SERVER, None, role_random(plan.spec.seed, SERVER))


def site_secret(key: bytes, conversation: bytes) -> Callable[[str, tuple[int, ...]], bytes]:
    """Where a role at a real site has its secrets from: the site's own key, by conversation, use and place."""

    def draw(use: str, place: tuple[int, ...]) -> bytes:
        return derive(key, b"unalike secret" + json.dumps([conversation.hex(), use, list(place)]).encode())

    return draw


class ColumnWork:
    """One site's part of a run by a protocol between sites with other columns."""

    def __init__(
        self,
        plan: Plan,
        agreed: ColumnsAgreed,
        side: SidePeople,
        number: int,
        secret: bytes,
        once: Once | None = None,
    ) -> None:
        self.plan, self.agreed, self.side, self.number, self.spec = plan, agreed, side, number, plan.spec
        self._secret, self._once = secret, once
        self.first = columns_told(plan, agreed)
        known = side.x[~side.test]
        self.split = split_people(plan.spec, len(known))
        terms = column_terms(plan, agreed)
        own = self._own(known, np.concatenate([self.split.train, self.split.validation]))
        secrets = site_secret(secret, self.first)
        me = Me(terms, number, own, role_random(plan.spec.seed, number), draw_secret=secrets)
        self.turns = SiteTurns(plan, SitePart(me, self.first, self.first, self.rows_digest), once)
        self.trying = self.predicting(tried_session(self.first), self._tried_rows())

    @property
    def protocol(self) -> Protocol:
        """The protocol by which the sites talk."""
        return self.turns.protocol

    @property
    def me(self) -> Me:
        """All that this site's role can see."""
        return self.turns.me

    @property
    def holds_label(self) -> bool:
        """Whether this is the site that has the labels."""
        return self.agreed.label_holder == self.number

    @property
    def rows_digest(self) -> str:
        """SHA-256 of the site's own coded rows of the people that all sites know."""
        side = self.side
        parts = [side.x, side.test, side.apart, *(y for y in (side.y, side.apart_y) if y is not None)]
        return digest_of(*(np.ascontiguousarray(part).tobytes() for part in parts))

    def _own(self, known: Array, places: Array) -> Own:
        """The rows that this site trains with: of common people first, then of those whom not all know."""
        side, count = self.side, len(self.split.train)
        here = np.arange(len(places) + len(side.apart))
        x = np.concatenate([known[places], side.apart])
        y = np.zeros(0, np.int64)
        if side.y is not None and side.apart_y is not None:
            y = np.concatenate([side.y[~side.test][places], side.apart_y])
        return Own(x, y, here[:count], here[count : len(places)], here[len(places) :])

    def _tried_rows(self) -> Array:
        """The rows of all whom the model is tried on: test people, and those to select and to report by."""
        side, split = self.side, self.split
        known = side.x[~side.test]
        return np.concatenate([side.x[side.test], known[split.validation], known[split.held_out]])

    def tried_labels(self) -> dict[str, Array]:
        """At the label holder, the labels of these people, by what they are for, in the same order."""
        side = self.side
        assert side.y is not None
        known = side.y[~side.test]
        return {
            "test": side.y[side.test],
            "validation": known[self.split.validation],
            "held_out": known[self.split.held_out],
        }

    def predicting(self, session: bytes, x: Array) -> SiteTurns:
        """This site's role in a conversation in which some people are predicted, by its columns of them."""
        own = Own(x, np.zeros(0, np.int64), np.arange(len(x)), np.zeros(0, np.int64))
        secrets = site_secret(self._secret, session)
        me = replace(self.me, data=own, kept={}, draw_secret=secrets)
        rows = digest_of(np.ascontiguousarray(x).tobytes())
        return SiteTurns(self.plan, SitePart(me, self.first, session, rows), self._once, "predict")


def offer_of(side: SidePeople, matched: str) -> ColumnOffer:
    """What a site tells of its part: sizes, and nothing of any person."""
    test = int(side.test.sum())
    classes = 0 if side.y is None else len(side.schema.classes)
    return ColumnOffer(side.x.shape[1], classes, len(side.x) - test, test, matched)
