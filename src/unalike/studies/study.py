"""Studies: a grid of runs from a TOML file, and what came of it, beside the papers' numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unalike.ranking.comparison import Compared, compare
from unalike.runs.results import Record, Setting, settings
from unalike.studies.plan import Only, StudyPlan, parse_only, plan_study
from unalike.studies.planned import Planned, look_at
from unalike.studies.study_file import Study, built_in_studies, load_study
from unalike.studies.tuning.choice import Look, Tuned

__all__ = [
    "Only",
    "Study",
    "StudyResults",
    "Tuned",
    "built_in_studies",
    "load_study",
    "parse_only",
    "plan_study",
    "study_results",
]


@dataclass(frozen=True)
class StudyResults:
    """What there is of a study now; it may be going on."""

    study: Study
    settings: list[Setting]
    """The final runs; those that have not ended are there, too, as unfinished records."""
    compared: list[Compared]
    tuned: Mapping[str, Tuned]
    """By a text that names the combination and the algorithm."""
    done: int
    total: int
    """All runs, tuning included; ``done`` are the finished ones."""
    failed: list[Record]
    damaged: list[Record]
    """Runs whose files are not as they were written: they count as not done, and are to be run again."""
    scale: float = 1.0

    @property
    def warning(self) -> str:
        """At a smaller scale, that the figures are not the whole study's; else empty."""
        if self.scale == 1.0:
            return ""
        return (
            f"At scale {self.scale:g}: {100 * self.scale:g} % of the study's rounds and rows, so not comparable "
            "with published numbers nor with the whole study."
        )


def study_results(study: Study, runs: Path, scale: float = 1.0, only: Only | None = None) -> StudyResults:
    """The results in a folder of runs, read from the runs' own folders."""
    plan = plan_study(study, scale, only)
    seen: dict[str, Record] = {}

    def look(planned: Planned) -> Record:
        if planned.key not in seen:
            seen[planned.key] = look_at(planned, runs)
        return seen[planned.key]

    done = sum(tuning.done(look) for tuning in plan.tunings)
    failed = list({id(record): record for each in plan.tunings for record in each.failures(look)}.values())
    finals: dict[str, Record] = {}
    for goal in plan.goals:
        planned = goal.planned
        if goal.tuning is not None:
            choice = goal.tuning.choose(look)
            if choice.problem:
                failed.append(Record("", goal.fields, "failed", problem=choice.problem))
            if not choice.algorithm:
                continue
            planned = goal.tuned(choice.algorithm, choice.fields)
        assert planned is not None
        record = look(planned)
        done += record.state == "finished"
        if record.state == "failed":
            failed.append(record)
        if planned.spec is not None:
            finals[planned.key] = replace(record, tuned=study.tuned_fields)
    found = settings(finals.values())
    compared = compare(found, study.published, study.published_setting, study.notes, judged=scale == 1.0)
    tuned = _tuned(plan, look) | _chosen_before(study)
    damaged = [record for record in seen.values() if record.damaged]
    return StudyResults(study, found, compared, tuned, done, plan.total, failed, damaged, scale)


def _tuned(plan: StudyPlan, look: Look) -> dict[str, Tuned]:
    made = {}
    for tuning in plan.tunings:
        if not tuning.choose(look).algorithm:
            continue
        place = ", ".join(str(tuning.fields[name]) for name in ("dataset", "partition") if name in tuning.fields)
        others = {
            name: value
            for name, value in tuning.fields.items()
            if name not in ("dataset", "partition", "algorithm") and _varies(plan, tuning.fields, name)
        }
        title = ", ".join([place, *(f"{name} {value}" for name, value in others.items())])
        made[f"{title}: {tuning.algorithm}"] = tuning.tell(look)
    return made


def _chosen_before(study: Study) -> dict[str, Tuned]:
    """What an earlier search chose, as the study's file says."""
    return {name: one.told(name) for name, one in study.chosen.items()}


def _varies(plan: StudyPlan, fields: Mapping[str, Any], name: str) -> bool:
    """Whether a field differs between combinations on the same data set and partition."""

    def same(others: Mapping[str, Any]) -> bool:
        return all(others.get(each) == fields.get(each) for each in ("dataset", "partition"))

    return len({repr(each.fields.get(name)) for each in plan.tunings if same(each.fields)}) > 1
