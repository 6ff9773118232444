"""The runs of a study: its final runs, and the tuning runs whose validation rows choose a parameter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from unalike.algorithms import ALGORITHMS
from unalike.algorithms.instead import INSTEAD
from unalike.algorithms.personal.baselines import BASELINES
from unalike.data import DATASETS
from unalike.errors import UserError, unknown
from unalike.models import MODELS
from unalike.part_text import text_of
from unalike.partition import PARTITIONS
from unalike.registry import Registry
from unalike.runs.meaning import is_grown
from unalike.runs.spec import RunSpec
from unalike.runs.spec_text import as_text_field
from unalike.studies.planned import Fields, Planned, make, over
from unalike.studies.study_file import TUNING, Study
from unalike.studies.tuning.choice import Tuning
from unalike.studies.tuning.grid import ParameterGrid
from unalike.studies.tuning.halving import Halving
from unalike.studies.tuning.trials import make_halving

Only = Mapping[str, Sequence[str]]
"""By field, the values that are wanted; a run must have one of them in each."""

MOST = 1_000_000
"""Final runs that a study may have; more are a slip of the pen that would fill the memory."""

_PARTS: dict[str, Registry[Any]] = {
    "algorithm": ALGORITHMS,
    "dataset": DATASETS,
    "partition": PARTITIONS,
    "model": MODELS,
}


@dataclass(frozen=True)
class Goal:
    """A final run; one that is tuned has no spec before its tuning has ended."""

    fields: Mapping[str, Any]
    seed_place: int
    """Which of the study's seeds: the first are wanted first."""
    planned: Planned | None
    tuning: Tuning | None = None

    def tuned(self, algorithm: str, others: Mapping[str, Any] | None = None) -> Planned:
        """The run with the chosen parameters, and with other fields that were chosen with them."""
        return make(over(dict(self.fields), {**(others or {}), "algorithm": algorithm}))


@dataclass(frozen=True)
class StudyPlan:
    """All runs of a study, or of a part of it."""

    goals: tuple[Goal, ...]
    tunings: tuple[Tuning, ...]

    @property
    def total(self) -> int:
        """How many runs there are; one that tuning stops and goes on with counts each time."""
        return len(self.goals) + sum(tuning.steps for tuning in self.tunings)

    def models(self) -> set[str]:
        """The texts of all nets that are trained."""
        planned = {str(run.spec.model) for run in self.tuning_runs() if run.spec is not None}
        return planned | {str(goal.fields["model"]) for goal in self.goals if "model" in goal.fields}

    def tuning_runs(self) -> Iterator[Planned]:
        """The runs that choose parameters."""
        for tuning in self.tunings:
            yield from tuning.runs()


def plan_study(study: Study, scale: float = 1.0, only: Only | None = None) -> StudyPlan:
    """The runs of a study. ``scale`` below 1 plays fewer rounds on fewer rows; ``only`` leaves others out."""
    if not 0 < scale <= 1:
        raise UserError(f"--scale must be above 0 and at most 1, got {scale}. Use 0.1 for a fast look.")
    _check_only(only or {})
    runs = math.prod(map(len, study.axes.values())) * len(study.seeds)
    if runs > MOST:
        raise UserError(
            f"{study.source}: axes and seeds make {runs:,} runs, at most {MOST:,} can be. Shorten them."
        )
    goals: list[Goal] = []
    tunings: list[Tuning] = []
    try:
        for fields in _with_baselines(study) if study.baselines else _combinations(study):
            own_tuning = fields.pop(TUNING, {})
            fields = _as_chosen(study, fields)
            wanted = [
                (place, seed)
                for place, seed in enumerate(study.seeds)
                if _matches({**fields, "seed": seed}, only or {})
            ]
            if not wanted:
                continue
            tuning = _tuning(study, fields, own_tuning, scale)
            if tuning is not None:
                tunings.append(tuning)
            for place, seed in wanted:
                own = scaled({**fields, "seed": seed}, scale)
                goals.append(Goal(own, place, None if tuning else make(own), tuning))
        _check_different(goals)
        if not only:
            _check_space(study, tunings)
    except UserError as error:
        raise UserError(f"{study.source}: {error}") from None
    if not goals:
        given = ", ".join(f"{name}={' or '.join(values)}" for name, values in (only or {}).items())
        raise UserError(f"{study.source} has no run with {given}. Check --only.")
    return StudyPlan(tuple(goals), tuple(tunings))


def scaled(fields: Fields, scale: float) -> Fields:
    """The fields with so much of the rounds, and of the rows: the server keeps the others and leaves them."""
    if scale == 1.0:
        return fields
    rounds, public = fields.get("rounds", _default("rounds")), fields.get("public", 0.0)
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in (rounds, public)):
        return fields  # the spec says what is wrong
    return {
        **fields,
        "rounds": max(1, round(scale * rounds)),
        "public": round(1 - (1 - public) * scale, 6),
    }


def parse_only(texts: Sequence[str]) -> dict[str, list[str]]:
    """``["dataset=adult,partition=iid", "dataset=mnist"]`` by field; commas inside brackets separate nothing."""
    made: dict[str, list[str]] = {}
    for text in texts:
        for part in _split(text):
            name, equals, value = part.partition("=")
            if not (name.strip() and equals and value.strip()):
                raise UserError(f"Cannot read --only {text!r}. Write --only dataset=adult,partition=iid.")
            made.setdefault(name.strip(), []).append(value.strip())
    return made


