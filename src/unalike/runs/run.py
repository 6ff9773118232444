"""A run: rounds played one after the other, recorded as they come, resumable at any moment."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, overload

import torch

import unalike
from unalike.data import Dataset, load_dataset
from unalike.data.given import given
from unalike.engines.vectorised import Vectorised
from unalike.errors import UserError, shown
from unalike.measure.situation import simulated_situation
from unalike.models.own import name_code, why_unkept
from unalike.rounds.evaluation import Figures
from unalike.rounds.ledger import total_traffic
from unalike.rounds.state import State
from unalike.runs.checkpoint import CHECKPOINT_SECONDS, Checkpoint
from unalike.runs.files import named_folder
from unalike.runs.folder import RunDirectory
from unalike.runs.kept import kept_models, model_files
from unalike.runs.paused import Paused, check_until
from unalike.runs.record import MODEL, SEALS_MODEL, SEALS_WEIGHTS, read_run
from unalike.runs.result import Result
from unalike.runs.selection import selected
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

COUNTED = ("bytes_up", "bytes_down", "seconds")
"""What every recorded round has, and the outcome adds up."""


class Watcher:
    """Follows a run. This one stays silent; the command line has one that draws."""

    def started(self, simulation: Simulation) -> None:
        """The run is ready to play its next round."""

    def round_done(self, row: Figures) -> None:
        """A round was played and recorded."""

    def say(self, message: str) -> None:
        """Something that the user should know, in one line."""


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
    **fields: Any,
) -> Result | Paused:
    """Train once. ``run(dataset="heart", partition="natural", algorithm="fedprox(mu=0.1)")``

    With ``runs`` the run has a folder there, named by its key: the same call goes on where a stopped one left
    off, to the same bits, and returns a finished one's result at once. ``dataset`` may also be a ``Dataset``, as
    ``unalike.dataset(x, y)`` makes them (``data`` is the same): a hash of it is then the data set in the spec, so
    that other data are another run. ``load`` reads a registered data set, for a caller that keeps it between runs.
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
            return _in_memory(spec, data, watcher)
        path = named_folder(runs, "--runs") / spec.folder
        found = read_run(path, weights=True)
        figures = found.result
        if figures is not None and figures["key"] == spec.key:  # no lock is needed, and the disk may be read-only
            if figures.get("version") != unalike.__version__:
                watcher.say(
                    f"This result was made by unalike {figures.get('version')}. Remove {path} to make it anew."
                )
            return Result(spec, figures, found.rounds, path)
        # Before the folder is made: a spec that cannot be built must not leave an empty run behind.
        simulation = Simulation(spec, data=load(spec.dataset) if data is None else data, say=watcher.say)
        with RunDirectory.open(path) as folder:
            folder.write_spec(spec.to_toml(), spec.same_run)
            figures = folder.found.result or _recorded(simulation, folder, watcher, checkpoint_seconds, until)
            rows = list(folder.rounds())
            return Paused(spec, rows, path) if figures is None else Result(spec, figures, rows, path)


def _of_fields(fields: dict[str, Any]) -> RunSpec:
    """The spec of a call's own words, in which a file of code may be named."""
    spec = RunSpec.from_mapping(fields)
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


def _in_memory(spec: RunSpec, data: Dataset | None, watcher: Watcher) -> Result:
    simulation = Simulation(spec, data=data, say=watcher.say)
    rows = []
    _use_threads(simulation)
    watcher.started(simulation)
    while simulation.state.round < spec.rounds:
        simulation.state, row = simulation.play_round()
        _use_threads(simulation)
        rows.append(row)
        simulation.selection.see(simulation.state, row)
        watcher.round_done(row)
    figures = outcome(simulation, rows)
    return Result(spec, figures, rows, models=kept_models(simulation, _selected_round(figures)))


def _recorded(
    simulation: Simulation, folder: RunDirectory, watcher: Watcher, checkpoint_seconds: float, until: int | None
) -> Figures | None:
    """Play the rounds that are left, or those until one; the figures of a run that is finished then."""
    spec = simulation.spec
    saved = folder.load_checkpoint(watcher.say, lambda checkpoint: _foreign(checkpoint, simulation))
    if saved is not None:
        _restore(simulation, saved, watcher)
        simulation.selection.go_on(
            folder.rounds(),
            lambda wrong: folder.load_selected(lambda one: wrong(one) or _foreign(one, simulation)),
        )
        watcher.say(f"Going on after round {saved.round} of {spec.rounds}.")
    _use_threads(simulation)
    last = time.monotonic()
    watcher.started(simulation)
    try:
        while simulation.state.round < (until or spec.rounds):
            state, row = simulation.play_round()
            _use_threads(simulation)
            folder.append_round(row)
            simulation.state = state
            simulation.selection.see(state, row)
            watcher.round_done(row)
            if time.monotonic() - last >= checkpoint_seconds:
                _save(simulation, folder)
                last = time.monotonic()
    finally:  # a stop by the user, an error or the end: the last whole round is kept
        if simulation.state.round:
            _save(simulation, folder)
    if simulation.state.round < spec.rounds:
        return None
    figures = outcome(simulation, list(folder.rounds()))
    about = {"key": spec.key, "algorithm": spec.algorithm}
    figures[SEALS_WEIGHTS] = folder.save_weights(final_weights(simulation), about)
    described, files = model_files(kept_models(simulation, _selected_round(figures)), about)
    figures[SEALS_MODEL] = folder.save_files({**files, MODEL: described.encode()})
    folder.write_result(figures)
    return figures


