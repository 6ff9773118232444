"""Before round 1 between sites with other columns: who has the label, how many columns and people there are."""

from __future__ import annotations

from unalike.federation.agreeing import ask_all, rows_and_model
from unalike.federation.column_site import OFFER, PROPOSAL
from unalike.federation.columns_agreed import ColumnOffer, ColumnsAgreed, columns_agreed
from unalike.federation.envelope import Envelope
from unalike.federation.folders import ServerFolder
from unalike.federation.plan import Plan
from unalike.federation.speaker import Speaker


def column_agreement(plan: Plan, speaker: Speaker, place: ServerFolder) -> ColumnsAgreed:
    """What all sites agree on; sizes and who has the label, and nothing of any column or person."""
    place.tell("agreeing on columns and people")
    told: dict[str, ColumnOffer] = ask_all(plan, speaker, {"kind": "describe"}, _offer, len(plan.parties))
    agreed = columns_agreed({party: told[party] for party in plan.parties}, plan.label)
    roster = {name: key.hex() for name, key in speaker.roster.items()}
    header = {"kind": "agree", PROPOSAL: agreed.to_dict(), "roster": roster}
    answers = ask_all(plan, speaker, header, rows_and_model, len(plan.parties))
    place.models = {party: model for party, (_, model) in answers.items()}
    place.keep_rows({party: rows for party, (rows, _) in answers.items()})
    return agreed


def _offer(message: Envelope) -> ColumnOffer:
    return ColumnOffer.read(message.header.get(OFFER))