def _combinations(study: Study) -> Iterator[Fields]:
    for values in product(*study.axes.values()):
        fields = dict(study.base)
        for value in values:
            fields = over(fields, value)
        yield fields


def _with_baselines(study: Study) -> Iterator[Fields]:
    """The combinations, then in each of their settings the baselines that it lacks."""
    asked: dict[str, tuple[Fields, set[str]]] = {}
    for fields in _combinations(study):
        yield dict(fields)
        algorithm = fields.pop("algorithm", "fedavg")
        fields.pop(TUNING, None)
        name = algorithm.get("name") if isinstance(algorithm, Mapping) else str(algorithm).partition("(")[0]
        asked.setdefault(repr(sorted(fields.items())), (fields, set()))[1].add(str(name))
    for fields, names in asked.values():
        for name in baselines_of(fields):
            if name not in names:
                yield {**fields, "algorithm": name}


def baselines_of(fields: Mapping[str, Any]) -> list[str]:
    """The baselines of a setting. Nets that differ share no model; with --fine-tune FedAvg's is tuned already."""
    model = fields.get("model")
    if isinstance(model, list | tuple) or MODELS.sign in str(model):
        return ["local"]
    if model is not None and is_grown(MODELS.build(str(as_text_field("model", model)))):
        return list(INSTEAD)
    return [name for name in BASELINES if name != "fedavg-tuned" or not fields.get("fine_tune")]


def _as_chosen(study: Study, fields: Fields) -> Fields:
    """The fields with what was chosen for their algorithm, where the study's file says so."""
    found = study.chosen.get(str(fields.get("algorithm", "fedavg")))
    return fields if found is None else over(fields, found.fields)


def _tuning(study: Study, fields: Fields, own_tuning: Fields, scale: float) -> Tuning | None:
    """What must be tuned first: where the study has a search, or a grid for an algorithm without parameters."""
    algorithm = fields.get("algorithm", "fedavg")
    base = over(over(fields, study.tuning), own_tuning)
    if study.search is not None:
        written = text_of(algorithm, "algorithm") if isinstance(algorithm, Mapping) else str(algorithm)
        return make_halving(study.search, fields, base, written, lambda own: make(scaled(own, scale)))
    grid = study.tune.get(algorithm) if isinstance(algorithm, str) else None
    if grid is None:
        return None
    candidates = {}
    for values in product(*grid.values()):
        text = f"{algorithm}({', '.join(f'{name}={value!r}' for name, value in zip(grid, values, strict=True))})"
        own = {**base, "algorithm": text}
        candidates[text] = tuple(make(scaled({**own, "seed": seed}, scale)) for seed in study.tuning_seeds)
    return ParameterGrid(fields, algorithm, candidates)


def _check_space(study: Study, tunings: Sequence[Tuning]) -> None:
    """Refuse a dimension of the space that means nothing for any algorithm."""
    searches = [each for each in tunings if isinstance(each, Halving)]
    unknown_data = any(run.spec is None for each in searches for run in each.runs())
    used = {one.name for each in searches for one in each.dimensions}
    for one in study.search.space if study.search is not None and not unknown_data else ():
        if one.name not in used:
            names = ", ".join(dict.fromkeys(each.algorithm for each in tunings))
            raise UserError(f"The space has {one.name}, which is no free parameter of {names}. Leave it out.")


def _check_different(goals: Sequence[Goal]) -> None:
    seen = set()
    for goal in goals:
        key = goal.planned.key if goal.planned else repr(sorted(goal.fields.items()))
        if key in seen:
            shown = ", ".join(str(goal.fields.get(each, _default(each))) for each in ("dataset", "partition"))
            raise UserError(
                f"axes has the same run twice: {goal.fields.get('algorithm', 'fedavg')} on {shown}, "
                f"seed {goal.fields['seed']}. Remove one of them."
            )
        seen.add(key)


def _check_only(only: Only) -> None:
    known = {field.name for field in RunSpec.options()}
    for name in only:
        if name not in known:
            raise unknown("field in --only", name, known)


def _matches(fields: Mapping[str, Any], only: Only) -> bool:
    return all(
        any(_same(name, fields.get(name, _default(name)), wanted) for wanted in values)
        for name, values in only.items()
    )


def _same(name: str, value: Any, wanted: str) -> bool:
    """Whether a value is meant by a text; a part's name alone means the part with any parameters."""
    if not isinstance(value, str):
        try:
            return bool(float(value) == float(wanted))
        except (TypeError, ValueError):
            return str(value).lower() == wanted.lower()
    if value == wanted or value.partition("(")[0] == wanted:
        return True
    registry = _PARTS.get(name)
    if registry is None or (name == "algorithm" and "(" not in value):  # without parameters it may be tuned
        return False
    try:
        return registry.describe(registry.build(value)) == registry.describe(registry.build(wanted))
    except UserError:
        return False


def _default(name: str) -> Any:
    return next((field.default for field in RunSpec.options() if field.name == name), None)


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for sign in text:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts
