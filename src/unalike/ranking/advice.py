"""Which algorithm fits parties that are this unalike: from NIID-Bench's tables, and from runs made here.

NIID-Bench (Li et al. 2022, arXiv:2102.02079), section 5.1.1 and figure 6, decides by the kind of skew: FedProx
where every party has one label, FedProx for other label skew, SCAFFOLD for feature skew, FedProx for quantity
skew. Here the kind of skew is measured, and the ranking is computed from the paper's Table 3, so that it comes
with how often and by how much. Where the table does not show that another is better, FedAvg is as good, and is
recommended as the simplest. Runs of one's own with similar degrees take precedence once there are enough of them.
For regression, of which the paper has no tables, they are all that counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from unalike.measure.situation import Kind, Situation
from unalike.ranking.deployed import command_of
from unalike.ranking.published import TABLES, published
from unalike.ranking.standing import REFERENCE, Comparison, Standing, standings
from unalike.tallies import Kind as Task

Confidence = Literal["low", "medium", "high"]

SPLITS: dict[Kind, tuple[str, ...]] = {
    "one label each": ("label-count(1)",),
    "label skew": ("label-count(2)", "label-count(3)", "label-dirichlet(0.5)"),
    "feature skew": ("feature-noise(0.1)", "synthetic", "by-writer"),
    "quantity skew": ("quantity-dirichlet(0.5)",),
    "alike": ("iid",),
}
"""The splits of NIID-Bench's Table 3 that are of a kind."""

PAPER: dict[Kind, str] = {
    "one label each": "fedprox",
    "label skew": "fedprox",
    "feature skew": "scaffold",
    "quantity skew": "fedprox",
    "alike": "fedavg",
}
"""Figure 6 of the paper; for parties that are alike it has no branch, and FedAvg costs least."""

SUGGESTED = {"fedprox": "fedprox(mu=0.01)"}
"""Where the paper tunes a parameter, the value to begin with."""
TUNED = {"fedprox": "Its mu was tuned for each data set among 0.001, 0.01, 0.1 and 1: do so on validation rows."}
ENOUGH = 5
"""Comparisons of one's own with FedAvg that outweigh the paper: the fewest that can show a difference."""
UNTRIED = Standing(REFERENCE, 0, 0, 0, 0.0, 0.0, 0.5, 1.0)
"""FedAvg, where nothing is known of any algorithm."""
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
    paper = _by_the_paper(kind) if task == "classification" else []
    mine = _by_own_runs(own)
    ranking = mine or paper or [UNTRIED]
    source = "no comparisons"
    if mine:
        source = f"{len(own)} comparisons of your own runs"
    elif paper:
        source = TABLES["niid-bench-table3"]
    return Advice(
        situation,
        kind,
        tuple(ranking),
        source,
        confidence_of(ranking[0]),
        tuple(_reasons(situation, kind, ranking, source, PAPER[kind] if ranking is paper else None, task)),
        tuple(_doubts(situation, kind, ranking, None if mine else len(own), bool(paper))),
    )


def _by_the_paper(kind: Kind) -> list[Standing]:
    """By the rows of Table 3 that are of the kind."""
    rows: dict[tuple[str, str], dict[str, float]] = {}
    for cell in published("niid-bench-table3"):
        if cell.partition in SPLITS[kind]:
            rows.setdefault((cell.dataset, cell.partition), {})[cell.algorithm] = cell.mean
    return standings([{name: mean - row[REFERENCE] for name, mean in row.items()} for row in rows.values()])


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
    situation: Situation, kind: Kind, ranking: Sequence[Standing], source: str, tree: str | None, task: Task
) -> list[str]:
    """``tree``: whom the paper's tree names, where the ranking is the paper's."""
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
    named = next((one for one in ranking[1:] if one.algorithm == tree), None)
    if named is not None:
        said.append(f"NIID-Bench's tree names {tree}; in its own table {_record(named)} (p = {named.p:.2f}).")
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
    elif published and ranking[0].algorithm.split("(")[0] != PAPER[kind]:
        said.append(f"NIID-Bench's tree would have named {text_of(PAPER[kind])}.")
    if situation.label_expected > _NOISY:
        said.append(
            f"Parties have so few rows that chance alone makes labels differ by {situation.label_expected:.2f}: "
            "the kind of skew is uncertain."
        )
    if published and situation.feature is None and kind in ("quantity skew", "alike"):
        said.append("Features were not measured; if they differ, SCAFFOLD may be better.")
    if kind in ("label skew", "one label each") and situation.feature_skewed:
        said.append("Features differ too; part of that follows from the labels.")
    close = [one for one in ranking[1:] if one.chance >= 0.45 and one.algorithm != REFERENCE]
    if close:
        said.append(f"Close, and worth a try: {', '.join(text_of(one.algorithm) for one in close)}.")
    return said
