"""``unalike study``: grids of runs, made in parallel, resumable, and shown beside the papers' numbers."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unalike.cli import complete
from unalike.cli.commands import App
from unalike.cli.options import DEFAULT_RUNS, AsJson, DataDir, Plugins, Quiet, RunsFolder, check_output
from unalike.cli.program import program
from unalike.cli.show import draw, duration, indented, print_json, say, say_damaged, table
from unalike.cli.study.arguments import Baselines, Name, OnlyTexts, Retry, Scale, elsewhere, selection
from unalike.cli.study.places import place_of
from unalike.cli.study.work import work
from unalike.errors import UserError

if TYPE_CHECKING:
    from unalike.studies.study import StudyResults

app = App(help="Run a grid of runs in parallel, beside the papers' numbers.")


@app.command("list")
def list_studies(as_json: AsJson = False) -> None:
    """List the studies that come with the package."""
    from unalike.studies.study_file import built_in_studies

    found = built_in_studies()
    if as_json:
        print_json({"studies": [{"name": name, "title": title} for name, title in found.items()]})
        return
    draw(table(["study", "what"], found.items(), text=["what"]))


@app.command("run")
def run_study(
    study: Name,
    workers: Annotated[
        int | None, typer.Option("--workers", help="runs at once, one thread each [as many as cores]")
    ] = None,
    on: Annotated[
        str, typer.Option("--on", metavar="processes|ray", help="where: here, or on a Ray cluster [processes]")
    ] = "processes",
    address: Annotated[
        str | None,
        typer.Option("--cluster", metavar="HOST:PORT|auto", help="the cluster for --on ray [one on this machine]"),
    ] = None,
    ship: Annotated[
        bool, typer.Option("--ship", help="send runs to and fro: the hosts do not share the folder of runs")
    ] = False,
    scale: Scale = 1.0,
    only: OnlyTexts = None,
    baselines: Baselines = False,
    retry: Retry = False,
    plugin: Plugins = None,
    data_dir: DataDir = None,
    runs: RunsFolder = DEFAULT_RUNS,
    quiet: Quiet = False,
) -> None:
    """Run a study; the same command goes on with a stopped one.

    Each run is made once, whoever asks for it. A run that fails is recorded with its reason, and the others go on.
    """
    from unalike.cli.plugin import load_plugins
    from unalike.cli.signals import StopRequested
    from unalike.cli.study.progress import study_follower
    from unalike.cli.study.show import print_report
    from unalike.studies.study import load_study, parse_only, study_results
    from unalike.studies.workers import Runner, StudyStopped

    load_plugins(plugin)
    wanted = parse_only(only or [])
    found = load_study(study, baselines=baselines)
    follower = study_follower(quiet=quiet)
    try:
        with place_of(on, address, found, runs, workers, plugin, ship=ship) as place, follower:
            Runner(
                found, runs, scale=scale, only=wanted, workers=workers, retry=retry, watcher=follower, place=place
            ).run()
    except (StopRequested, StudyStopped) as stop:
        ended = StopRequested()
        ended.where = follower.where
        raise ended from stop
    print_report(study_results(found, runs, scale, wanted))
    arguments = [study, *selection(scale, only, baselines=baselines), *elsewhere(runs)]
    arguments += [word for path in plugin or () for word in ("--plugin", str(path))]
    draw("", f"Again: {program()} study report {shlex.join(arguments)}")


app.command("work")(work)


@app.command("status")
def show_status(
    study: Name,
    scale: Scale = 1.0,
    only: OnlyTexts = None,
    baselines: Baselines = False,
    plugin: Plugins = None,
    data_dir: DataDir = None,
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """Show how far a study is, also while it runs elsewhere."""
    from unalike.cli.plugin import load_plugins
    from unalike.runs.claim import is_busy
    from unalike.studies.presence import running
    from unalike.studies.schedule import Schedule
    from unalike.studies.study import load_study, parse_only, plan_study

    load_plugins(plugin)
    found = load_study(study, baselines=baselines)
    schedule = Schedule(plan_study(found, scale, parse_only(only or [])), runs, looking=True)
    now = schedule.progress(schedule.mark_busy(is_busy))
    say_damaged(schedule.damaged)
    processes = len(running(runs, found.name))
    failed = [record for record in schedule.records.values() if record.state == "failed"] + schedule.lost
    if as_json:
        counts = {name: getattr(now, name) for name in ("total", "done", "running", "waiting", "failed")}
        eta = now.seconds_left if now.running else None
        print_json(
            {"study": found.name, "processes": processes, **counts, "seconds_left": eta, "failures": _why(failed)}
        )
        return
    state = f"running in {processes} process(es)" if processes else "not running"
    draw(
        f"{found.title} ({state})",
        f"{now.done} done, {now.running} running, {now.waiting} waiting, {now.failed} failed, of {now.total} runs",
    )
    if now.running and now.seconds_left is not None:
        draw(f"ETA {duration(now.seconds_left)}")
    for problem, count in _why(failed).items():
        draw(indented(f"{count} failed: {problem}"))


@app.command("report")
def report_study(
    study: Name,
    scale: Scale = 1.0,
    only: OnlyTexts = None,
    baselines: Baselines = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.html", help="a page")] = None,
    plugin: Plugins = None,
    data_dir: DataDir = None,
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """Show what there is of a study, finished or not, beside the published numbers."""
    from unalike.cli.plugin import load_plugins
    from unalike.cli.study.show import print_report, report_dict
    from unalike.studies.study import load_study, parse_only, study_results

    if output is not None:
        check_output(output, ("-o", ".html", ".htm"))
    load_plugins(plugin)
    results = study_results(load_study(study, baselines=baselines), runs, scale, parse_only(only or []))
    say_damaged(results.damaged)
    if output is not None:
        _write_page(results, runs, output, only or [])
    if as_json:
        print_json(report_dict(results))
    elif output is None:
        print_report(results)
    else:
        say(f"Written: {output}")


def _write_page(results: StudyResults, runs: Path, output: Path, only: list[str]) -> None:
    from unalike.report.page import page_of_study, write_page

    write_page(page_of_study(results, runs, only), output)


@app.command("stop")
def stop_study(study: Name, runs: RunsFolder = DEFAULT_RUNS) -> None:
    """Stop a study that runs in another terminal; its runs are saved first."""
    from unalike.studies.presence import stop

    name = Path(study).stem
    asked, left = stop(runs, name)
    if not asked:
        status = shlex.join(["study", "status", study, *elsewhere(runs)])
        raise UserError(f"{name} is not running in {runs}. See: {program()} {status}")
    if left:
        raise UserError(f"{left} of {asked} process(es) still save their work. Ask again in a minute.")
    say(f"Stopped. Go on with: {program()} {shlex.join(['study', 'run', study, *elsewhere(runs)])}")


@app.command("export")
def export_store(
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="[STUDY]", help="only its runs [all in the folder]", autocompletion=complete.studies
        ),
    ] = None,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="a CSV file; - is stdout")] = None,
    parquet: Annotated[Path | None, typer.Option("--parquet", metavar="FILE", help="a Parquet file")] = None,
    rounds: Annotated[bool, typer.Option("--rounds", help="one row a round instead of one a run")] = False,
    scale: Scale = 1.0,
    only: OnlyTexts = None,
    baselines: Baselines = False,
    plugin: Plugins = None,
    runs: RunsFolder = DEFAULT_RUNS,
) -> None:
    """Write the results to a table: all fields of the specs, and the figures."""
    from unalike.cli.plugin import load_plugins
    from unalike.runs.files import atomic_write
    from unalike.studies.export import csv_bytes, parquet_bytes, study_keys
    from unalike.studies.store import Store
    from unalike.studies.study import load_study, parse_only

    if (csv is None) == (parquet is None):
        raise UserError("Choose where to: --csv FILE or --parquet FILE.")
    if study is None and (only or scale != 1.0 or baselines):
        raise UserError("--only, --scale and --baselines need a study. Write: unalike study export STUDY ...")
    if not runs.is_dir():
        raise UserError(f"There is no folder of runs {runs}. Check --runs.")
    load_plugins(plugin)
    found = None if study is None else load_study(study, baselines=baselines)
    keys = None if found is None else study_keys(found, runs, scale, parse_only(only or []))
    with Store(runs) as store:
        store.sync()
        rows = [row for row in store.rows(rounds=rounds) if keys is None or row["key"] in keys]
    if csv is not None and str(csv) == "-":
        sys.stdout.write(csv_bytes(rows).decode())
        return
    target = csv or parquet
    assert target is not None
    atomic_write(target, csv_bytes(rows) if csv else parquet_bytes(rows))
    say(f"Written: {len(rows)} rows to {target}")


def _why(failed: list[Any]) -> dict[str, int]:
    """Reasons, and how many runs failed for each."""
    counts: dict[str, int] = {}
    for record in failed:
        counts[record.problem or "?"] = counts.get(record.problem or "?", 0) + 1
    return counts
