"""Which algorithm fits parties that are this unalike: from NIID-Bench's table, and from runs made here.

NIID-Bench (Li et al. 2022, arXiv:2102.02079), section 5.1.1 and figure 6, decides by the kind of skew: FedProx
where every party has one label, FedProx for other label skew, SCAFFOLD for feature skew, FedProx for quantity
skew. Here the kind of skew is measured, and the ranking is computed from the paper's Table 3 and this project's
own runs of its cells (``shipped``), so that it comes with how often and by how much. Where they do not show that
another is better, FedAvg is as good, and is recommended as the simplest. Runs of one's own with similar degrees
take precedence once there are enough of them. For regression, of which there are no tables, they are all that
counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from unalike.measure.situation import Kind, Situation
from unalike.ranking.deployed import command_of
from unalike.ranking.published import OURS
from unalike.ranking.shipped import PUBLISHED, SOURCE, by_source, evidence, gaps
from unalike.ranking.splits import PAPER
from unalike.ranking.standing import REFERENCE, Comparison, Standing, standings
from unalike.tallies import Kind as Task

Confidence = Literal["low", "medium", "high"]

SUGGESTED = {"fedprox": "fedprox(mu=0.01)"}
"""Where the paper tunes a parameter, the value to begin with."""
TUNED = {"fedprox": "Its mu was tuned for each data set among 0.001, 0.01, 0.1 and 1: do so on validation rows."}
ENOUGH = 5
"""Comparisons of one's own with FedAvg that outweigh the paper: the fewest that can show a difference."""
UNTRIED = Standing(REFERENCE, 0, 0, 0, 0.0, 0.0, 0.5, 1.0)
"""FedAvg, where nothing is known of any algorithm."""
PLACES = {PUBLISHED: "published", OURS: "ours"}
"""The tables that ship with the package, as columns of the ranking are headed."""
_NOISY = 0.25


@dataclass(frozen=True)
class Advice:
    """Algorithms, best first, and why.

    source: where the ranking is from. confidence: of the first being better than FedAvg at all. reasons and doubts
    are sentences: the second say what would change the ranking.
    """

    situation: Situation
    kind: Kind
    ranking: tuple[Standing, ...]
    source: str
    confidence: Confidence
    reasons: tuple[str, ...]
    doubts: tuple[str, ...]
    reference: str = REFERENCE
    """What the others are compared with."""
    own_models: bool = False
    """Whether it is for parties that each use a model of their own, on their own rows."""
    by_source: Mapping[str, tuple[Standing, ...]] = field(default_factory=dict)
    """By table that ships with the package, how algorithms stand in it alone; empty where one's own runs lead."""
    trees: tuple[str, ...] = ()
    """Sentences on boosted trees, where the rows are a table and one model is for all."""

    @property
    def algorithm(self) -> str:
        """The first, as ``--algorithm`` takes it."""
        return self.options["algorithm"]

    @property
    def options(self) -> dict[str, str]:
        """The options of ``unalike run`` that play the first: its algorithm, and perhaps epochs of fine-tuning."""
        return command_of(text_of(self.ranking[0].algorithm))

    def to_dict(self) -> dict[str, Any]:
        """One object, ready for JSON."""
        made = asdict(self)
        made["ranking"] = [{**asdict(one), "algorithm": text_of(one.algorithm)} for one in self.ranking]
        return {"algorithm": self.algorithm, "options": self.options, **made}


def text_of(algorithm: str) -> str:
    """The algorithm with the parameters to begin with."""
    return SUGGESTED.get(algorithm, algorithm)


def recommend(situation: Situation, own: Sequence[Comparison] = (), task: Task = "classification") -> Advice:
    """Advice for a situation. ``own`` are comparisons of runs with parties about as unalike (``evidence``)."""
    kind = situation.kind
    known = task == "classification"
    mine = _by_own_runs(own)
    ranking = mine or (evidence(kind) if known else [UNTRIED])
    source = "no comparisons"
    if mine:
        source = f"{len(own)} comparisons of your own runs"
    elif known:
        source = SOURCE
    apart = by_source(kind) if known and not mine else {}
    return Advice(
        situation,
        kind,
        tuple(ranking),
        source,
        "low" if apart and kind not in PAPER else confidence_of(ranking[0]),
        tuple(_reasons(situation, kind, ranking, source, apart, task)),
        tuple(_doubts(situation, kind, ranking, None if mine else len(own), known)),
        by_source=apart,
    )


def _by_own_runs(own: Sequence[Comparison]) -> list[Standing]:
    """By one's own runs, if some algorithm was compared often enough; those that were not come last."""
    found = standings(own)
    often = [one for one in found if one.comparisons >= ENOUGH]
    if not any(one.algorithm != REFERENCE for one in often):
        return []
    return often + [one for one in found if one.comparisons < ENOUGH]


def confidence_of(first: Standing, reference: str = REFERENCE) -> Confidence:
    """Of the first in a ranking being better than the reference, FedAvg; of that, being as good as any."""
    if first.algorithm == reference:
        return "medium" if first.comparisons >= 5 else "low"
    if first.chance >= 0.75 and first.comparisons >= 5:
        return "high"
    return "medium" if first.chance > 0.6 else "low"


