"""``unalike predict``: use a trained model on a table of new rows."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unalike.cli.complete import choices
from unalike.cli.options import AsJson, Plugins, check_output
from unalike.cli.plugin import load_plugins
from unalike.cli.show import draw, number, print_json, say, table
from unalike.errors import UserError
from unalike.errors import unknown as unknown_name
from unalike.scores import SCORES, key_of, shown

if TYPE_CHECKING:
    from unalike.runs.predict import Predictions, Predictor

UNKNOWN = ("error", "zeros")
_PIECE = 10_000
"""Rows whose predictions are written at once."""


def predict(
    folder: Annotated[
        Path, typer.Argument(metavar="SITE", help="the site's copy of its invitation folder, after the training")
    ],
    data: Annotated[str, typer.Option(metavar="TABLE", help="the new rows, e.g. csv:new.csv")],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FILE.csv", help="where to; - is the screen [-]", show_default=False
        ),
    ] = Path("-"),
    unknown: Annotated[
        str,
        typer.Option(
            help="a category or a gap in a column that no site had: error, or code it as zeros [error]",
            show_default=False,
            autocompletion=choices(*UNKNOWN),
        ),
    ] = UNKNOWN[0],
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Use the model that a site has after a training on a table of new rows: predicted class, probabilities.

    \b
    Example:
      unalike predict va/invitation --data csv:new.csv -o predictions.csv

    The table has the columns that the model was trained on; other columns are not looked at. It is coded as all
    sites agreed. Where it has the label, too, the scores of the predictions are shown.
    """
    if unknown not in UNKNOWN:
        raise unknown_name("value of --unknown", unknown, UNKNOWN)
    to_file = str(output) != "-"
    if to_file:
        check_output(output, ("-o", ".csv"))
        if output.exists():
            raise UserError(f"{output} exists, and nothing is overwritten. Choose another name, or remove it.")
    with redirect_stdout(sys.stderr):  # what a plugin prints must not mix with the result
        load_plugins(plugin)
        made = _predict(_predictor(folder, unknown), data)
    left_out = int((made.answers < 0).sum())
    if left_out:
        rows = f"{left_out:,} of {len(made.answers):,} rows"
        say(f"No prediction for {rows}: they have a missing value, and the plan leaves such rows out.")
    if to_file:
        from unalike.runs.files import atomic_write

        atomic_write(output, b"".join(piece.encode(errors="replace") for piece in _csv(made)))
    if as_json:
        print_json(_json(made, str(output) if to_file else None))
    elif to_file:
        draw(f"{output}: {_count(made)}")
        _draw_figures(made)
    else:
        sys.stdout.writelines(_csv(made))
        with redirect_stdout(sys.stderr):
            _draw_figures(made)


def _predictor(folder: Path, unknown: Any) -> Predictor:
    """The model that a folder holds; what cannot be used yet is told in one line."""
    from unalike.federation.making import is_server
    from unalike.federation.using import site_predictor
    from unalike.runs.record import SPEC, WEIGHTS

    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}. Name a site's invitation folder, after its training.")
    if is_server(folder):
        raise UserError(
            f"{folder} is the server's folder, and the model is used at a site: name that one's folder."
        )
    if (folder / SPEC).exists():
        raise UserError(
            f"{folder} is a run's folder, which predict cannot use yet: name a site's folder, or load {WEIGHTS} "
            "in Python (docs/runs.md)."
        )
    return site_predictor(folder, unknown)


def _predict(predictor: Predictor, data: str) -> Predictions:
    import torch

    from unalike.data.table import table_loader

    torch.set_num_threads(1)  # as at the site: how many there are can change the last bits of a sum
    loader = table_loader(data)
    columns = loader.table()
    try:
        return predictor.predict(columns)
    except UserError as error:
        raise UserError(f"{getattr(loader, 'path', data)}: {error}") from None


def _csv(made: Predictions) -> Iterator[str]:
    """A line for every row of the table, in pieces: its predicted class, and the probability of each class."""
    yield _lines([[_heading(made), *made.classes]])
    for start in range(0, len(made.answers), _PIECE):
        own = slice(start, start + _PIECE)
        each = zip(made.answers[own].tolist(), made.probabilities[own].tolist(), strict=True)
        yield _lines([made.classes[k], *values] if k >= 0 else [""] * (1 + len(values)) for k, values in each)


def _lines(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _heading(made: Predictions) -> str:
    """What the first column is called: a class may have that name, too."""
    name = "predicted"
    while name in made.classes:
        name += "_"
    return name


def _json(made: Predictions, output: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "rows": len(made.answers),
        "predicted": made.counts,
        "figures": made.figures,
        "output": output,
    }
    if output is None:
        found["predictions"] = [
            {"predicted": made.classes[answer], "probabilities": dict(zip(made.classes, each, strict=True))}
            if answer >= 0
            else None
            for answer, each in zip(made.answers.tolist(), made.probabilities.tolist(), strict=True)
        ]
    return found


def _count(made: Predictions) -> str:
    each = ", ".join(f"{name} {count:,}" for name, count in made.counts.items() if count)
    return f"{len(made.answers):,} rows ({each})"


def _draw_figures(made: Predictions) -> None:
    """The scores beside the labels that the table has, if it has any."""
    if made.figures is None:
        return
    chosen = str(made.figures["score"])
    names = [chosen, *(score.name for score in SCORES.values() if score.name != chosen)]
    known = [[name, shown(name, made.figures[key_of(name)])] for name in names if key_of(name) in made.figures]
    head = f"beside the {made.figures['rows']:,} labels in the table"
    draw("", table([head, ""], [*known, ["loss", number(made.figures["loss"])]], right=[""]))
