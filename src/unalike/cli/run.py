"""``unalike run``: train once. Its flags are the fields of RunSpec."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unalike.cli.complete import choices
from unalike.cli.options import DEFAULT_RUNS, AsJson, DataDir, Plugins, Quiet, RunsFolder
from unalike.cli.plugin import load_plugins
from unalike.cli.program import program
from unalike.cli.show import (
    costs,
    draw,
    figures_table,
    gain_line,
    print_json,
    privacy_line,
    sample_line,
    say,
    stopped_line,
)
from unalike.cli.signals import StopRequested
from unalike.cli.spec_flags import with_flags
from unalike.engines.many.machines import Machines
from unalike.runs.checkpoint import CHECKPOINT_SECONDS
from unalike.runs.meaning import check_given
from unalike.runs.spec import RunSpec

if TYPE_CHECKING:
    from unalike.runs.result import Result

AUTO = "auto"
_BEFORE = "This run was finished before: here is its stored result."
_WRITTEN = ("delimiter", "encoding", "decimal", "thousands", "dates")


def run(
    spec: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="read these values from a file; flags override it")
    ] = None,
    plugin: Plugins = None,
    data_dir: DataDir = None,
    runs: RunsFolder = DEFAULT_RUNS,
    checkpoint_seconds: Annotated[
        float, typer.Option(metavar="FLOAT", help="work that a kill may cost [2.0]", show_default=False)
    ] = CHECKPOINT_SECONDS,
    log: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="also log to tensorboard, mlflow or wandb; repeatable",
            autocompletion=choices("tensorboard", "mlflow", "wandb"),
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="INTEGER", help="processes that share the parties' work, by Ray")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="the same on a Ray cluster, or auto"),
    ] = None,
    worker_cpus: Annotated[
        float | None, typer.Option(metavar="FLOAT", help="CPUs that Ray keeps for a worker [as --threads]")
    ] = None,
    mixed_workers: Annotated[
        bool, typer.Option("--mixed-workers", help="let workers join that compute other bits; the record says so")
    ] = False,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="also training alone, FedAvg, FedAvg tuned, and all rows pooled")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **fields: Any,
) -> None:
    """Train once.

    The same command goes on with a stopped run, and shows a finished one's result at once.

    \b
    Examples:
      unalike run --dataset heart --partition natural
      unalike run --partition "label-dirichlet(0.1)" --algorithm "fedprox(mu=0.1)"

    See "unalike list" for data sets, partitions, models, algorithms and optimisers.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    machines = Machines.said(workers, cluster, worker_cpus, mixed=mixed_workers)
    with redirect_stdout(sys.stderr):  # what a plugin prints must not mix with the result
        load_plugins(plugin)
        chosen, auto = _spec(spec, given, runs, quiet=quiet)
        result = _train(chosen, runs, checkpoint_seconds, log or (), machines, quiet=quiet, auto=auto)
        beside = []
        for each in _beside(chosen) if baselines else ():
            if not quiet:
                say(f"Beside it: {each.algorithm.partition('(')[0]}")
            beside.append(_train(each, runs, checkpoint_seconds, (), machines, quiet=quiet, auto=False))
    if as_json:
        said = {"baselines": [each.to_dict() for each in beside]} if baselines else {}
        print_json(result.to_dict() | said)
    else:
        _print(result, runs)
        if baselines:
            _print_beside([result, *beside])


def _spec(file: Path | None, given: dict[str, Any], runs: Path, *, quiet: bool) -> tuple[RunSpec, bool]:
    """The spec of the file and the flags, and whether its algorithm was ``auto``: the one that is recommended."""
    values = given if file is None else RunSpec.read_toml(file, **given)
    if values.get("algorithm") != AUTO:
        chosen = RunSpec.from_mapping(values)
        check_given(chosen, given)
        return chosen, False
    from unalike.runs.model_file import is_trees

    if is_trees(str(values.get("model", ""))):
        if not quiet:
            say("Algorithm: histogram. It grows the same trees whoever holds which row.")
        chosen = RunSpec.from_mapping(values | {"algorithm": "histogram"})
        check_given(chosen, given)
        return chosen, True
    from unalike.ranking.advice import text_of
    from unalike.ranking.evidence import advise_run

    chosen = RunSpec.from_mapping(values | {"algorithm": "fedavg"})
    advice = advise_run(chosen, runs)
    name = text_of(advice.ranking[0].algorithm)
    if not quiet:
        say(f"Algorithm: {name}, {advice.confidence} confidence. {' '.join(advice.reasons)}")
    tuned = int(advice.options.get("fine-tune", chosen.fine_tune))
    return dataclasses.replace(chosen, algorithm=advice.algorithm, fine_tune=tuned), True


