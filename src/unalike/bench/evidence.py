"""What runs made here say: finished runs that differ in the algorithm alone, with parties about as unalike."""

from __future__ import annotations

import statistics
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unalike.algorithms import ALGORITHMS
from unalike.bench.advice import Advice, recommend
from unalike.bench.standing import REFERENCE, Comparison
from unalike.data import load_dataset
from unalike.engine.files import list_folder
from unalike.engine.rundir import read_result, read_spec
from unalike.engine.spec import RunSpec
from unalike.errors import UserError
from unalike.measure.situation import Situation, simulated_situation
from unalike.partition import make_partition

SIMILAR = 0.1
"""How far the degrees of two federations may be apart for one to be evidence for the other."""
_APART = {"algorithm", "seed", "code", "engine", "device", "threads"}
"""Fields in which runs of one comparison may differ; over seeds, accuracies are averaged."""


def own_comparisons(runs: Path, situation: Situation) -> list[Comparison]:
    """The comparisons with FedAvg among the finished runs in a folder; damaged runs are passed over."""
    groups: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for spec, figures in _finished(runs):
        accuracy, found = figures.get("accuracy"), _situation(figures)
        name = _brief(spec.get("algorithm"))
        if accuracy is None or found is None or name is None or situation.distance(found) > SIMILAR:
            continue
        setting = repr(sorted((key, value) for key, value in spec.items() if key not in _APART))
        groups[setting][name][int(spec.get("seed", 0))] = 100 * float(accuracy)
    return [made for group in groups.values() if (made := _comparison(group))]


def advise(spec: RunSpec, runs: Path) -> Advice:
    """Advice for a run's own federation, whatever its algorithm; ``runs`` is where evidence is looked for."""
    data = load_dataset(spec.dataset)
    situation = simulated_situation(data, make_partition(spec.partition, data, spec.parties, spec.seed))
    return recommend(situation, own_comparisons(runs, situation))


def _comparison(group: dict[str, dict[int, float]]) -> dict[str, float]:
    """Gains over FedAvg, each averaged over the seeds that the two have in common."""
    plain = group.get(REFERENCE, {})
    made = {}
    for name, seeds in group.items():
        common = plain.keys() & seeds.keys()
        if name != REFERENCE and common:
            made[name] = statistics.fmean(seeds[seed] - plain[seed] for seed in common)
    return made


def _finished(runs: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for path in list_folder(runs):
        figures, text = read_result(path), read_spec(path)
        if figures is None or text is None:
            continue
        try:
            yield tomllib.loads(text), figures
        except tomllib.TOMLDecodeError:
            continue


def _situation(figures: dict[str, Any]) -> Situation | None:
    try:
        return Situation(**figures["degrees"])
    except (KeyError, TypeError):  # made before degrees were recorded
        return None


def _brief(text: Any) -> str | None:
    try:
        return ALGORITHMS.brief(ALGORITHMS.build(str(text)))
    except UserError:  # of a plug-in that is not loaded
        return None
