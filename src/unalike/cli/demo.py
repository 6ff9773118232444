"""``unalike demo``: four hospitals and uneven digits, trained and drawn in a minute, without a download."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from unalike.cli.options import AsJson
from unalike.cli.program import program
from unalike.cli.show import console, draw, duration, print_json, say, table
from unalike.engine.files import make_folder, storage_error
from unalike.errors import UserError
from unalike.report.demo import FULL, QUICK, Demonstration, Plan, demonstrate
from unalike.report.demo_picture import SPLIT_NAMES, demo_picture
from unalike.report.figures import save
from unalike.report.hospitals import ALONE, NEIGHBOUR, POOLED, Hospitals
from unalike.report.reading import NOISE, read_digits, read_hospitals
from unalike.report.training import Tick
from unalike.report.uneven_digits import SETTINGS, UNEVEN, Digits

_SAME = shlex.join(
    ["run", "--partition", UNEVEN, "--rounds", "30"]
    + [word for name, value in SETTINGS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
)
NEXT = (
    f"{_SAME} --algorithm fedavg",
    f'{_SAME} --algorithm "fedprox(mu=0.1)"',
    "runs compare",
)
_SHORT_NAMES = {
    NEIGHBOUR: "another's model",
    ALONE: "own model, alone",
    "FedAvg": "FedAvg, together",
    "FedProx": "FedProx, together",
    POOLED: "pooled, forbidden",
}
_SECONDS_BETWEEN_LINES = 5.0


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="folder for the picture")] = Path("demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="a few rounds only: too short to compare anything")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """See what unalike data do to training: four hospitals, and digits split unevenly.

    Takes about a minute on two cores and downloads nothing. Every figure is a mean over several seeds.
    """
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
    _show(found, plan)
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
    columns = (TextColumn("{task.description:<22}"), BarColumn(24), TimeElapsedColumn(), TextColumn("ETA"))
    with Progress(*columns, TimeRemainingColumn(), console=console(stderr=True), transient=True) as bar:
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


def _show(found: Demonstration, plan: Plan) -> None:
    seeds = f"{len(plan.seeds)} seeds, {plan.rounds} rounds"
    _show_hospitals(found.hospitals, seeds)
    _show_digits(found.digits, seeds)


def _heading(text: str) -> None:
    draw("", text, "─" * len(text))


def _paragraphs(sentences: list[str]) -> list[RenderableType]:
    return ["", *(Text(sentence) for sentence in sentences)]  # a Text wraps between words


def _show_hospitals(found: Hospitals, seeds: str) -> None:
    _heading("Four hospitals that may not share their patients (heart, natural)")
    skew = found.skew
    columns = ["hospital", "patients", "to test", "disease", "missing values", "entropy", "distance"]
    rows = [
        [
            name,
            str(counts.sum()),
            str(found.tested(name).sum()),
            f"{100 * counts[1] / counts.sum():.0f}%",
            f"{100 * found.missing[number]:.0f}%",
            f"{skew.entropy[number]:.2f} bits",
            f"{skew.total_variation[number]:.2f}",
        ]
        for number, (name, counts) in enumerate(zip(found.names, found.counts, strict=True))
    ]
    draw(table(columns, rows, right=columns[1:]))
    draw(Text("Entropy of the hospital's labels; total variation distance between them and those of all."))
    draw("", f"Accuracy in % on each hospital's own test patients (mean ± std, {seeds})")
    columns = ["", *found.places]
    guesses = ["commoner answer", *(f"{100 * found.guess(place):.1f}" for place in found.places)]
    rows = [
        [_SHORT_NAMES[name], *(str(found.score(name, place)) for place in found.places)] for name in found.methods
    ]
    draw(table(columns, [guesses, *rows], right=columns[1:]), *_paragraphs([*read_hospitals(found), NOISE]))


def _show_digits(found: Digits, seeds: str) -> None:
    _heading(f"Handwritten digits between {len(found.names)} parties (digits, {UNEVEN})")
    columns = [f"images (seed {found.seeds[0]})", *found.classes, "all"]
    rows = [
        [name, *(str(count or "·") for count in counts.tolist()), str(counts.sum())]
        for name, counts in zip(found.names, found.counts, strict=True)
    ]
    draw(table(columns, rows, right=columns[1:]), "", f"Accuracy in % (mean ± std, {seeds})")
    columns = ["", "test set", "mean party", "worst party"]
    scores = [
        [SPLIT_NAMES[name], str(method.accuracy), str(method.parties), str(method.worst)]
        for name, method in found.methods.items()
    ]
    draw(table(columns, scores, right=columns[1:]), *_paragraphs(read_digits(found)))
