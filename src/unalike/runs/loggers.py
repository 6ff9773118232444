"""A run's rounds in TensorBoard, MLflow or W&B, beside its own record. All are extras, imported when asked for.

The record in the run's folder is the truth; a log can be made from it at any time. So a log that fails is given up
with one line while the run goes on, and one that is opened again is brought up to date and has no round twice.
"""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from textwrap import shorten
from typing import Any

from unalike.errors import UserError, unknown
from unalike.runs.files import make_folder
from unalike.runs.playable import Playable
from unalike.runs.record import read_rounds
from unalike.runs.spec import RunSpec
from unalike.runs.watcher import Watcher
from unalike.scores import Figures

EXPERIMENT = "unalike"
"""MLflow's experiment and W&B's project, unless MLFLOW_EXPERIMENT_NAME or WANDB_PROJECT names another."""
KEY = "unalike.key"
"""The tag that ties an MLflow run to a run of ours."""
MARK = "round"
"""The metric that is logged last of a round: the round is in the log when it is."""
_NOT_LOGGED = {"round", "traffic"}


class Watchers(Watcher):
    """Several watchers in place of one."""

    def __init__(self, watchers: Iterable[Watcher]) -> None:
        self.watchers = tuple(watchers)

    def started(self, simulation: Playable) -> None:
        """Tell every watcher that the run begins, or goes on."""
        for watcher in self.watchers:
            watcher.started(simulation)

    def round_done(self, row: Figures) -> None:
        """Tell every watcher what a round has given."""
        for watcher in self.watchers:
            watcher.round_done(row)

    def say(self, message: str) -> None:
        """Give every watcher a message for the user."""
        for watcher in self.watchers:
            watcher.say(message)


class Logger(Watcher):
    """Keeps a log of a run in step with its record. ``say`` gets the line about a log that fails."""

    name = ""

    def __init__(self, runs: Path, say: Callable[[str], None] = lambda message: None) -> None:
        self._runs, self._say = runs, say
        self._broken = self._started = False

    def started(self, simulation: Playable) -> None:
        """Bring the log up to the round from which the run goes on."""
        spec, self._started = simulation.spec, True
        rows = read_rounds(self._runs / spec.folder)[: simulation.state.round]
        self._try(lambda: self._open(spec, rows))

    def round_done(self, row: Figures) -> None:
        """Add a round's figures to the log."""
        self._try(lambda: self._log(row))

    def finish(self, spec: RunSpec, rows: Sequence[Figures]) -> None:
        """The run is finished; one that was not played now, but looked up, is logged as a whole."""
        if not self._started:
            self._try(lambda: self._open(spec, rows))
        self._try(lambda: self._close("FINISHED"))

    def stop(self) -> None:
        """The run was stopped, or failed."""
        self._try(lambda: self._close("KILLED"))

    def _try(self, action: Callable[[], None]) -> None:
        if self._broken:
            return
        try:
            action()
        except Exception as error:  # whatever a tracking server or a disk comes up with
            self._broken = True
            reason = shorten(str(error), 200, placeholder=" ...") or type(error).__name__
            self._say(f"The {self.name} log is given up ({reason}). The run goes on; its own record is complete.")

    def _open(self, spec: RunSpec, rows: Sequence[Figures]) -> None:
        raise NotImplementedError

    def _log(self, row: Figures) -> None:
        raise NotImplementedError

    def _close(self, status: str) -> None:
        raise NotImplementedError


class TensorBoard(Logger):
    """Scalars in the run's folder, under ``tensorboard``; the log is written anew whenever it is opened."""

    name = "TensorBoard"

    def __init__(self, runs: Path, say: Callable[[str], None] = lambda message: None) -> None:
        super().__init__(runs, say)
        self._writer_class = _module("torch.utils.tensorboard", "tensorboard", needs="tensorboard").SummaryWriter
        self._writer: Any = None

    def _open(self, spec: RunSpec, rows: Sequence[Figures]) -> None:
        folder = self._runs / spec.folder / "tensorboard"
        make_folder(folder)
        for old in folder.glob("events.out.tfevents.*"):  # all that is in them is in the rows
            with suppress(FileNotFoundError):
                old.unlink()
        # A TensorBoard that has the old files open forgets what they said from purge_step on.
        self._writer = self._writer_class(str(folder), purge_step=1)
        self._writer.add_text("spec", "".join(f"    {line}\n" for line in spec.to_toml().splitlines()), 0)
        for row in rows:
            self._log(row)

    def _log(self, row: Figures) -> None:
        for name, value in scalars(row).items():
            self._writer.add_scalar(name, value, row["round"])

    def _close(self, status: str) -> None:
        if self._writer is not None:
            self._writer.close()


