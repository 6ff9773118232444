"""Who is who in a protocol between real sites: its public terms, and what each role can see."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module

import numpy as np

from unalike.algorithms.protocol import SERVER, Arrays, Me, Own, PublicTerms, WrongMail
from unalike.channels import parse_channel
from unalike.data.dataset import Array, Dataset
from unalike.data.schema import Schema
from unalike.federation.contents import digest_of
from unalike.federation.envelope import Refused
from unalike.federation.plan import Plan
from unalike.federation.rows import split_rows
from unalike.models import MODELS
from unalike.rounds.conversation import role_random
from unalike.rounds.margins import Grown, as_table


def public_terms(plan: Plan, schema: Schema) -> PublicTerms:
    """What all roles know of the run, as in simulation."""
    spec = plan.spec
    return PublicTerms(
        parties=len(plan.parties),
        rounds=spec.rounds,
        seed=spec.seed,
        model=MODELS.build(str(spec.model)),
        features=len(schema.features),
        classes=len(schema.classes),
        hidden=parse_channel(spec.channel).hides_single,
    )


def the_server(plan: Plan, schema: Schema) -> Me:
    """The server's role, which has no rows."""
    return Me(public_terms(plan, schema), SERVER, None, role_random(plan.spec.seed, SERVER))


def the_site(plan: Plan, schema: Schema, data: Dataset, number: int) -> Me:
    """A site's role, with its own rows, split as in simulation."""
    split = split_rows(plan.spec, data, number)
    places: Array = np.concatenate([split.train, split.validation])
    here = np.arange(len(places), dtype=np.int64)
    count = len(split.train)
    own = Own(as_table(data.x, places), data.y[places], here[:count], here[count:])
    return Me(public_terms(plan, schema), number, own, role_random(plan.spec.seed, number))


@dataclass(frozen=True, eq=False)
class SitePart:
    """What a site brings to one conversation: what it sees there, and what decides that."""

    me: Me
    first: bytes
    """what it was told before round 0"""
    session: bytes
    """which conversation it is: what mail and sums between sites are bound to"""
    rows: str
    """SHA-256 of its own rows"""


def site_of_rows(plan: Plan, schema: Schema, data: Dataset, number: int) -> SitePart:
    """What a site with rows of its own brings to training."""
    first = first_told(plan, schema)
    rows = digest_of(np.ascontiguousarray(data.x).tobytes(), np.ascontiguousarray(data.y).tobytes())
    return SitePart(the_site(plan, schema, data, number), first, first, rows)


def named(error: WrongMail, plan: Plan) -> Refused:
    """What is wrong with somebody's mail, with the name of the site in place of its number."""
    text = str(error)
    if 0 <= error.sender < len(plan.parties):
        text = text.replace(f"Party {error.sender}", plan.parties[error.sender], 1)
    return Refused(text)


def first_told(plan: Plan, schema: Schema) -> bytes:
    """What every role has been told before round 0: the plan and the agreed schema."""
    return sha256(b"unalike turns" + f"{plan.digest} {schema.digest}".encode()).digest()


def terms_digest(plan: Plan, schema: Schema) -> str:
    """SHA-256 of what a protocol starts from: where two sides agree, they have the same parts."""
    terms = public_terms(plan, schema)
    told = (
        f"{plan.digest} {schema.digest} {plan.spec.algorithm} {plan.spec.model} {terms.features} {terms.classes}"
    )
    return sha256(told.encode()).hexdigest()


def grown(terms: PublicTerms, arrays: Arrays) -> Grown:
    """The model in such arrays, ready for rows; a ValueError where they are none."""
    module, _, name = str(terms.model.predictor).partition(":")
    made: Grown = getattr(import_module(module), name).of(arrays, terms.model, terms.classes, terms.target)
    return made
