"""What a site with columns of its own is asked to agree to, in plain words."""

from __future__ import annotations

from unalike.cli.show import Paragraph, draw, duration
from unalike.federation.column_terms import ColumnTerms
from unalike.federation.folders import Card
from unalike.federation.people import matching_told
from unalike.models import MODELS

SENDS = {
    "scores": "what this site's part of the model says of people, in sums or to single sites",
    "features": "features: what this site's part of the net makes of people",
    "encrypted gradients": "encrypted sums, and which way people go at a split; gradients are encrypted",
    "sums of scores": "sums of what this site's part of the model says of people",
}
"""What leaves a site for others, by what an algorithm of split columns says that it sends."""


def show_column_terms(terms: ColumnTerms, name: str, data: str) -> None:
    """Print what the site is asked to agree to: who takes part, what leaves it, and who learns what."""
    lines = [*_who(terms, name), "", *_what(terms, data), "", *_leaves(terms, data), "", *_learns(terms)]
    draw(*(Paragraph(line.strip(), len(line) - len(line.lstrip())) for line in lines), "")


def _who(terms: ColumnTerms, name: str) -> list[str]:
    plan = terms.plan
    return [
        f"You are asked to take part in the federation {plan.name}, as {name}.",
        "",
        "WHO",
        f"  server  at {plan.address}, key {Card('server', plan.server).fingerprint}",
        f"  others  {', '.join(party for party in plan.parties if party != name)}",
        "  All know the same people, each by columns of its own. The server tells the others' keys when people "
        "are matched; from then on, this site refuses other ones.",
    ]


def _what(terms: ColumnTerms, data: str) -> list[str]:
    plan, run = terms.plan, terms.plan.spec
    holder = "this site has it" if terms.holds_label else "another site has it"
    return [
        "WHAT WILL BE DONE",
        f"  people     matched by {', '.join(plan.id)}; {data} has {terms.people:,} ids",
        f"  algorithm  {terms.algorithm}: {terms.summary}",
        *([f"             {terms.paper}"] if terms.paper else []),
        f"  model      {MODELS.brief(MODELS.build(str(run.model)))}; every site keeps its own part",
        f"  training   up to {run.rounds} rounds, turn by turn; a round that a site leaves is begun again",
        f"  predicts   {plan.label}: {holder}",
        f"  reads      {len(terms.columns)} columns: {', '.join(terms.columns)}",
        f"  waiting    an answer may take {duration(plan.deadline)}; every site must answer, else training pauses",
    ]


def _leaves(terms: ColumnTerms, data: str) -> list[str]:
    plan = terms.plan
    told = "how many people it has, and how many columns they make" + (
        f" ({terms.coded}), and how many classes the label has" if terms.holds_label else f" ({terms.coded})"
    )
    lines = [
        "WHAT LEAVES THIS SITE",
        *(f"  {line}" for line in matching_told(plan)),
        f"  Before round 1: {told}. No name of a column, no value, no mean.",
        f"  In every round, for other sites: {SENDS.get(plan.sends, plan.sends)}.",
        "  Sealed: what one site tells another passes the server in boxes that only the two can open, and sums "
        "for one site under masks that only it can take away.",
    ]
    if terms.holds_label and plan.figures != "none":
        lines.append(
            "  After a round: figures of the model on common people (sums over people, and the mean training "
            "loss); at the end also what this site's own columns do alone."
        )
    return [*lines, "  Rows never leave. Every message is noted in audit.jsonl, with its size and its hash."]


def _learns(terms: ColumnTerms) -> list[str]:
    lines = ["WHO LEARNS WHAT FROM TRAINING"]
    mine = "label holder" if terms.holds_label else "other holders"
    for role, what in terms.learns.items():
        whose = " (this site)" if role == mine and terms.holds_label else ""
        lines.append(f"  {role}{whose}: {what.rstrip('.')}.")
    return [*lines, "  No noise is added, unless the algorithm above says so: there is no differential privacy."]
