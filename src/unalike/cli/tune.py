"""``unalike tune``: choose parameters on validation rows, and write a study that plays what was chosen."""

from __future__ import annotations

import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unalike.cli import complete
from unalike.cli.options import DEFAULT_RUNS, AsJson, DataDir, Plugins, Quiet, RunsFolder, check_output
from unalike.cli.plugin import load_plugins
from unalike.cli.program import program
from unalike.cli.show import MISSING, Paragraph, draw, number, print_json, say, table
from unalike.cli.signals import StopRequested
from unalike.cli.spec_flags import with_flags
from unalike.errors import UserError

if TYPE_CHECKING:
    from unalike.studies.tuning.result import TunedAlgorithm, TuningResult

_PICTURES = (".svg", ".png", ".pdf")


def tune(
    space: Annotated[
        list[str] | None,
        typer.Option("--space", metavar="NAME=VALUES", help='what is tuned, e.g. "lr=log(1e-3,1)"; repeatable'),
    ] = None,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            "--algorithm",
            metavar="TEXT",
            help="tuned by itself, with a budget of its own; repeatable [fedavg]",
            autocompletion=complete.parts("algorithm"),
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option("--trials", help="for each algorithm [9, or what fits]")] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", help="rounds for each algorithm, over all trials and seeds")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="LIST", help="tuning seeds [100,101,102]")
    ] = None,
    reporting_seeds: Annotated[
        str,
        typer.Option("--reporting-seeds", metavar="LIST", help="of the final runs [0,1,2]", show_default=False),
    ] = "0,1,2",
    draw_seed: Annotated[int, typer.Option("--draw-seed", help="of the draws [0]", show_default=False)] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.toml", help="a study that plays what was chosen")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE.svg", help="scores by round; or .png, .pdf")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", help="processes, one thread each [as many as cores]")
    ] = None,
    plugin: Plugins = None,
    data_dir: DataDir = None,
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **fields: Any,
) -> None:
    """Choose parameters by the score on the parties' validation rows; the same command goes on after a stop.

    Trials are drawn from a space, stopped at a ninth and a third of the rounds, and the best third goes on.
    Test rows take no part. Every trial is an ordinary run; the final runs have seeds of their own.

    \b
    Examples:
      unalike tune --algorithm fedprox --space "lr=log(1e-3,1)" -o chosen.toml
      unalike study run chosen.toml
    """
    if output is not None:
        check_output(output, ("-o", ".toml"))
    if picture is not None:
        check_output(picture, ("--picture", *_PICTURES))
    if not space:
        raise UserError('There is nothing to tune. Add --space "lr=log(1e-3,1)".')
    with redirect_stdout(sys.stderr):  # what a plugin prints must not mix with the result
        load_plugins(plugin)
        from unalike.studies.tuning.tune import tuning_study

        study = tuning_study(
            space,
            algorithm or (),
            trials,
            budget,
            None if seeds is None else _seeds("--seeds", seeds),
            _seeds("--reporting-seeds", reporting_seeds),
            draw_seed,
            {name: value for name, value in fields.items() if value is not None},
        )
        result = _search(study, runs, workers, plugin or [], quiet=quiet)
    if output is not None:
        result.save(output)
    if picture is not None:
        _draw_picture(result, picture)
    if as_json:
        print_json(result.to_dict())
        return
    _print(result)
    _print_next(result, output, picture, runs)


def _seeds(flag: str, text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise UserError(f"{flag} must be whole numbers, got {text!r}. Write {flag} 100,101,102.") from None


def _search(study: Any, runs: Path, workers: int | None, plugins: list[Path], *, quiet: bool) -> TuningResult:
    from unalike.cli.study.progress import study_follower
    from unalike.studies.tuning.tune import tuning_plan, tuning_result
    from unalike.studies.workers import Runner, StudyStopped

    plan = tuning_plan(study)
    follower = study_follower(quiet=quiet)
    follower.tuning = True
    module = "unalike.cli.study.worker" if plugins else "unalike.studies.worker"
    command = [sys.executable, "-m", module, *map(str, plugins)]
    runner = Runner(study, runs, workers=workers, watcher=follower, command=command, plan=plan)
    for search in () if quiet else plan.tunings:
        say(f"{search.algorithm}: {search.how}.")
    try:
        with follower:
            runner.run()
    except (StopRequested, StudyStopped) as stop:
        ended = StopRequested()
        ended.where = follower.where
        raise ended from stop
    return tuning_result(study, plan, runs)


def _print(result: TuningResult) -> None:
    for one in result.tuned:
        scale, rounds = one.scale, [rung.round for rung in one.search.rungs] or [one.search.rounds]
        names = [dimension.name for dimension in one.search.dimensions]
        stops = [f"round {each}" for each in rounds]
        draw(f"{one.algorithm}: {scale.words}{' in percent' * scale.is_percent} on validation rows", "")
        rows = [_row(one, trial, names, rounds) for trial in _order(one)]
        draw(table(["trial", *names, *stops, ""], rows, right=["trial", *names, *stops], spare=[*stops[:-1]]))
        draw(Paragraph(one.why))
        if one.epsilon is not None:
            epsilon, delta = one.epsilon
            draw(
                Paragraph(
                    f"Privacy: choosing spent epsilon {number(epsilon)} at delta {delta:.1g} in all, summed over "
                    "the runs above; the final runs spend theirs on top."
                )
            )
        draw("")


def _order(one: TunedAlgorithm) -> list[int]:
    """Those that came furthest first, among them the best; the untuned run last."""

    def place(trial: int) -> tuple[int, float, int]:
        entered = [heat for heat in one.heats if trial in heat.entered]
        score = entered[-1].scores.get(trial) if entered else None
        return -len(entered), -one.scale.goodness(score), trial

    return [*sorted(range(1, len(one.trials)), key=place), 0]


def _row(one: TunedAlgorithm, trial: int, names: list[str], rounds: list[int]) -> list[str]:
    candidate, scores = one.trials[trial], dict(one.curves()[trial])
    told = [one.scale.text(scores[each], unit="") if each in scores else MISSING for each in rounds]
    values = [str(candidate.values[name]) if trial else "untuned" for name in names]
    remarks = ["chosen"] if trial == one.winner else []
    return [str(trial), *values, *told, ", ".join(remarks + ["failed"] * one.failed(trial))]


def _print_next(result: TuningResult, output: Path | None, picture: Path | None, runs: Path) -> None:
    if len(result.tuned) > 1:
        best = result.best
        draw(f"Best on validation rows: {best.chosen.label if best.chosen.number else best.algorithm}", "")
    elsewhere = [] if runs == DEFAULT_RUNS else ["--runs", str(runs)]
    if picture is not None:
        draw(f"Picture: {picture}")
    if output is None:
        draw("Add -o chosen.toml for a study with the chosen values and the reporting seeds.")
    else:
        words = shlex.join(["study", "run", str(output), *elsewhere])
        draw(f"Written: {output}", f"Next: {program()} {words}")


def _draw_picture(result: TuningResult, picture: Path) -> None:
    from unalike.report.figures import save
    from unalike.report.tuning_picture import tuning_picture

    save(tuning_picture(result.tuned), picture.with_suffix(""), kinds=[picture.suffix[1:].lower()])


with_flags(tune, without=("seed", "algorithm"))
