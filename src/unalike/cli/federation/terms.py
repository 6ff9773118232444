"""What a site is asked to agree to, in plain words."""

from __future__ import annotations

from unalike.cli.show import Paragraph, draw, duration
from unalike.cli.table import Table, table
from unalike.data.schema import MEASURED
from unalike.federation.folders import Card
from unalike.federation.public import TABLE
from unalike.federation.terms import Disclosure, Terms
from unalike.models import MODELS
from unalike.runs.rules import cohort_rule
from unalike.scores import choose

_WORDS = {
    "weight": "how much this site counts: its number of training rows",
    "loss": "the mean training loss",
    "buffers": "running statistics of batch norm",
}
_SAID = {
    "labels": "how many rows have each label",
    "rows": "how many rows are in which range of a column's values, to choose cuts by",
    "validation": "how many validation rows there are",
    "histograms": "the sums by node and bin",
    "loss": "the summed loss on the validation rows",
}
"""What the names are that protocols of trees say things under."""
_SUMS = {
    "confusion": "how many rows of each class were taken for which class",
    "odds": "histograms of the probabilities, by class",
    "distances": "the sum of the probabilities' squared errors",
    "calibration": "how many were right by the model's confidence",
}
"""What a site tells of its rows for scores other than accuracy."""
_KINDS = {
    "train": "after training",
    "measure": "after one pass over the training rows",
    "measure+train": "after one pass over the training rows and training",
    "train+measure": "after training and one pass over the training rows",
    "offer": "after a look at all training rows",
    "added": "added to what the other sites have",
    "mailed": "as it is",
}
OF_ROWS = ("rows", "mean rows")
"""What an algorithm may send that a site must agree to by name."""
_SENDS = {
    "nothing": "nothing: every site trains alone",
    "updates": "what the model learnt here: changes of its weights, and sums that the algorithm makes of them",
    "scores on public rows": "how the model of this site scores the public rows that everybody has; no weights",
    "scores by label": "which labels this site's rows have, and for each what the model of this site says of such "
    "rows on the average; no weights",
    "features": "features: what the net makes of this site's rows",
    "sums of gradients": "sums over rows: for every node of a tree that is tried and every bin of a column, how "
    "far its rows are from what is predicted (first and second derivatives of the loss), and how many they are",
    "trees": "whole trees that were grown on this site's rows: columns, cuts, values and how many rows a node has",
    "scores": "what this site's part of the model says of rows",
    "mean rows": "MEAN ROWS: averages of rows of this site's own table, which may show single ones",
    "rows": "ROWS of this site's own table",
}


def show_terms(terms: Terms, name: str, data: str) -> None:
    """Print what a site is asked to agree to: who takes part, what leaves the site, and who can see it."""
    parts = [
        *_who(terms, name),
        "",
        *_what(terms),
        "",
        "WHAT LEAVES THIS SITE",
        f"  The algorithm sends {_SENDS[terms.plan.sends]}.",
        *_description(terms, data),
        *(line for upload in terms.uploads for line in _upload(upload)),
        *_gradients(terms),
        *_figures(terms),
        *_measure(terms),
        f"  {'Rows never leave. ' * (terms.plan.sends not in OF_ROWS)}Every message is noted in audit.jsonl, with "
        f"its size and its hash{'' if terms.plan.protocol is None else '; the turns of a round together'}.",
        "",
        "WHO CAN SEE IT",
        *_privacy(terms),
        "",
    ]
    draw(*(_paragraph(part) if isinstance(part, str) else part for part in parts))


def _paragraph(line: str) -> Paragraph:
    """The line, wrapped under its own first word."""
    text = line.lstrip()
    return Paragraph(text, len(line) - len(text))


def _who(terms: Terms, name: str) -> list[str]:
    plan = terms.plan
    server = Card("server", plan.server).fingerprint
    others = [party for party in plan.parties if party != name]
    return [
        f"You are asked to take part in the federation {plan.name}, as {name}.",
        "",
        "WHO",
        f"  server  at {plan.address}, key {server}",
        f"  others  {', '.join(others)}",
        "  The server tells the others' keys when training begins; from then on, this site refuses other ones.",
    ]


def _what(terms: Terms) -> list[str]:
    plan = terms.plan
    ignored = f", ignoring {', '.join(plan.ignore)}" if plan.ignore else ""
    needed = f"{plan.quorum} of {len(plan.parties)} sites" if plan.quorum else "every site that is asked"
    return [
        "WHAT WILL BE DONE",
        f"  algorithm  {terms.algorithm}: {terms.summary}",
        *([f"             {terms.paper}"] if terms.paper else []),
        *_model_and_work(terms),
        f"  predicts   {plan.label}; the other {len(terms.description.columns)} columns are used{ignored}",
        *_cohorts(terms),
        *([f"  public     {terms.public:,} rows that everybody has ({TABLE})"] if terms.public else []),
        f"  waiting    an answer may take {duration(plan.deadline)}; {needed} must answer, else training pauses",
    ]


def _cohorts(terms: Terms) -> list[str]:
    """Who is asked in a round, where that goes by what the plan tells all sites of each one's rows."""
    parties, rule = terms.plan.parties, cohort_rule(terms.plan.spec)
    if rule.uniform or terms.plan.cohort == len(parties):
        return []
    groups = [group.strip() for group in getattr(rule, "declared", "").split("|")]
    told = "; ".join(f"{name} {group}" for name, group in zip(parties, groups, strict=True))
    return [
        f"  cohorts    {terms.plan.cohort} of {len(parties)} sites in a round, chosen by declared label counts. "
        f"THE PLAN TELLS THE SERVER AND ALL SITES {rule.reveals}: {told}",
    ]


