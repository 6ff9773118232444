"""Which algorithm fits where each party uses a model of its own, on its own rows: from runs made here.

The evidence is ``tables/own-models.csv`` (docs/advice.md says how it was made): for each setting and algorithm the
mean over the parties, each tried on rows of its own. What has to be beaten is the best of the simple ways:
training alone, FedAvg, and FedAvg that every party fine-tunes. Whoever is not shown to be better does not go
before it. Runs of one's own with similar parties take precedence once there are enough of them.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from unalike.measure.situation import Kind, Situation
from unalike.ranking.advice import ENOUGH, UNTRIED, Advice, confidence_of
from unalike.ranking.blocks import Block, Trial, comparisons, texts_of
from unalike.ranking.deployed import family
from unalike.ranking.ranking import ranks
from unalike.ranking.splits import kinds_beside
from unalike.ranking.standing import REFERENCE, Standing, standings
from unalike.tallies import Kind as Task

SIMPLE = {"local": "training alone", REFERENCE: "FedAvg", "fedavg-tuned": "fine-tuned FedAvg"}
"""The simple ways to a model of one's own, the simplest first, and their names in a sentence."""
SOURCE = "runs made with this package, docs/advice.md"


COLUMNS = ("dataset", "partition", "parties", "kind", "wishes", "algorithm", "mean", "worst_tenth", "seeds")
"""Of the table of the package."""


@dataclass(frozen=True)
class Row:
    """One algorithm in one setting: the parties' own mean and their worst tenth's, in percent, over seeds."""

    dataset: str
    partition: str
    parties: int
    kind: str
    wishes: str
    algorithm: str
    mean: float
    worst_tenth: float
    seeds: int


def shipped() -> Iterator[Row]:
    """The rows of the table that comes with the package."""
    text = (resources.files("unalike.ranking") / "tables" / "own-models.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        yield Row(
            row["dataset"],
            row["partition"],
            int(row["parties"]),
            row["kind"],
            row["wishes"],
            row["algorithm"],
            float(row["mean"]),
            float(row["worst_tenth"]),
            int(row["seeds"]),
        )


@cache
def shipped_blocks(kind: Kind | None) -> tuple[Block, ...]:
    """The settings of a kind of skew; None: those whose parties give the same rows other labels."""
    found: dict[tuple[str, str, int], dict[str, Mapping[int, Trial]]] = {}
    for row in shipped():
        wanted = (
            row.wishes == "differ" if kind is None else row.wishes != "differ" and row.kind in kinds_beside(kind)
        )
        if wanted:
            trial = Trial(row.mean, row.algorithm, worst_tenth=row.worst_tenth)
            found.setdefault((row.dataset, row.partition, row.parties), {})[family(row.algorithm)] = {0: trial}
    return tuple(
        Block(f"{dataset}, {partition}, {parties} parties", kind or "", trials, dataset=dataset)
        for (dataset, partition, parties), trials in found.items()
    )


def recommend_own(situation: Situation, own: Sequence[Block] = (), task: Task = "classification") -> Advice:
    """Advice for parties that each use a model of their own; ``own`` are blocks of similar runs of the user's."""
    kind = None if situation.wishes == "differ" else situation.kind
    table = shipped_blocks(kind) if task == "classification" else ()
    mine = ranked(own)
    ranking, reference = mine or ranked(table) or ([UNTRIED], REFERENCE)
    blocks, source = (own, f"{len(own)} settings of your own runs") if mine else (table, SOURCE)
    first = ranking[0]
    if first is UNTRIED:
        source = "no comparisons"
    return Advice(
        situation,
        situation.kind,
        tuple(ranking),
        source,
        confidence_of(first, reference),
        (_why(situation), *_evidence(ranking, reference, blocks, source)),
        tuple(_doubts(situation, ranking, reference, blocks, None if mine else len(own))),
        reference,
        own_models=True,
    )


def best_simple(blocks: Sequence[Block]) -> str | None:
    """The simple way with the best mean rank where all that were tried often enough are; None without any."""
    often = [name for name in SIMPLE if sum(name in block.trials for block in blocks) >= ENOUGH]
    places: dict[str, list[float]] = {name: [] for name in often}
    for block in blocks:
        if all(name in block.trials for name in often):
            scores = {name: block.scale.goodness(block.value(name, block.trials[name])) for name in often}
            for name, place in ranks(scores).items():
                places[name].append(place)
    return min(often, key=lambda name: statistics.fmean(places[name]) if places[name] else 0.0, default=None)


