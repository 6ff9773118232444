"""What a site with columns of its own is asked to agree to: from the plan, and from its own table.

Nothing is sent. What each kind of role learns of the others is told in the algorithm's own words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unalike.algorithms import ALGORITHMS
from unalike.data.columns import Column
from unalike.data.digest import table_digest
from unalike.data.sites.side_by_side import SidePeople, side_people
from unalike.federation.column_work import column_terms
from unalike.federation.columns_agreed import ColumnsAgreed
from unalike.federation.plan import Plan


@dataclass(frozen=True)
class ColumnTerms:
    """What a site is asked to agree to, where sites have other columns of the same people."""

    plan: Plan
    algorithm: str
    summary: str
    paper: str
    holds_label: bool
    columns: tuple[str, ...]
    coded: int
    people: int
    """how many ids it would bring to the matching"""
    learns: Mapping[str, str]
    """what each kind of role learns of the others, in the algorithm's own words"""
    rows: str
    """SHA-256 of the site's own rows: an agreement is for these"""


def column_terms_of(plan: Plan, name: str, columns: Sequence[Column]) -> ColumnTerms:
    """The terms for a site with this table; a table that does not suit the plan is told here."""
    assert plan.protocol is not None
    rule = plan.people
    label, features = rule.roles(columns)
    rows, _ = rule.rows(columns)
    side = side_people(columns, rows, rule)
    number = plan.number(name)
    agreed = _made_up(plan, number, side)
    entry = ALGORITHMS.entry_of(plan.protocol)
    terms = column_terms(plan, agreed)
    return ColumnTerms(
        plan=plan,
        algorithm=ALGORITHMS.brief(plan.protocol),  # type: ignore[arg-type]
        summary=entry.summary,
        paper=entry.paper,
        holds_label=label is not None,
        columns=tuple(one.name for one in features),
        coded=agreed.columns[number],
        people=len(rows),
        learns=dict(plan.protocol.learns(terms)),
        rows=table_digest(list(columns)),
    )


def _made_up(plan: Plan, number: int, side: SidePeople) -> ColumnsAgreed:
    """Sizes as if all sites had as many columns as this one; another has the label, unless it is here."""
    parties, test = len(plan.parties), int(side.test.sum())
    holder = number if side.y is not None else (number + 1) % parties
    classes = len(side.schema.classes) if side.y is not None else 2
    width = side.x.shape[1]
    return ColumnsAgreed((width,) * parties, holder, classes, len(side.x) - test, test, "")