def _reasons(
    situation: Situation,
    kind: Kind,
    ranking: Sequence[Standing],
    source: str,
    apart: Mapping[str, Sequence[Standing]],
    task: Task,
) -> list[str]:
    """``apart``: how algorithms stand in each table alone, where the ranking is theirs."""
    features = (
        ""
        if situation.feature is None
        else f", features by {situation.feature:.2f} (by chance {situation.feature_expected or 0.0:.2f})"
    )
    labels = "Labels" if task == "classification" else "Labels (ranges of the target)"
    said = [
        f"{labels} differ by {situation.label:.2f} (by chance {situation.label_expected:.2f}), sizes by "
        f"{situation.quantity:.2f}{features}. That is: {kind}."
    ]
    first = ranking[0]
    if first is UNTRIED:
        said.append(
            "FedAvg is the simplest. Which algorithm predicts numbers better is not known: published comparisons "
            "are of classification, and you have too few of your own."
        )
    elif first.algorithm != REFERENCE:
        said.append(f"{_record(first)} ({source}). Chance would hardly do that: p = {first.p:.3f}.")
    else:
        said.append(
            f"FedAvg is as good as any: no other was better by more than chance makes ({source}; Wilcoxon's "
            "signed-rank test at 5 %), and FedAvg is the simplest."
        )
    tree = PAPER.get(kind) if apart else None
    named = next((one for one in apart.get(PUBLISHED, ()) if one.algorithm == tree != REFERENCE), None)
    if named is not None:
        said.append(f"NIID-Bench's tree names {tree}; in its own table {_record(named)} (p = {named.p:.2f}).")
        said += [
            f"In our runs of that table's cells {_record(one)}." for one in apart[OURS] if one.algorithm == tree
        ]
    elif first.algorithm == REFERENCE and len(ranking) > 1:
        said.append(f"Next, {_record(ranking[1])} (p = {ranking[1].p:.2f}).")
    name = first.algorithm.split("(")[0]
    return [*said, TUNED[name]] if name in TUNED else said


def _record(one: Standing) -> str:
    return (
        f"{one.algorithm} was better than FedAvg in {one.better} and worse in {one.worse} of {one.comparisons} "
        f"comparisons, by {one.median_gain:+.1f} points in the median and {one.worst_gain:+.1f} at worst"
    )


def _doubts(
    situation: Situation, kind: Kind, ranking: Sequence[Standing], few: int | None, published: bool
) -> list[str]:
    """``few``: how many comparisons of one's own there are, where they were not enough."""
    said = []
    if few is not None:
        then = "outweigh the paper, whose data are not yours" if published else "show which is better"
        said.append(
            f"Runs of your own would: {ENOUGH} comparisons with similar parties (the same settings with FedAvg "
            f"and another algorithm; you have {few}) {then}."
        )
    elif published and ranking[0].algorithm.split("(")[0] != PAPER.get(kind, ranking[0].algorithm.split("(")[0]):
        said.append(f"NIID-Bench's tree would have named {text_of(PAPER[kind])}.")
    if published and few is not None:
        said += _of_the_tables(kind)
    if kind in ("quantity skew", "alike"):
        said.append(_unseen(situation))
    if situation.label_expected > _NOISY:
        said.append(
            f"Parties have so few rows that chance alone makes labels differ by {situation.label_expected:.2f}: "
            "the kind of skew is uncertain."
        )
    if published and situation.feature is None and kind in ("quantity skew", "alike"):
        said.append("Features were not measured; if they differ, SCAFFOLD may be better.")
    if kind in ("label skew", "one label each") and situation.feature_skewed:
        said.append(_features_too(situation))
    close = [one for one in ranking[1:] if one.chance >= 0.45 and one.algorithm != REFERENCE]
    if close:
        said.append(f"Close, and worth a try: {', '.join(text_of(one.algorithm) for one in close)}.")
    return said


def _of_the_tables(kind: Kind) -> list[str]:
    """What is to be known of the evidence that ships with the package."""
    said = []
    if kind not in PAPER:
        said.append(
            "No table has parties whose labels and features both differ: the evidence is of the one or the other."
        )
    found = gaps(kind)
    if found:
        said.append(f"Came out otherwise in our runs (points over FedAvg): {'; '.join(map(str, found))}.")
    return said


def _features_too(situation: Situation) -> str:
    if situation.features_of_their_own:
        return "Features differ too, by more than the labels explain."
    return "Features differ too; part of that follows from the labels."


def _unseen(situation: Situation) -> str:
    """What does not show in these degrees, and may cost much."""
    if situation.concept is None:
        return (
            "Labels and features one by one do not show parties that give the same rows other labels (digits with "
            "label-preference(1.0): FedAvg has 0.8 % where iid has 93.9 %), features that differ only together "
            "(fcube), nor change over time (drift)."
        )
    return (
        "What leaves the means of features and of their products in place does not show, nor do other labels for "
        "few of the rows (label-preference(0.2)), nor change over time (drift)."
    )
