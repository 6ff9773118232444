"""``unalike study work``: one of several processes that share a study's runs, such as the tasks of a job array."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer

from unalike.cli.options import DEFAULT_RUNS, DataDir, Plugins, Quiet, RunsFolder
from unalike.cli.program import program
from unalike.cli.show import draw, say
from unalike.cli.signals import StopRequested
from unalike.cli.study.arguments import Baselines, Name, OnlyTexts, Retry, Scale, elsewhere, selection

GO_ON = 75
"""The exit code of a process that was told to end and left work: the same command goes on (EX_TEMPFAIL)."""
_SIGNALS = ("SIGTERM", "SIGUSR1")


class _Ended(BaseException):
    """The scheduler wants this process to save and end."""


def work(
    study: Name,
    scale: Scale = 1.0,
    only: OnlyTexts = None,
    baselines: Baselines = False,
    retry: Retry = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait",
            help="for runs that others make: what follows from them, or goes on if they die [wait]",
            show_default=False,
        ),
    ] = True,
    plugin: Plugins = None,
    data_dir: DataDir = None,
    runs: RunsFolder = DEFAULT_RUNS,
    quiet: Quiet = False,
) -> None:
    """Take runs of a study until none is left, beside others that do the same, on this host or on others.

    Start it as often as there are cores: in a job array, or by hand. SIGTERM and SIGUSR1 save the run and end
    with exit code 75: the same command goes on.
    """
    with _signals():
        from unalike.cli.plugin import load_plugins
        from unalike.cli.study.progress import study_follower
        from unalike.studies.study import load_study, parse_only
        from unalike.studies.work import Taker
        from unalike.studies.workers import StudyStopped

        load_plugins(plugin)
        wanted = parse_only(only or [])
        found = load_study(study, baselines=baselines)
        follower = study_follower(quiet=quiet)
        taker = Taker(found, runs, scale=scale, only=wanted, retry=retry, wait=wait, watcher=follower)
        arguments = [study, *selection(scale, only, baselines=baselines), *elsewhere(runs)]
        arguments += [word for path in plugin or () for word in ("--plugin", str(path))]
        try:
            with follower:
                schedule = taker.work()
        except (StopRequested, StudyStopped) as stop:
            ended = StopRequested()
            ended.where = follower.where
            raise ended from stop
        except _Ended:
            say(f"Ended{follower.where}. Go on with: {program()} study work {shlex.join(arguments)}")
            raise typer.Exit(GO_ON) from None
    now = schedule.progress(1)
    left = f", {now.waiting} left to others" if now.waiting else ""
    draw(f"{now.done} of {now.total} runs done, {now.failed} failed{left}.")
    draw(f"See: {program()} study report {shlex.join(arguments)}")


@contextmanager
def _signals() -> Iterator[None]:
    """What a scheduler sends before it kills ends this process in an orderly way, once."""

    def end(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # the checkpoint that follows must be whole
        raise _Ended

    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    except _Ended:  # before there was anything to save
        raise typer.Exit(GO_ON) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
