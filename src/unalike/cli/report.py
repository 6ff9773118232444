"""``unalike report``: a page, figures and a table about a run, a study, or all runs in a folder."""

from __future__ import annotations

import shlex
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from unalike.cli import complete
from unalike.cli.options import (
    DEFAULT_RUNS,
    AsJson,
    DataDir,
    Plugins,
    RunsFolder,
    StudyBaselines,
    StudyOnly,
    StudyScale,
    check_output,
)
from unalike.cli.program import program
from unalike.cli.show import draw, print_json, say, say_damaged
from unalike.errors import UserError


def report(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|STUDY|FOLDER",
            help="a run's key or folder, a study's name or TOML file, or a folder of runs",
            autocompletion=complete.runs_and_studies,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE.html", help="where to [report.html]", show_default=False),
    ] = Path("report.html"),
    figures: Annotated[
        Path | None, typer.Option("--figures", metavar="DIR", help="also figures for a paper, SVG and PDF")
    ] = None,
    latex: Annotated[
        Path | None, typer.Option("--latex", metavar="FILE.tex", help="also the final table for LaTeX")
    ] = None,
    no_data: Annotated[
        bool, typer.Option("--no-data", help="do not load data sets: no heat maps and no features")
    ] = False,
    scale: StudyScale = 1.0,
    only: StudyOnly = None,
    baselines: StudyBaselines = False,
    runs: RunsFolder = DEFAULT_RUNS,
    plugin: Plugins = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write a page about a run or a study: one HTML file with all charts and tables, which needs no network.

    \b
    Examples:
      unalike report 3f2a -o report.html
      unalike report runs -o report.html --figures figures --latex table.tex

    Who holds which labels, and what the model's features look like, is shown where the data sets are at hand.
    """
    from unalike.cli.plugin import load_plugins

    check_output(output, ("-o", ".html", ".htm"))
    if latex is not None:
        check_output(latex, ("--latex", ".tex"))
    if figures is not None and figures.exists() and not figures.is_dir():
        raise UserError(f"--figures must be a folder, but {figures} is a file. Choose another name.")
    load_plugins(plugin)
    page = _page(what, runs, scale, only or [], baselines=baselines)
    from unalike.report.page import write_page

    written: dict[str, Any] = {"page": str(output), "bytes": write_page(page, output, not no_data)}
    if figures is not None:
        from unalike.report.camera_ready import camera_ready

        written["figures"] = [str(path) for path in camera_ready(page, figures)]
    if latex is not None:
        from unalike.report.latex import latex_table
        from unalike.runs.files import atomic_write

        atomic_write(latex, latex_table(page).encode())
        written["latex"] = str(latex)
    if as_json:
        print_json(written)
        return
    draw(f"{output}  ({written['bytes'] / 1000:,.0f} kB; open it in any browser)")
    if figures is not None:
        draw(f"{figures}  ({len(written['figures'])} figures)")
    if latex is not None:
        draw(str(latex))


def _page(what: str, runs: Path, scale: float, only: list[str], *, baselines: bool) -> Any:
    """Whatever ``what`` names: a study, a run's folder, a folder of runs, or the beginning of a run's name."""
    from unalike.cli.store import find_run, read_runs
    from unalike.report.page import page_of_records, page_of_run
    from unalike.runs.results import read_record, read_records

    if _is_study(what):
        return _study_page(what, runs, scale, only, baselines=baselines)
    if only or scale != 1.0 or baselines:
        raise UserError(f"--only, --scale and --baselines are for studies, and {what!r} is none. Leave them out.")
    path = Path(what)
    if _is_folder(path) and not (path / "spec.toml").exists():
        records = read_records(path)
        say_damaged(records)
        if not any(record.state == "finished" for record in records):
            raise UserError(f"There are no finished runs in {path}. Start one: unalike run --runs {path}")
        return page_of_records(f"Runs in {path.resolve().name}", records)
    if not _is_folder(path):
        try:
            path = find_run(read_runs(runs), what, runs).path
        except UserError:
            near = get_close_matches(what, _studies(), n=1, cutoff=0.8)
            if not near:
                raise
            raise UserError(
                f"There is no run and no study {what!r}. Did you mean the study {near[0]!r}?"
            ) from None
    record = read_record(path)
    if record is None:
        raise UserError(
            f"{path} has no spec.toml that can be read. Run the command that made it again, or remove it."
        )
    if record.damaged:
        say(f"{record.problem} The report has what is undamaged. Run it again.")
    if not record.rounds:
        raise UserError(f"{path} has no rounds yet. Start it again, or choose another run.")
    return page_of_run(record)


def _is_study(what: str) -> bool:
    return what.endswith(".toml") or (not _is_folder(Path(what)) and what in _studies())


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that is too long for one
        return False


def _studies() -> list[str]:
    """The names of those that come with the package."""
    from unalike.studies.study import built_in_studies

    return list(built_in_studies())


def _study_page(what: str, runs: Path, scale: float, only: list[str], *, baselines: bool) -> Any:
    from unalike.report.page import page_of_study
    from unalike.studies.study import load_study, parse_only, study_results

    results = study_results(load_study(what, baselines=baselines), runs, scale, parse_only(only))
    say_damaged(results.damaged)
    page = page_of_study(results, runs, only)
    if not page.settings and not page.failures:  # where runs failed, the page says why
        start = shlex.join(["study", "run", what, "--runs", str(runs)])
        raise UserError(f"No run of {what} is finished in {runs}. Start it: {program()} {start}")
    return page
