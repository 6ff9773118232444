"""A run: rounds played one after the other, recorded as they come, resumable at any moment."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import torch

from unalike.data import Dataset, load_dataset
from unalike.data.given import given
from unalike.engines.many.machines import Machines
from unalike.errors import UserError, shown
from unalike.models.own import name_code, why_unkept
from unalike.runs.checkpoint import CHECKPOINT_SECONDS
from unalike.runs.files import named_folder
from unalike.runs.finished import finished
from unalike.runs.folder import RunDirectory
from unalike.runs.kept import kept_models, model_files
from unalike.runs.many import working_on
from unalike.runs.meaning import check_given
from unalike.runs.outcome import outcome
from unalike.runs.paused import Paused, check_until
from unalike.runs.playable import Playable, is_over
from unalike.runs.playing import playable
from unalike.runs.record import MODEL, SEALS_MODEL, SEALS_WEIGHTS
from unalike.runs.result import Result
from unalike.runs.saving import restore, save
from unalike.runs.spec import RunSpec
from unalike.runs.watcher import Watcher as Watcher
from unalike.scores import Figures


@overload
def run(spec: RunSpec | None = None, *, until: None = None, **options: Any) -> Result: ...
@overload
def run(spec: RunSpec | None = None, *, until: int | None, **options: Any) -> Result | Paused: ...
def run(
    spec: RunSpec | None = None,
    *,
    runs: Path | str | None = None,
    data: Dataset | None = None,
    watcher: Watcher | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    load: Callable[[str], Dataset] = load_dataset,
    until: int | None = None,
    machines: Machines | None = None,
    **fields: Any,
) -> Result | Paused:
    """Train once. ``run(dataset="heart", partition="natural", algorithm="fedprox(mu=0.1)")``

    With ``runs`` the run has a folder there, named by its key: the same call goes on where a stopped one left
    off, to the same bits, and returns a finished one's result at once. ``dataset`` may also be a ``Dataset``, as
    ``unalike.dataset(x, y)`` makes them (``data`` is the same): a hash of it is then the data set in the spec, so
    that other data are another run. ``load`` reads a registered data set, for a caller that keeps it between runs.
    ``machines`` says in which other processes the parties work, which changes no bit of the outcome.
    ``until=K`` stops a run in a folder after its round K and gives a :class:`Paused` instead of a result; the call
    without it, or with a later round, goes on.
    """
    if isinstance(fields.get("dataset"), Dataset) and data is None:
        data = fields.pop("dataset")
    if not (isinstance(checkpoint_seconds, int | float) and 0 <= checkpoint_seconds < math.inf):
        raise UserError(
            f"--checkpoint-seconds must be a finite number of seconds, 0 or more, got {shown(checkpoint_seconds)}."
        )
    if not isinstance(spec, RunSpec | None):
        raise UserError(
            f"run needs a RunSpec, or its fields by name, got {shown(spec)}. Write run(dataset='heart')."
        )
    if spec is not None and fields:
        raise UserError(
            f"run was given a RunSpec and also {', '.join(fields)}. Use dataclasses.replace on the spec."
        )
    if data is not None and "dataset" in fields:
        raise UserError(
            f"run was given data and the data set {shown(fields['dataset'])}. Leave one of the two out."
        )
    spec = _of_fields(fields) if spec is None else spec
    if data is not None:
        spec = _of_given(spec, data)
    if runs is not None and (why := why_unkept(str(spec.model))):
        runs = None
        watcher.say(why) if watcher else warnings.warn(why, stacklevel=3)
    check_until(until, spec, kept=runs is not None)
    watcher = watcher or Watcher()
    with _threads_restored():
        if runs is None:
            return _in_memory(spec, data, watcher, machines)
        if (done := finished(spec, runs, watcher.say)) is not None:
            return done
        path = named_folder(runs, "--runs") / spec.folder
        # Before the folder is made: a spec that cannot be built must not leave an empty run behind.
        simulation = playable(spec, data=load(spec.dataset) if data is None else data, say=watcher.say)
        with RunDirectory.open(path) as folder, working_on(machines, simulation, watcher.say):
            folder.write_spec(spec.to_toml(), spec.same_run)
            figures = folder.found.result or _recorded(simulation, folder, watcher, checkpoint_seconds, until)
            rows = list(folder.rounds())
            return Paused(spec, rows, path) if figures is None else Result(spec, figures, rows, path)


def _of_fields(fields: dict[str, Any]) -> RunSpec:
    """The spec of a call's own words, in which a file of code may be named."""
    spec = RunSpec.from_mapping(fields)
    check_given(spec, fields)
    if "model" in fields:
        name_code(str(spec.model))
    return spec


