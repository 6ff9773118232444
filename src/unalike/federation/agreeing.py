"""Before round 1: the sites describe their tables, agree on one coding, and say how many rows they train on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unalike.data.schema import Schema
from unalike.data.sites.agreement import agree
from unalike.data.sites.description import MOST_ROWS, Description
from unalike.errors import UserError
from unalike.federation.asking import Asking
from unalike.federation.envelope import Envelope, Refused, shown
from unalike.federation.folders import ServerFolder
from unalike.federation.plan import Plan
from unalike.federation.speaker import Speaker


def agreement(plan: Plan, speaker: Speaker, place: ServerFolder) -> tuple[Schema, list[int]]:
    """The schema that all sites agree on, and how many training rows each has.

    Both are kept: after a restart a quorum of the sites is enough, as in any exchange.
    """
    place.tell("agreeing on a schema")
    known, rows = place.schema(), place.rows()
    everybody = len(plan.parties)
    if known is None:
        told = ask_all(plan, speaker, {"kind": "describe"}, _description, everybody)
        known = agree({party: told[party] for party in plan.parties})
        place.keep_schema(known)
        rows = {}
        for label in known.classes:
            holders = [party for party in plan.parties if label in told[party].classes]
            if len(holders) == 1:
                speaker.say(f"The label {shown(label, 60)!r} occurs at {holders[0]} only: is that meant?")
    roster = {name: key.hex() for name, key in speaker.roster.items()}
    header = {"kind": "agree", "schema": known.to_dict(), "roster": roster}
    needed = plan.needed(everybody) if set(rows) == set(plan.parties) else everybody
    answers = ask_all(plan, speaker, header, rows_and_model, needed)
    place.models = {party: model for party, (_, model) in answers.items()}
    for party, (number, _) in answers.items():
        if number != rows.get(party, number):
            speaker.say(f"{party} has {number:,} training rows now, {rows[party]:,} before: is that meant?")
        rows[party] = number
    place.keep_rows(rows)
    return known, [rows[party] for party in plan.parties]


def ask_all(
    plan: Plan, speaker: Speaker, header: dict[str, Any], use: Callable[[Envelope], Any], needed: int
) -> dict[str, Any]:
    """What the sites answer, ``needed`` of them at least."""
    answers = Asking(speaker).everybody(dict.fromkeys(plan.parties, (header, b"")), needed)
    found = {}
    for party, message in answers.items():
        try:
            found[party] = use(message)
        except Refused as error:
            raise UserError(f"{party}: {error}.") from None
    return found


def _description(message: Envelope) -> Description:
    try:
        return Description.from_dict(message.header["description"])
    except (KeyError, ValueError) as error:
        raise Refused(f"its description is malformed: {error}") from None


def rows_and_model(message: Envelope) -> tuple[int, str]:
    """How many rows a site trains on, and the hash of what it makes of the plan."""
    rows, model = message.header.get("rows"), message.header.get("model")
    if type(rows) is not int or not isinstance(model, str):
        raise Refused("it does not say how many rows it has")
    if not 0 < rows <= MOST_ROWS:
        raise Refused(f"it cannot be how many rows it has: {shown(rows, 40)}; 1 to {MOST_ROWS:,} are possible")
    return rows, model
