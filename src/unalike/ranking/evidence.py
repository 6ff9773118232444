"""What runs made here say: finished runs that differ in the algorithm alone, with parties about as unalike."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from unalike.algorithms.personal.baselines import POOLED
from unalike.data import Dataset, load_dataset
from unalike.measure.situation import Situation, simulated_situation
from unalike.partition import make_partition
from unalike.ranking.advice import Advice, recommend
from unalike.ranking.blocks import Block, run_blocks
from unalike.ranking.boosted import words_on_trees
from unalike.ranking.deployed import by_global_model, by_own_models
from unalike.ranking.own_models import recommend_own
from unalike.ranking.standing import REFERENCE, Comparison
from unalike.runs.results import Record, read_records, settings
from unalike.runs.spec import RunSpec
from unalike.tallies import Kind as Task

SIMILAR = 0.1
"""How far the degrees of two federations may be apart for one to be evidence for the other."""


def own_comparisons(runs: Path, situation: Situation, task: Task = "classification") -> list[Comparison]:
    """The comparisons with FedAvg among the finished runs of a task in a folder; damaged runs are passed over.

    Each setting is compared by its own score, that of global models; ``own_blocks`` has those of the parties' own.
    """
    groups: dict[str, dict[str, dict[int, Record]]] = defaultdict(lambda: defaultdict(dict))
    for record in by_global_model(read_records(runs)):
        found = _situation(record.figures)
        if record.value is None or record.scale.score.task != task or found is None or record.algorithm == POOLED:
            continue
        if situation.distance(found) <= SIMILAR:
            groups[record.setting][record.algorithm][record.seed] = record
    return [made for group in groups.values() if (made := _comparison(group))]


def own_blocks(runs: Path, situation: Situation, task: Task = "classification") -> list[Block]:
    """The settings of finished runs of a task with models of the parties' own, with parties about as unalike."""
    similar = [
        record
        for record in read_records(runs)
        if record.state == "finished"
        and record.scale.score.task == task
        and (found := _situation(record.figures)) is not None
        and situation.distance(found) <= SIMILAR
    ]
    return run_blocks(settings(by_own_models(similar)))


def advise(
    situation: Situation, runs: Path, task: Task, *, own_rows: bool = False, data: Dataset | None = None
) -> Advice:
    """Advice for a situation; ``runs`` is where evidence is looked for.

    Where each party is to be judged on its own rows, or wants other labels than the others for the same rows, it
    is on models of their own. Where ``data`` are a table, it has words on trees.
    """
    if own_rows or situation.wishes == "differ":
        return recommend_own(situation, own_blocks(runs, situation, task), task)
    advice = recommend(situation, own_comparisons(runs, situation, task), task)
    return advice if data is None else replace(advice, trees=words_on_trees(data, situation.kind))


def advise_run(spec: RunSpec, runs: Path) -> Advice:
    """Advice for a run's own federation, whatever its algorithm."""
    data = load_dataset(spec.dataset)
    situation = simulated_situation(data, make_partition(spec.partition, data, spec.parties, spec.seed))
    return advise(situation, runs, data.task)


def _comparison(group: dict[str, dict[int, Record]]) -> dict[str, float]:
    """Gains over FedAvg, each averaged over the seeds that the two have in common."""
    plain = group.get(REFERENCE, {})
    made = {}
    for name, seeds in group.items():
        common = plain.keys() & seeds.keys()
        if name != REFERENCE and common:
            made[name] = statistics.fmean(
                seeds[seed].scale.gain(seeds[seed].value, plain[seed].value) for seed in common
            )
    return made


def _situation(figures: Mapping[str, Any]) -> Situation | None:
    try:
        return Situation(**figures["degrees"])
    except (KeyError, TypeError):  # made before degrees were recorded
        return None