def _of_given(spec: RunSpec, data: Dataset) -> RunSpec:
    """The spec of a run on data that were given."""
    name = given(data)
    if spec.dataset.startswith("given(") and spec.dataset != name:
        raise UserError(f"The spec is of the rows {spec.dataset}, but data is {name}. Give the same rows again.")
    return replace(spec, dataset=name)


def record_failure(runs: Path, spec: RunSpec, problem: str, *, final: bool) -> None:
    """Note in the run's folder why it failed, also where it never got so far as to have a folder."""
    with RunDirectory.open(runs / spec.folder) as folder:
        folder.write_spec(spec.to_toml(), spec.same_run)
        folder.write_failure(problem, final=final)


def _in_memory(spec: RunSpec, data: Dataset | None, watcher: Watcher, machines: Machines | None) -> Result:
    simulation = playable(spec, data=data, say=watcher.say)
    rows = []
    _use_threads(simulation)
    watcher.started(simulation)
    with working_on(machines, simulation, watcher.say):
        while not is_over(simulation):
            simulation.state, row = simulation.play_round()
            _use_threads(simulation)
            rows.append(row)
            simulation.selection.see(simulation.state, row)
            watcher.round_done(row)
        figures = outcome(simulation, rows)
    return Result(spec, figures, rows, models=kept_models(simulation, _selected_round(figures)))


def _recorded(
    simulation: Playable, folder: RunDirectory, watcher: Watcher, checkpoint_seconds: float, until: int | None
) -> Figures | None:
    """Play the rounds that are left, or those until one; the figures of a run that is finished then."""
    spec = simulation.spec
    if (done := restore(simulation, folder, watcher.say)) is not None:
        watcher.say(f"Going on after round {done} of {spec.rounds}.")
    _use_threads(simulation)
    last = time.monotonic()
    watcher.started(simulation)
    try:
        while simulation.state.round < (until or spec.rounds) and not is_over(simulation):
            state, row = simulation.play_round()
            _use_threads(simulation)
            folder.append_round(row)
            simulation.state = state
            simulation.selection.see(state, row)
            watcher.round_done(row)
            if time.monotonic() - last >= checkpoint_seconds:
                save(simulation, folder)
                last = time.monotonic()
    finally:  # a stop by the user, an error or the end: the last whole round is kept
        if simulation.state.round:
            save(simulation, folder)
    if not is_over(simulation):
        return None
    figures = outcome(simulation, list(folder.rounds()))
    about = {"key": spec.key, "algorithm": spec.algorithm}
    figures[SEALS_WEIGHTS] = folder.save_weights(simulation.final_weights(), about)
    described, files = model_files(kept_models(simulation, _selected_round(figures)), about)
    figures[SEALS_MODEL] = folder.save_files({**files, MODEL: described.encode()})
    folder.write_result(figures)
    return figures


def _selected_round(figures: Figures) -> int | None:
    """The number of the round that was selected on validation rows, if there was one."""
    return None if figures["selected"] is None else int(figures["selected"]["round"])


def _use_threads(simulation: Playable) -> None:
    """After every round: the engine may have fallen back, and a run that goes on from there starts on another."""
    torch.set_num_threads(simulation.threads)


@contextmanager
def _threads_restored() -> Iterator[None]:
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
