"""Which algorithm fits parties that are this unalike: from NIID-Bench's tables, and from runs made here.

NIID-Bench (Li et al. 2022, arXiv:2102.02079), section 5.1.1 and figure 6, decides by the kind of skew: FedProx
where every party has one label, FedProx for other label skew, SCAFFOLD for feature skew, FedProx for quantity
skew. Here the kind of skew is measured, and the ranking is computed from the paper's Table 3, so that it comes
with how often and by how much. Runs of one's own with similar degrees take precedence once there are enough of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from unalike.bench.published import TABLES, published
from unalike.bench.standing import REFERENCE, Comparison, Standing, standings
from unalike.measure.situation import Kind, Situation

Confidence = Literal["low", "medium", "high"]

_SPLITS: dict[Kind, tuple[str, ...]] = {
    "one label each": ("label-count(1)",),
    "label skew": ("label-count(2)", "label-count(3)", "label-dirichlet(0.5)"),
    "feature skew": ("feature-noise(0.1)", "synthetic", "by-writer"),
    "quantity skew": ("quantity-dirichlet(0.5)",),
    "alike": ("iid",),
}
"""The splits of NIID-Bench's Table 3 that are of a kind."""

_PAPER: dict[Kind, str] = {
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
ENOUGH = 3
"""Comparisons of one's own that outweigh the paper."""


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

    @property
    def algorithm(self) -> str:
        """The first, as ``--algorithm`` takes it."""
        return text_of(self.ranking[0].algorithm)

    def to_dict(self) -> dict[str, Any]:
        """One object, ready for JSON."""
        made = asdict(self)
        made["ranking"] = [{**asdict(one), "algorithm": text_of(one.algorithm)} for one in self.ranking]
        return {"algorithm": self.algorithm, **made}


def text_of(algorithm: str) -> str:
    """The algorithm with the parameters to begin with."""
    return SUGGESTED.get(algorithm, algorithm)


def recommend(situation: Situation, own: Sequence[Comparison] = ()) -> Advice:
    """Advice for a situation. ``own`` are comparisons of runs with parties about as unalike (``evidence``)."""
    kind = situation.kind
    paper = _ranking(kind, _published(kind))
    mine = standings(own)
    decisive = len(own) >= ENOUGH and len(mine) > 1
    ranking = tuple(mine if decisive else paper)
    source = f"{len(own)} comparisons of your own runs" if decisive else TABLES["niid-bench-table3"]
    confidence = _confidence(ranking[0])
    return Advice(
        situation,
        kind,
        ranking,
        source,
        confidence,
        tuple(_reasons(situation, kind, ranking[0], source)),
        tuple(_doubts(situation, kind, paper, mine, decisive=decisive)),
    )


def _published(kind: Kind) -> list[Comparison]:
    """The complete rows of Table 3 that are of this kind."""
    rows: dict[tuple[str, str], dict[str, float]] = {}
    for cell in published("niid-bench-table3"):
        if cell.partition in _SPLITS[kind]:
            rows.setdefault((cell.dataset, cell.partition), {})[cell.algorithm] = cell.mean
    most = max(map(len, rows.values()))
    return [row for row in rows.values() if len(row) == most]


def _ranking(kind: Kind, comparisons: Sequence[Comparison]) -> list[Standing]:
    """By mean rank; the paper's own choice goes before those that are within a tenth of a rank of it."""
    found = standings(comparisons)
    choice = next(one for one in found if one.algorithm == _PAPER[kind])
    if kind == "alike" or choice.mean_rank <= found[0].mean_rank + 0.1:
        found.remove(choice)
        found.insert(0, choice)
    return found


def _confidence(first: Standing) -> Confidence:
    if first.algorithm == REFERENCE:
        return "medium" if first.comparisons >= ENOUGH else "low"
    if first.chance >= 0.75 and first.comparisons >= 5:
        return "high"
    return "medium" if first.chance > 0.6 else "low"


def _reasons(situation: Situation, kind: Kind, first: Standing, source: str) -> list[str]:
    said = [
        f"Labels differ by {situation.label:.2f} (by chance {situation.label_expected:.2f}), sizes by "
        f"{situation.quantity:.2f}"
        + (
            "."
            if situation.feature is None
            else f", features by {situation.feature:.2f} (by chance {situation.feature_expected or 0.0:.2f})."
        )
        + f" That is: {kind}."
    ]
    if first.algorithm == REFERENCE:
        said.append("Nothing that costs more was better by more than noise, so FedAvg is enough.")
    else:
        gain = "" if first.median_gain is None else f", by {first.median_gain:+.1f} points in the median"
        said.append(
            f"{first.algorithm} was better than FedAvg in {first.better} and worse in {first.worse} of "
            f"{first.comparisons} comparisons{gain} ({source})."
        )
    if first.algorithm in TUNED:
        said.append(TUNED[first.algorithm])
    return said


def _doubts(
    situation: Situation, kind: Kind, paper: list[Standing], mine: list[Standing], *, decisive: bool
) -> list[str]:
    said = []
    if not decisive:
        said.append(
            f"Runs of your own would: {ENOUGH} comparisons with similar parties (the same settings with two "
            "algorithms or more) outweigh the paper, whose data are not yours."
        )
    elif mine[0].algorithm.split("(")[0] != paper[0].algorithm:
        said.append(f"The paper's tables would have put {text_of(paper[0].algorithm)} first.")
    if situation.feature is None and kind in ("quantity skew", "alike"):
        said.append("Features were not measured; if they differ, SCAFFOLD may be better.")
    if kind == "label skew" and situation.feature_skewed:
        said.append("Features differ too; part of that follows from the labels.")
    close = [one.algorithm for one in (mine if decisive else paper)[1:] if one.chance >= 0.45]
    if close:
        said.append(f"Close behind, and worth a try: {', '.join(map(text_of, close))}.")
    return said
