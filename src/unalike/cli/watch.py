"""``unalike watch``: a page in the browser that follows runs, a study or a federation live."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unalike.cli import complete
from unalike.cli.options import DEFAULT_RUNS, DataDir, Plugins, RunsFolder, StudyBaselines, StudyOnly, StudyScale
from unalike.cli.show import draw, say
from unalike.cli.signals import StopRequested
from unalike.errors import UserError

if TYPE_CHECKING:
    from unalike.watch.board import Source

_MOST_PORT = 65535


def watch(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUNS|STUDY|FEDERATION]",
            help="a folder of runs, a run's key, a study's name or TOML file, or a server's folder [the runs]",
            autocompletion=complete.runs_and_studies,
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", help="of 127.0.0.1 [any that is free]", show_default=False)] = 0,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="open the page in the browser [no]", show_default=False)
    ] = False,
    scale: StudyScale = 1.0,
    only: StudyOnly = None,
    baselines: StudyBaselines = False,
    runs: RunsFolder = DEFAULT_RUNS,
    plugin: Plugins = None,
    data_dir: DataDir = None,
) -> None:
    """Follow runs, a study or a federation live on a page in the browser, until Ctrl-C.

    \b
    Examples:
      unalike watch
      unalike watch my-study.toml --port 8000
      unalike watch hospitals

    The page is on this machine's own address, and only for whoever has the address that is printed. Nothing is
    written to the folders that are followed, and nothing of a run waits for it.
    """
    from unalike.cli.plugin import load_plugins
    from unalike.watch.board import Board
    from unalike.watch.server import serving

    if not 0 <= port <= _MOST_PORT:
        raise UserError(f"--port must be from 0 to {_MOST_PORT}, got {port}. Leave it out for any that is free.")
    load_plugins(plugin)
    board = Board(_source(what, runs, scale, only or [], baselines=baselines))
    board.look()
    with serving(board, port) as server:
        draw(server.address)
        sys.stdout.flush()  # a pipe's reader waits for it
        say("The address opens the page once, in one browser. Ctrl-C ends this, and nothing else.")
        try:
            with _opened(server.address) if open_page else _nothing():
                _wait()
        except StopRequested:
            say("The page is closed.")


def _wait() -> None:
    """Until Ctrl-C, which ends it by an exception."""
    threading.Event().wait()


def _source(what: str | None, runs: Path, scale: float, only: list[str], *, baselines: bool) -> Source:
    """Whatever ``what`` names: a study, a server's folder, a run's, a folder of runs, or a run by its key."""
    from unalike.watch.sources import OneRun, RunsIn

    path = runs if what is None else Path(what)
    if what is not None and (what.endswith(".toml") or (not path.is_dir() and what in _studies())):
        return _study(what, runs, scale, only, baselines=baselines)
    if only or scale != 1.0 or baselines:
        raise UserError(f"--only, --scale and --baselines are for studies, and {path} is none. Leave them out.")
    if what is not None and not path.is_dir():
        from unalike.cli.store import find_run, read_runs

        return OneRun(find_run(read_runs(runs), what, runs).path)
    if (path / "spec.toml").exists():
        return OneRun(path)
    if (path / "federation.toml").exists():
        return _federation(path)
    return RunsIn(path)


def _studies() -> list[str]:
    """The names of the studies that come with the package."""
    from unalike.studies.study_file import built_in_studies

    return list(built_in_studies())


def _study(what: str, runs: Path, scale: float, only: list[str], *, baselines: bool) -> Source:
    from unalike.studies.study import load_study, parse_only, plan_study
    from unalike.watch.sources import StudyRuns

    study = load_study(what, baselines=baselines)
    return StudyRuns(study, plan_study(study, scale, parse_only(only)), runs)


def _federation(folder: Path) -> Source:
    from unalike.federation.making import is_server
    from unalike.watch.federations import ServerSide

    if not is_server(folder):
        raise UserError(f"{folder} is a site's folder. Look at it with: unalike federation status {folder}")
    return ServerSide(folder)


@contextmanager
def _opened(address: str) -> Iterator[None]:
    """Open the page in the browser by way of a private file: a command line could be read by others."""
    handle, name = tempfile.mkstemp(suffix=".html", prefix="unalike-watch-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f'<meta http-equiv="refresh" content="0; url={escape(address)}">')
        if not webbrowser.open(Path(name).as_uri()):
            say("No browser could be started here: open the address above yourself.")
        yield
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def _nothing() -> Iterator[None]:
    yield
