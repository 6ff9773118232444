"""What a plan says where sites have other columns of the same people, whom they match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.data.sites.ids import IdRule
from unalike.data.sites.people import People
from unalike.data.sites.side_by_side import PeopleRule
from unalike.errors import UserError

if TYPE_CHECKING:
    from unalike.federation.plan import Plan

MOST_IDS = 4_000_000
"""Ids that a site can bring: more do not fit into one message."""
FIELDS = ("id", "id_case", "id_strip", "least_common", "most_ids")
"""Of a plan, what there is to say of ids."""


def check_people(plan: Plan) -> None:
    """Refuse what makes no sense where people are matched, or without anybody to match."""
    splits = plan.splits_columns
    if splits != bool(plan.id):
        if splits:
            raise UserError(
                f"{plan.spec.algorithm} is for sites with other columns of the same people. Say which column "
                "tells who a row is of: --id COLUMN."
            )
        raise UserError(
            f"{plan.spec.algorithm} is for sites with other people and the same columns: nobody is matched. "
            "Leave --id out, or choose an algorithm for split columns."
        )
    if not splits:
        return
    if not plan.label:
        raise UserError("Of sites with other columns one has the label: say which column it is with --label.")
    people_rule(plan)
    if plan.public:
        raise UserError("Sites with other columns have no public rows in common. Leave --public out.")
    if not 2 <= plan.least_common <= plan.most_ids <= MOST_IDS:
        raise UserError(
            f"least_common and most_ids must be 2 or more and at most {MOST_IDS:,}, the first not above the "
            f"second; got {plan.least_common:,} and {plan.most_ids:,}."
        )


def people_rule(plan: Plan) -> PeopleRule:
    """What all sites declare alike of their tables."""
    id = IdRule(plan.id, plan.id_case, plan.id_strip)
    return PeopleRule(id, plan.label, plan.ignore, plan.missing, plan.test)


def people_tables(plan: Plan, folder: str) -> People:
    """The sites' tables in a folder, where all are in one place."""
    rule = people_rule(plan)
    return People(
        folder,
        *(rule.label, rule.id.columns, rule.id.case, rule.id.strip, rule.ignore, rule.missing, rule.test),
        types=plan.types,
        least_common=plan.least_common,
    )


def matching_told(plan: Plan) -> list[str]:
    """What a matching tells, in plain sentences, for those who are asked to agree to it."""
    ids, sites = ", ".join(plan.id), len(plan.parties)
    return [
        f"People are matched by {ids}. No id leaves this site: of each a point of a curve leaves, to a power that "
        "only this site knows and that is another one in each matching, sealed for one other site.",
        f"All {sites} sites learn whom all of them know: which of their own rows these are. They learn of nobody "
        "whom only some of the others know, and not how many these are. All learn how many ids each site brings "
        f"(at most {plan.most_ids:,}) and how many people are common; the server learns these numbers alone.",
        "A site that brings ids of people whom it does not know learns which of them are common to all, so look "
        "at how many ids the others bring. The site with the label and another one that work together can learn "
        "which of its people each other site knows.",
        f"With fewer than {plan.least_common:,} common people nothing is done, and only their number is told.",
    ]
