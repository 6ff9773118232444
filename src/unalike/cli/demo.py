"""``unalike demo``: four hospitals and uneven digits, trained and drawn in a minute, without a download."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unalike.cli.options import AsJson
from unalike.cli.program import program
from unalike.cli.show import console, draw, duration, print_json, say
from unalike.errors import UserError
from unalike.runs.files import make_folder, storage_error

if TYPE_CHECKING:
    from unalike.demo.training import Tick

_SECONDS_BETWEEN_LINES = 5.0


def demo(
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="folder for the picture [demo]", show_default=False)
    ] = Path("demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="a few rounds only: too short to compare anything")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """See what unalike data do to training, and what a model of one's own is worth: hospitals and digits.

    Takes about a minute on two cores and downloads nothing. Every figure is a mean over several seeds.
    """
    from unalike.cli.demo_tables import NEXT, show
    from unalike.demo.content import FULL, QUICK, demonstrate
    from unalike.demo.picture import demo_picture
    from unalike.report.figures import save

    _check_folder(out)  # now, not after a minute of training
    plan = QUICK if quick else FULL
    began = time.monotonic()
    with _progress(plan.work) as tick:
        found = demonstrate(plan, tick)
    files = save(demo_picture(found.hospitals, found.digits), out / "demo")
    seconds = time.monotonic() - began
    if as_json:
        print_json({**found.to_dict(), "files": [str(path) for path in files], "seconds": seconds})
        return
    show(found, plan)
    if quick:
        draw("", "These figures come from a few rounds. Leave --quick out before you compare anything.")
    draw("", f"Saved {' and '.join(map(str, files))}. Took {duration(seconds)}.", "", "Next:")
    draw(*(f"  {program()} {command}" for command in NEXT))


def _check_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise UserError(f"--out must be a folder, but {out} is a file. Choose another.")
    make_folder(out)
    try:
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise storage_error(out, error) from error


@contextmanager
def _progress(work: int) -> Iterator[Tick]:
    """A bar on a terminal, a line every few seconds elsewhere, both with the time that is left."""
    if not sys.stderr.isatty():
        yield _lines(work)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:<22}"), BarColumn(24), TimeElapsedColumn(), TextColumn("ETA"))
    with Progress(*columns, TimeRemainingColumn(), console=console(), transient=True) as bar:
        task = bar.add_task("Preparing", total=work)
        yield lambda what, done: bar.update(task, description=what, advance=done)


def _lines(work: int) -> Tick:
    began = spoken = time.monotonic()
    so_far = 0

    def tick(what: str, done: int) -> None:
        nonlocal so_far, spoken
        so_far += done
        now = time.monotonic()
        if now - spoken >= _SECONDS_BETWEEN_LINES:
            spoken = now
            left = duration((now - began) * (work - so_far) / so_far)
            say(f"{100 * so_far // work:>3}%  {what}  ETA {left}")

    return tick
