"""What runs made here say: finished runs that differ in the algorithm alone, with parties about as unalike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unalike.data import Dataset, load_dataset
from unalike.measure.situation import Situation, simulated_situation
from unalike.partition import make_partition
from unalike.ranking.advice import Advice, recommend
from unalike.ranking.blocks import Block, comparisons, run_blocks, texts_of
from unalike.ranking.boosted import words_on_trees
from unalike.ranking.deployed import by_global_model, by_own_models
from unalike.ranking.own_models import recommend_own
from unalike.ranking.standing import Comparison
from unalike.runs.results import Record, read_records, settings
from unalike.runs.spec import RunSpec
from unalike.tallies import Kind as Task

SIMILAR = 0.1
"""How far the degrees of two federations may be apart for one to be evidence for the other."""


def own_comparisons(runs: Path, situation: Situation, task: Task = "classification") -> list[Comparison]:
    """The comparisons with FedAvg among the runs of a task in a folder, by global models, each by its own score.

    A setting's parametrisations of an algorithm are one comparison, as in the leaderboard and its tree: that which
    is best on validation rows. A run that failed counts as one with the worst score; damaged ones are passed over.
    """
    blocks = run_blocks(settings(_similar(by_global_model(read_records(runs)), situation, task)))
    texts = texts_of(blocks)
    return [{texts[name]: gain for name, gain in one.items()} for one in comparisons(blocks)]


def own_blocks(runs: Path, situation: Situation, task: Task = "classification") -> list[Block]:
    """The settings of runs of a task with models of the parties' own, with parties about as unalike."""
    return run_blocks(settings(by_own_models(_similar(read_records(runs), situation, task))))


def _similar(records: Sequence[Record], situation: Situation, task: Task) -> list[Record]:
    """Those whose parties are about as unalike. A failed run has no degrees: those of others in its place do."""
    places = {
        _place(record)
        for record in records
        if record.state == "finished"
        and record.scale.score.task == task
        and (found := _situation(record.figures)) is not None
        and situation.distance(found) <= SIMILAR
    }
    return [record for record in records if record.state != "unfinished" and _place(record) in places]


def _place(record: Record) -> str:
    """What runs with the same parties share; who failed may not know its score."""
    return repr((record.seed, sorted((key, value) for key, value in record.shared.items() if key != "score")))


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


def _situation(figures: Mapping[str, Any]) -> Situation | None:
    try:
        return Situation(**figures["degrees"])
    except (KeyError, TypeError):  # made before degrees were recorded
        return None