def _model_and_work(terms: Terms) -> list[str]:
    run = terms.plan.spec
    if terms.plan.protocol is not None:
        return [
            f"  model      {MODELS.brief(MODELS.build(str(run.model)))}",
            f"  training   up to {run.rounds} rounds; in each, all sites work on the next part of the model, turn",
            "             by turn; a round that a site leaves is begun again",
        ]
    count, unit = (run.steps, "step") if run.steps else (run.epochs, "epoch")
    work = f"{count} local {unit}{'' if count == 1 else 's'}"
    return [
        f"  model      {run.model}, {terms.weights:,} weights on this table's columns alone",
        f"  training   {run.rounds} rounds; in each, {work} with learning rate {run.lr:g}",
    ]


def _gradients(terms: Terms) -> list[str]:
    """What sums of gradients tell, where they leave; it is more than that they are sums."""
    if terms.plan.sends != "sums of gradients":
        return []
    least = getattr(MODELS.build(str(terms.plan.spec.model)), "least_rows", 1)
    told = [
        "  What these sums tell: of the first tree, how many rows have each label in every bin of every column. "
        "They are exact, and no noise is in them. A bin with a single row tells that row's label."
    ]
    if terms.hidden:
        whose = f"all {len(terms.plan.parties)} sites together, never of this site alone"
    else:
        whose = "THIS SITE ALONE, bin by bin: the server can read this site's columns one by one from them"
    return [
        *told,
        f"  They are of {whose}. A node of a tree has {least} rows of all sites or more; a bin may have fewer.",
        "  All sites are told the trees as they grow: columns, cuts, and how many rows of all sites a node has.",
    ]


def _description(terms: Terms, data: str) -> list[str | Table]:
    told = terms.description
    rows = []
    for column in told.columns:
        if column.kind in MEASURED:
            what = "how many, their mean and standard deviation" if column.count else "nothing: no value is known"
            if column.kind == "date":
                what += ", in days. DATES CAN BE PERSONAL: is it one of birth?"
        else:
            what = f"its {len(column.values)} values: {_short(column.values)}"
        rows.append([f"    {column.name}", column.kind, what + (", and that some are missing" * column.missing)])
    rows.append([f"    {told.label}", "label", f"its {len(told.classes)} classes: {_short(told.classes)}"])
    return [
        f"  Once, before training, a description of {data}: {told.rows:,} training rows, and of each column",
        table(["    column", "type", "what is told"], rows, text=["what is told"]),
    ]


def _short(values: tuple[str, ...], most: int = 6) -> str:
    shown = ", ".join(values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most} more"


def _upload(upload: Disclosure) -> list[str]:
    lines = [f"  {'Once, before round 1' if upload.once else 'In every round'}, {_KINDS[upload.kind]}:"]
    talked = upload.kind in ("added", "mailed")
    for key, count in upload.sizes.items():
        numbers = f"{count:,} number{'' if count == 1 else 's'}"
        if talked:  # how many there are depends on the others' rows too
            what = f"about {numbers}: {_SAID.get(key, 'what the protocol makes of rows')}"
        else:
            what = _WORDS.get(key, f"{numbers}: what the algorithm learnt here")
        lines.append(f"    {key:<10} {what}")
    return lines


def _figures(terms: Terms) -> list[str]:
    if terms.plan.figures == "none":
        return ["  No figures: how well the model does on this site's rows stays here."]
    score = choose(terms.plan.spec.score, "classification")
    needs = ", ".join(_SUMS[part] for part in score.needs if part != "right")
    more = [f"  For {score.name} also: {needs}."] if needs else []
    return [
        "  After a round: number of own test, validation and held-out rows, their summed loss, and how many were",
        "  right.",
        *more,
        f"  After the last round, of the test rows: {', '.join(_SUMS[part] for part in _SUMS)}.",
    ]


def _measure(terms: Terms) -> list[str]:
    if not terms.plan.measure:
        return []
    return [
        "  If the server measures how unalike the sites are: the labels that occur, each column's range (widened",
        "    at random), counts that are seen only as a sum of all sites, and this site's degrees, rounded.",
    ]


def _privacy(terms: Terms) -> list[str]:
    lines = []
    if terms.hidden:
        lines.append(f"  Channel {terms.channel}: the server sees {terms.hidden}.")
    else:
        lines.append("  The server sees this site's own update, not only the sum with the others'.")
        lines.append("  Updates can reveal something about rows: see docs/threat-model.md.")
    if terms.noise:
        lines.append(f"  Noise: {terms.noise}.")
        if terms.epsilon is not None:
            epsilon = f"epsilon {terms.epsilon:.3g} at delta {terms.delta:g}"
            lines.append(f"  Over the whole training that is {epsilon} for this site's updates;")
            lines.append("  the description before training and the figures after a round are not covered by it.")
    else:
        lines.append("  No noise is added: there is no differential privacy.")
    lines.append(
        "  On the way everything is encrypted (TLS) and signed. The other sites see the model, not your update."
    )
    return lines