def _selected_round(figures: Figures) -> int | None:
    """The number of the round that was selected on validation rows, if there was one."""
    return None if figures["selected"] is None else int(figures["selected"]["round"])


def _save(simulation: Simulation, folder: RunDirectory) -> None:
    """Save the selected round's state, then the checkpoint: that state is never behind it."""
    selection = simulation.selection
    if selection.state is not None and not selection.saved:
        folder.save_selected(_checkpoint(simulation, selection.state))
        selection.saved = True
    folder.save_checkpoint(_checkpoint(simulation, simulation.state))


def _checkpoint(simulation: Simulation, state: State) -> Checkpoint:
    meta = {**_origin(simulation), "engine": simulation.engine.name, "digest": state.digest()}
    return Checkpoint(state.round, state.tensors(), meta)


def _origin(simulation: Simulation) -> dict[str, str]:
    """What a record must share with a run to be a part of it: the spec, the program, the data, frozen layers."""
    data = simulation.federation.dataset.digest
    constants = " ".join(task.constants_digest for task in simulation.tasks).strip()
    versions = {"version": unalike.__version__, "torch": torch.__version__}
    origin = {"key": simulation.spec.key, **versions, "data_sha256": data}
    return origin | ({"constants_sha256": constants} if constants else {})


def _foreign(saved: Checkpoint, simulation: Simulation) -> str | None:
    """Why a checkpoint is not one of this run, or None."""
    reasons = {
        "key": "it is of another run",
        "version": "another version of unalike made it",
        "torch": f"another version of torch than {torch.__version__} made it, whose bits differ",
        "constants_sha256": "the net's frozen layers have changed since",
    }
    for key, value in _origin(simulation).items():
        if key == "data_sha256" and saved.meta.get(key) == simulation.federation.dataset.rows_digest:
            return "it is of a time when only rows and labels were compared, not names or parties of the data"
        if saved.meta.get(key) != value:
            return reasons.get(key, "the data have changed since")
    if saved.meta.get("digest") != State.of(saved.round, saved.tensors).digest():
        return "its tensors are not those that were saved"
    return None


def _restore(simulation: Simulation, saved: Checkpoint, watcher: Watcher) -> None:
    """Go on from a checkpoint, on the engine that made it: the bits depend on it."""
    tensors = {name: value.to(simulation.task.device) for name, value in saved.tensors.items()}
    simulation.state = State.of(saved.round, tensors)
    if saved.meta["engine"] != simulation.engine.name:
        simulation.use(str(saved.meta["engine"]), watcher.say)


def outcome(simulation: Simulation, rows: list[Figures]) -> Figures:
    """The figures of a finished run."""
    last = rows[-1]
    known = simulation.evaluated
    if known is not None and known[0] == simulation.state.round:
        final = known[1]
    else:  # the run was stopped between its last round and its end
        final = simulation.figures(simulation.state)
    return {
        "key": simulation.spec.key,
        "train_loss": last["train_loss"],
        "rounds": last["round"],
        **final,
        **_target(simulation.federation.dataset),
        "selected": selected(rows, simulation.score),
        **{key: sum(row[key] for row in rows) for key in COUNTED},
        "traffic": total_traffic(rows),
        **simulation.privacy(last),
        "degrees": asdict(simulated_situation(simulation.federation.dataset, simulation.federation.partition)),
        "weights_sha256": simulation.state.digest(),
        "server_sha256": simulation.state.server_digest(),
        "weights": simulation.task.size,
        "engine": simulation.engine.name,
        "why_this_engine": simulation.why_this_engine,
        "version": unalike.__version__,
        "data_sha256": simulation.federation.dataset.rows_digest,
        "test_rows": len(simulation.federation.dataset.y_test),
        "torch": torch.__version__,
    }


def _target(data: Dataset) -> Figures:
    """How to read a net that predicts numbers: its output times scale, plus shift."""
    shift, scale = map(float, data.target)
    return {"target": {"shift": shift, "scale": scale}} if data.task == "regression" else {}


def final_weights(simulation: Simulation) -> dict[str, torch.Tensor]:
    """The final global model by layer name, or the server's vectors where there is no one global model."""
    w = simulation.algorithm.global_model(simulation.task, simulation.state.server)
    if w is None:
        return dict(simulation.state.server)
    return simulation.task.named(w, simulation.state.buffers)


def _use_threads(simulation: Simulation) -> None:
    """A stack is one large operation, which uses the threads; elsewhere so many parties run at once instead.

    After every round: the engine may have fallen back, and a run that goes on from there starts on the other one.
    """
    torch.set_num_threads(simulation.spec.threads if Vectorised.name in simulation.engine.name.split("|") else 1)


@contextmanager
def _threads_restored() -> Iterator[None]:
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
