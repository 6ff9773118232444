"""``unalike predict``: use a trained model on a table of new rows."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from unalike.cli import complete
from unalike.cli.complete import choices
from unalike.cli.options import DEFAULT_RUNS, AsJson, Plugins, RunsFolder, check_output
from unalike.cli.plugin import load_plugins
from unalike.cli.show import draw, number, print_json, say, table
from unalike.errors import UserError, within
from unalike.errors import unknown as unknown_name
from unalike.scores import SCORES, key_of, shown

if TYPE_CHECKING:
    from unalike.data.new_rows import Unknown
    from unalike.runs.model_file import Which
    from unalike.runs.predict import Predictions, Predictor

UNKNOWN = ("error", "zeros")
_PIECE = 10_000
"""Rows whose predictions are written at once."""


WhichModel = Annotated[
    str | None,
    typer.Option(
        "--which",
        metavar="WHICH",
        help="of a run: final, or selected (on validation rows) [final]",
        show_default=False,
        autocompletion=choices("final", "selected"),
    ),
]
OfParty = Annotated[
    str | None,
    typer.Option(
        "--party", metavar="PARTY", help="of a run: the model of this party, by number or name", show_default=False
    ),
]


def predict(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|SITE",
            help="a finished run, by its folder or the beginning of its key; or a site's copy of its invitation "
            "folder, after the training",
            autocompletion=complete.runs,
        ),
    ],
    data: Annotated[str, typer.Option(metavar="TABLE", help="the new rows, e.g. csv:new.csv, or rows.npy")],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FILE.csv", help="where to; - is the screen [-]", show_default=False
        ),
    ] = Path("-"),
    which: WhichModel = None,
    party: OfParty = None,
    unknown: Annotated[
        str,
        typer.Option(
            help="a category or a gap in a column that training did not have: error, or code it as zeros [error]",
            show_default=False,
            autocompletion=choices(*UNKNOWN),
        ),
    ] = UNKNOWN[0],
    runs: RunsFolder = DEFAULT_RUNS,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Use a trained model on a table of new rows: predicted class and probabilities, or the predicted number.

    \b
    Examples:
      unalike predict 3f2a --data csv:new.csv -o predictions.csv
      unalike predict 3f2a --data csv:new.csv --which selected --party cleveland
      unalike predict va/invitation --data csv:new.csv -o predictions.csv

    The table has the columns that the model was trained on; other columns are not looked at. It is coded as the
    training's was; the data of the training are not needed. Where it has the label, too, the scores of the
    predictions are shown.
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
        made = _predictions(folder, runs, data, which, party, unknown)
    left_out = int((~made.predicted).sum())
    if left_out:
        rows = f"{left_out:,} of {len(made.answers):,} rows"
        say(f"No prediction for {rows}: they have a missing value, and the training left such rows out.")
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


def _predictions(
    folder: Path, runs: Path, data: str, which: str | None, party: str | None, unknown: str
) -> Predictions:
    """What the model in a folder says of the rows in a file."""
    import torch

    torch.set_num_threads(1)  # as at a site: how many there are can change the last bits of a sum
    site = _site(folder)
    if site is not None:
        if which is not None or party is not None:
            raise UserError(f"{folder} is a site's folder, which has one model. Leave --which and --party out.")
        from unalike.federation.using import site_predictor

        return _of_table(site_predictor(site, cast("Unknown", unknown)), data)
    from unalike.runs.deploy import predictor_of, read_array, run_folder
    from unalike.runs.kept import FolderModels, trained_model
    from unalike.runs.predict import array_rows, predictions

    store, chosen = FolderModels.open(run_folder(folder, runs)), cast("Which", which or "final")
    if data.endswith(".npy"):
        rows = array_rows(read_array(Path(data)), store.about)
        return predictions(trained_model(store, chosen, party), store.about.chosen_score, rows)
    return _of_table(predictor_of(store, chosen, party, cast("Unknown", unknown)), data)


def _site(folder: Path) -> Path | None:
    """The folder, if it is a site's own; a server's is refused."""
    from unalike.federation.making import is_server
    from unalike.runs.record import MODEL, SPEC

    if not folder.is_dir():
        return None
    if is_server(folder):
        raise UserError(
            f"{folder} is the server's folder, and the model is used at a site: name that one's folder."
        )
    invited = (folder / "party.txt").exists()
    return folder if invited or not ((folder / SPEC).exists() or (folder / MODEL).exists()) else None


def _of_table(predictor: Predictor, data: str) -> Predictions:
    from unalike.data.columns import KEY
    from unalike.data.table import table_loader

    loader = table_loader(data)
    columns = loader.table()
    try:
        made = predictor.predict(columns)
        return replace(made, keys=tuple(column for column in columns if column.unusable == KEY))
    except UserError as error:
        raise within(getattr(loader, "path", data), error) from None


def _csv(made: Predictions) -> Iterator[str]:
    """A line for every row of the table, in pieces: its key, predicted class, and each class's probability."""
    yield _lines([[*(column.name for column in made.keys), _heading(made), *made.classes]])
    keys = list(zip(*(column.cells for column in made.keys), strict=True)) or [()] * len(made.answers)
    for start in range(0, len(made.answers), _PIECE):
        own = slice(start, start + _PIECE)
        yield _lines([*key, *values] for key, values in zip(keys[own], _answers(made, own), strict=True))


def _answers(made: Predictions, own: slice) -> Iterator[Sequence[object]]:
    """What is predicted for some rows; nothing, where a row cannot be predicted."""
    if not made.classes:
        yield from ([value] if value == value else [""] for value in made.answers[own].tolist())
        return
    for answer, values in zip(made.answers[own].tolist(), made.probabilities[own].tolist(), strict=True):
        yield [made.classes[answer], *values] if answer >= 0 else [""] * (1 + len(values))


def _lines(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _heading(made: Predictions) -> str:
    """What the column of predictions is called: a class or a key may have that name, too."""
    name, taken = "predicted", (*made.classes, *(column.name for column in made.keys))
    while name in taken:
        name += "_"
    return name


def _json(made: Predictions, output: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "rows": len(made.answers),
        "predicted": made.counts,
        "figures": made.figures,
        "output": output,
    }
    if made.keys and output is None:
        found["keys"] = {column.name: column.cells for column in made.keys}
    if output is None and not made.classes:
        found["predictions"] = [
            {"predicted": value} if value == value else None for value in made.answers.tolist()
        ]
    elif output is None:
        found["predictions"] = [
            {"predicted": made.classes[answer], "probabilities": dict(zip(made.classes, each, strict=True))}
            if answer >= 0
            else None
            for answer, each in zip(made.answers.tolist(), made.probabilities.tolist(), strict=True)
        ]
    return found


def _count(made: Predictions) -> str:
    rows = f"{len(made.answers):,} rows"
    if not made.classes:
        known = made.answers[made.predicted]
        return f"{rows} (from {known.min():.6g} to {known.max():.6g})"
    return f"{rows} ({', '.join(f'{name} {count:,}' for name, count in made.counts.items() if count)})"


def _draw_figures(made: Predictions) -> None:
    """The scores beside the labels that the table has, if it has any."""
    if made.figures is None:
        return
    chosen = str(made.figures["score"])
    names = [chosen, *(score.name for score in SCORES.values() if score.name != chosen)]
    known = [[name, shown(name, made.figures[key_of(name)])] for name in names if key_of(name) in made.figures]
    head = f"beside the {made.figures['rows']:,} labels in the table"
    draw("", table([head, ""], [*known, ["loss", number(made.figures["loss"])]], right=[""]))
