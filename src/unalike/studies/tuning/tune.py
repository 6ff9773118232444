"""Tuning from Python and from the command line: a study that stops before its final runs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unalike.data import Dataset, load_dataset
from unalike.data.given import given
from unalike.errors import UserError, shown
from unalike.models.own import name_code
from unalike.runs.files import named_folder
from unalike.runs.folder import InUse
from unalike.runs.rules import Diverged
from unalike.runs.run import record_failure, run
from unalike.studies.plan import StudyPlan, plan_study
from unalike.studies.planned import Fields, look_at
from unalike.studies.schedule import LEFT_SECONDS, Schedule
from unalike.studies.study_file import Study
from unalike.studies.tuning.halving import Halving
from unalike.studies.tuning.result import TunedAlgorithm, TuningResult
from unalike.studies.tuning.search import make_search
from unalike.studies.tuning.space import Dimension, parse_space, read_space

NAME = "tune"
REPORTING = (0, 1, 2)
"""Seeds of the final runs by default."""

Space = Mapping[str, Any] | Sequence[str]
"""``{"lr": "log(1e-3, 1)"}``, or texts such as ``lr=log(1e-3,1)``."""


def tune(
    space: Space,
    *,
    algorithms: Sequence[str] = (),
    trials: int | None = None,
    budget: int | None = None,
    seeds: Sequence[int] | None = None,
    reporting_seeds: Sequence[int] = REPORTING,
    draw_seed: int = 0,
    runs: Path | str = "runs",
    workers: int = 0,
    data: Dataset | None = None,
    **fields: Any,
) -> TuningResult:
    """Choose parameters on validation rows. ``tune({"lr": "log(1e-3, 1)"}, dataset="heart", partition="natural")``

    ``fields`` are those of ``run``. Every algorithm has ``trials`` trials, at a cost of at most ``budget`` rounds
    over all of them and over ``seeds``; the same call goes on with a search that was stopped. ``workers``: that
    many processes play the runs; 0 is this process, where parts and data of your own are known.
    """
    folder = named_folder(runs, "--runs")
    if isinstance(fields.get("dataset"), Dataset) and data is None:
        data = fields.pop("dataset")
    if data is not None and workers:
        raise UserError(
            f"Other processes do not have these data: leave workers={workers} out, or name a data set."
        )
    if data is not None:
        fields["dataset"] = given(data)
    study = tuning_study(space, algorithms, trials, budget, seeds, reporting_seeds, draw_seed, fields)
    plan = tuning_plan(study)
    if workers:
        from unalike.studies.workers import Runner

        Runner(study, folder, workers=workers, plan=plan).run()
    else:
        _play(plan, folder, (lambda text: data) if data is not None else load_dataset)
    return tuning_result(study, plan, folder)


def tuning_study(
    space: Space,
    algorithms: Sequence[str],
    trials: int | None,
    budget: int | None,
    seeds: Sequence[int] | None,
    reporting: Sequence[int],
    draw_seed: int,
    fields: Fields,
) -> Study:
    """The study whose final runs use what is chosen; its values are checked."""
    own = {name: value for name, value in fields.items() if name != "algorithm"}
    if "seed" in own:
        raise UserError("Tuning has seeds, and the final runs have reporting seeds: leave seed out.")
    names = [*algorithms, *([str(fields["algorithm"])] if "algorithm" in fields else [])] or ["fedavg"]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"The algorithm {name} is there twice. Name it once.")
    for value in (seeds, reporting):
        _check_seeds(value)
    dimensions = _dimensions(space)
    search = make_search(dimensions, seeds, reporting, trials, budget, draw_seed)
    for field in own:
        if any(field == one.name for one in dimensions):
            raise UserError(f"{field} is given and in the space. Leave it out of one of them.")
    for text in (own.get("model"), *(value for one in dimensions if one.name == "model" for value in one.choices)):
        if text is not None:
            name_code(str(text))
    return Study(
        NAME,
        f"Tuning {', '.join(names)}",
        seeds=tuple(reporting),
        base=own,
        axes={"algorithm": tuple({"algorithm": name} for name in names)},
        tuning={"validation": own.get("validation", 0.1)},
        source="unalike tune",
        search=search,
    )


def _dimensions(space: Space) -> tuple[Dimension, ...]:
    if isinstance(space, str):
        return parse_space([space])
    return read_space(space) if isinstance(space, Mapping) else parse_space(space)


def _check_seeds(seeds: Sequence[int] | None) -> None:
    if seeds is None:
        return
    if not seeds or any(type(seed) is not int or not 0 <= seed < 2**32 for seed in seeds):
        raise UserError(f"Seeds must be whole numbers from 0 on, got {shown(list(seeds))}. Try 100,101,102.")
    if len(set(seeds)) < len(seeds):
        raise UserError(f"A seed is there twice: {shown(list(seeds))}. Write each once.")


def tuning_plan(study: Study) -> StudyPlan:
    """The runs that choose parameters, without those that use them."""
    try:
        return dataclasses.replace(plan_study(study), goals=())
    except UserError as error:
        raise UserError(str(error).removeprefix(f"{study.source}: ")) from None


def _play(plan: StudyPlan, runs: Path, load: Callable[[str], Any]) -> None:
    """Play the runs one after the other in this process."""
    schedule = Schedule(plan, runs)
    while not schedule.over:
        job = schedule.take()
        if job is None:  # all that is left is with other processes
            time.sleep(LEFT_SECONDS / 4)
            continue
        try:
            run(job.spec, runs=runs, until=job.until, load=load)
        except InUse:
            schedule.put_back(job, LEFT_SECONDS)
            continue
        except Diverged as error:
            record_failure(runs, job.spec, str(error), final=True)
        schedule.finished(job)


def tuning_result(study: Study, plan: StudyPlan, runs: Path) -> TuningResult:
    """What there is after all runs were played; an error where an algorithm has nothing to choose from."""
    made = []
    for search in plan.tunings:
        assert isinstance(search, Halving)
        records = {run.key: look_at(run, runs) for run in search.runs()}
        one = TunedAlgorithm(search, records)
        _ = one.chosen
        made.append(one)
    return TuningResult(study, tuple(made), runs)