def ranked(blocks: Sequence[Block]) -> tuple[list[Standing], str] | None:
    """Who stands how against the best simple way; None where too little was compared."""
    reference = best_simple(blocks)
    if reference is None:
        return None
    texts = texts_of(blocks)
    found = standings(comparisons(blocks, reference), reference)
    often = [one for one in found if one.comparisons >= ENOUGH]
    if not any(one.algorithm != reference for one in often):
        return None
    return [one.named(texts[one.algorithm]) for one in often], texts[reference]


def _why(situation: Situation) -> str:
    """Why each party is to have a model of its own, as far as the measurement says."""
    if situation.concept is None:
        return "Each party uses a model of its own. Whether they give the same rows other labels was not measured."
    said = f"by {situation.concept:.2f} (by chance {situation.concept_expected or 0.0:.2f})"
    if situation.wishes == "differ":
        return (
            f"Rows of one label differ between parties {said}, while features are alike as far as can be seen: "
            "parties give the same rows other labels, and no single model can be right for all."
        )
    if situation.wishes == "unclear":
        return (
            f"Rows of one label differ between parties {said}, but features as a whole do so too: "
            "whether parties would give the same row other labels cannot be told from that."
        )
    return f"Each party uses a model of its own. Rows of one label differ between parties {said}: they are alike."


def _evidence(ranking: Sequence[Standing], reference: str, blocks: Sequence[Block], source: str) -> list[str]:
    first = ranking[0]
    if first is UNTRIED:
        return ["Which algorithm is better here is not known: no comparisons of such parties are at hand."]
    simple = SIMPLE[family(reference)]
    said = [f"Of training alone, FedAvg and fine-tuned FedAvg, {simple} was best by mean rank ({source})."]
    if first.algorithm == reference:
        nearest = ranking[1] if len(ranking) > 1 else None
        said.append(
            f"No other was better by more than chance makes (Wilcoxon's signed-rank test at 5 %): {simple} is as "
            "good, and simpler."
        )
        said += [f"Next, {record(nearest, simple)} (p = {nearest.p:.2f})."] if nearest else []
    else:
        said.append(f"{record(first, simple)}. Chance would hardly do that: p = {first.p:.3f}.")
    worst = _worst_tenth(blocks, family(first.algorithm))
    return [*said, f"The worst tenth of its parties had {worst:.1f} % in the mean."] if worst is not None else said


def record(one: Standing, than: str) -> str:
    """How often and by how much one was better and worse than the reference."""
    return (
        f"{one.algorithm} was better than {than} in {one.better} and worse in {one.worse} of {one.comparisons} "
        f"settings, by {one.median_gain:+.1f} points in the median and {one.worst_gain:+.1f} at worst"
    )


def _worst_tenth(blocks: Sequence[Block], name: str) -> float | None:
    found = [
        trial.worst_tenth
        for block in blocks
        for trial in block.trials.get(name, {}).values()
        if trial.worst_tenth is not None and block.scale.is_percent
    ]
    return statistics.fmean(found) if found else None


def _doubts(
    situation: Situation, ranking: Sequence[Standing], reference: str, blocks: Sequence[Block], few: int | None
) -> list[str]:
    """``few``: how many settings of one's own there are, where they were not enough."""
    said = []
    if few is not None:
        said.append(
            f"Runs of your own would: {ENOUGH} settings with similar parties, each with "
            f"{', '.join(SIMPLE.values())} and the algorithm in question (you have {few})."
        )
        names = sorted({block.dataset for block in blocks})
        if names:
            said.append(
                f"The evidence is {len(blocks)} settings of {', '.join(names)}: small data, small nets, all "
                "parties in every round. Of large nets, or of parties that seldom take part, it says nothing."
            )
    if len(ranking) > 2:
        said.append(
            f"{len(ranking) - 1} algorithms were compared: at 5 % one in twenty looks better by chance alone."
        )
    if situation.wishes == "not measured":
        said.append("If parties give the same rows other labels, a model of one's own matters more.")
    close = [one.algorithm for one in ranking[1:] if one.chance >= 0.6 and one.algorithm != reference]
    if close:
        said.append(f"Close, and worth a try: {', '.join(close[:5])}.")
    return said