def _chosen(spec: RunSpec) -> tuple[str, ...]:
    """What ``auto`` chose, as flags."""
    tuned = ("--fine-tune", str(spec.fine_tune)) if spec.fine_tune else ()
    return ("--algorithm", spec.algorithm, *tuned)


def _beside(spec: RunSpec) -> list[RunSpec]:
    """The same run with each of the baselines, but for the one that it is itself."""
    from unalike.studies.plan import baselines_of

    own = spec.algorithm.partition("(")[0]
    names = [name for name in baselines_of(spec.to_dict()) if name != own]
    return [dataclasses.replace(spec, algorithm=name) for name in names]


def _print_beside(results: Sequence[Result]) -> None:
    """The algorithms of these runs side by side."""
    from unalike.cli.study.show import print_lines
    from unalike.runs.results import read_record, settings

    records = [read_record(result.run_dir) for result in results if result.run_dir is not None]
    draw("")
    print_lines(settings(record for record in records if record is not None))


def _train(
    spec: RunSpec,
    runs: Path,
    checkpoint_seconds: float,
    logs: Sequence[str],
    machines: Machines | None,
    *,
    quiet: bool,
    auto: bool,
) -> Result:
    if not logs and (done := _finished(spec, runs, quiet=quiet)) is not None:
        return done
    from unalike.cli.progress import follower
    from unalike.runs import run as engine
    from unalike.runs.loggers import Watchers, make_loggers

    watcher = follower(quiet=quiet)
    loggers = make_loggers(logs, runs, watcher.say)
    try:
        with watcher:
            all_of_them = Watchers([watcher, *loggers])
            result = engine.run(
                spec,
                runs=runs,
                watcher=all_of_them,
                checkpoint_seconds=checkpoint_seconds,
                machines=machines,
            )
    except BaseException as stop:
        for logger in loggers:
            logger.stop()
        if isinstance(stop, StopRequested):
            stop.where, stop.chosen = watcher.where, _chosen(spec) if auto else ()
        raise
    for logger in loggers:
        logger.finish(spec, result.rows)
    if watcher.simulation is None and not quiet:
        say(_BEFORE)
    return result


def _finished(spec: RunSpec, runs: Path, *, quiet: bool) -> Result | None:
    """The stored result of a finished run: nothing is loaded that could train."""
    from unalike.models.own import why_unkept
    from unalike.runs.finished import finished

    if why_unkept(str(spec.model)):
        return None
    done = finished(spec, runs, (lambda message: None) if quiet else say)
    if done is not None and not quiet:
        say(_BEFORE)
    return done


def _new_rows(dataset: str) -> str:
    """What new rows may look like: a table as the training's, or an array."""
    kind = dataset.split("(")[0]
    if kind not in ("csv", "parquet"):
        return "csv:new.csv" if kind in ("sql", "sites") else "rows.npy"
    from unalike.data import DATASETS
    from unalike.part_text import as_text

    loader = DATASETS.build(dataset)
    values = DATASETS.entry_of(loader).values(loader)
    said = [f"{name}={as_text(value)}" for name, value, usual in values if name in _WRITTEN and value != usual]
    options = ", ".join(said)
    return shlex.quote(f"{kind}:new.{kind}({options})") if options else f"{kind}:new.{kind}"


def _code(spec: RunSpec) -> str:
    """The flag that allows the net's own file to run once more, where it has one."""
    if not str(spec.model).startswith("module("):
        return ""
    from unalike.models import MODELS

    own: Any = MODELS.build(str(spec.model))
    file = own.where.rpartition(":")[0]
    return f" {shlex.join(['--plugin', file])}"


def _print(result: Result, runs: Path) -> None:
    spec = result.spec
    elsewhere = "" if runs == DEFAULT_RUNS else f" {shlex.join(['--runs', str(runs)])}"
    record, rows = result.record, f"{_new_rows(spec.dataset)}{_code(spec)}"
    title = f"{record.algorithm} on {record.dataset}, {record.partition}, seed {record.seed}"
    draw(
        title,
        "",
        figures_table(result.figures),
        "",
        *gain_line(result.figures),
        costs(result.figures),
        *sample_line(result.figures),
        *stopped_line(result.figures),
        *privacy_line(result.figures),
        f"Kept in {result.run_dir}",
        "",
        f"Next: {program()} runs show {spec.key}{elsewhere}",
        f"      {program()} runs compare{elsewhere}",
        f"      {program()} predict {spec.key} --data {rows} -o predictions.csv{elsewhere}",
        *([f"      {program()} runs tree {spec.key}{elsewhere}"] if _grows_tree(spec.algorithm) else []),
    )


def _grows_tree(algorithm: str) -> bool:
    """Whether the parties' models are the nodes of a tree that can be drawn."""
    from unalike.algorithms import ALGORITHMS
    from unalike.algorithms.clustered.nodes import NodeModels

    return isinstance(ALGORITHMS.build(algorithm), NodeModels)


with_flags(run)