class MLflow(Logger):
    """Metrics and parameters where MLFLOW_TRACKING_URI says; a run that goes on goes on there too."""

    name = "MLflow"

    def __init__(self, runs: Path, say: Callable[[str], None] = lambda message: None) -> None:
        super().__init__(runs, say)
        self._mlflow = _module("mlflow", "mlflow")
        self._entities = _module("mlflow.entities", "mlflow")
        self._client: Any = None
        self._id = ""
        self._last = 0

    def _open(self, spec: RunSpec, rows: Sequence[Figures]) -> None:
        self._client = self._mlflow.MlflowClient()
        experiment = self._experiment()
        known = self._client.search_runs([experiment], filter_string=f"tags.`{KEY}` = '{spec.key}'", max_results=1)
        if known:
            self._id = known[0].info.run_id
            self._last = int(known[0].data.metrics.get(MARK, 0))
            self._client.update_run(self._id, status="RUNNING")
        else:
            self._id = self._client.create_run(experiment, tags={KEY: spec.key}, run_name=spec.folder).info.run_id
            self._last = 0
            parameters = [self._entities.Param(name, str(value)) for name, value in spec.to_dict().items()]
            self._client.log_batch(self._id, params=parameters)
        for row in rows:
            self._log(row)

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
        found = self._client.get_experiment_by_name(name)
        return str(self._client.create_experiment(name) if found is None else found.experiment_id)

    def _log(self, row: Figures) -> None:
        number = int(row["round"])
        if number <= self._last:
            return
        now = int(1000 * time.time())
        values = {**scalars(row), MARK: float(number)}  # the mark is last
        metrics = [self._entities.Metric(name, value, now, number) for name, value in values.items()]
        self._client.log_batch(self._id, metrics=metrics)
        self._last = number

    def _close(self, status: str) -> None:
        if self._id:
            self._client.set_terminated(self._id, status)


class WandB(Logger):
    """Metrics and the spec for Weights & Biases: in files in the run's folder, unless WANDB_MODE says online.

    Files are written anew whenever the log is opened, so that there is one folder to send with ``wandb sync``. A
    run that is online goes on there. What the package would tell of machine, code and itself is switched off.
    """

    name = "W&B"

    def __init__(self, runs: Path, say: Callable[[str], None] = lambda message: None) -> None:
        super().__init__(runs, say)
        if os.environ.setdefault("WANDB_MODE", "offline") == "offline":
            # Before the import: it would look for its maker's server, even offline.
            os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        self._wandb = _module("wandb", "wandb")
        self._run: Any = None
        self._last = 0

    def _open(self, spec: RunSpec, rows: Sequence[Figures]) -> None:
        folder = self._runs / spec.folder
        make_folder(folder)
        if os.environ["WANDB_MODE"] == "offline":
            for old in (folder / "wandb").glob(f"offline-run-*-{spec.key}"):  # all that is in them is in the rows
                shutil.rmtree(old, ignore_errors=True)
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT") or EXPERIMENT,
            id=spec.key,
            name=spec.folder,
            resume="allow",
            reinit="create_new",  # a run of the user's own in this process is left alone
            dir=str(folder),
            config=spec.to_dict(),
            settings=self._wandb.Settings(
                silent=True,
                console="off",
                save_code=False,
                disable_git=True,
                x_disable_stats=True,
                x_disable_meta=True,
                x_save_requirements=False,
                host="-",
            ),
        )
        known = self._run.summary.get(MARK) if self._run.resumed else 0
        self._last = int(known) if isinstance(known, int | float) else 0
        for row in rows:
            self._log(row)

    def _log(self, row: Figures) -> None:
        number = int(row["round"])
        if number > self._last:
            self._run.log({**scalars(row), MARK: number}, step=number)
            self._last = number

    def _close(self, status: str) -> None:
        if self._run is not None:
            self._run.finish(exit_code=0 if status == "FINISHED" else 1)


LOGGERS: dict[str, type[Logger]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}


def make_loggers(names: Iterable[str], runs: Path, say: Callable[[str], None]) -> list[Logger]:
    """The loggers of these names, each once; one line says what to install where it is missing."""
    made = []
    for name in dict.fromkeys(names):
        if name not in LOGGERS:
            raise unknown("log", name, LOGGERS)
        made.append(LOGGERS[name](runs, say))
    return made


def scalars(row: Mapping[str, Any]) -> dict[str, float]:
    """A round's finite numbers by name, ``parties/worst`` for one inside another; without bytes by key."""
    found: dict[str, float] = {}
    for name, value in row.items():
        if name in _NOT_LOGGED or isinstance(value, bool):
            continue
        if isinstance(value, int | float) and math.isfinite(value):
            found[name] = float(value)
        elif isinstance(value, Mapping):
            found.update({f"{name}/{inner}": number for inner, number in scalars(value).items()})
    return found


def _module(name: str, extra: str, needs: str | None = None) -> Any:
    try:
        if needs is not None:
            import_module(needs)
        return import_module(name)
    except ImportError:
        raise UserError(
            f"--log {extra} needs the package {extra}, which is not installed. Get it with: "
            f"pip install 'unalike[{extra}]'"
        ) from None
