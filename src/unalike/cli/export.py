"""``unalike export``: a trained model for other programs, or its card."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from unalike.cli import complete
from unalike.cli.complete import choices
from unalike.cli.options import DEFAULT_RUNS, AsJson, Plugins, RunsFolder
from unalike.cli.plugin import load_plugins
from unalike.cli.predict import OfParty, WhichModel
from unalike.cli.show import draw, print_json, size
from unalike.errors import UserError

if TYPE_CHECKING:
    from unalike.runs.model_file import Which

FORMATS = ("safetensors", "torch", "onnx", "json", "xgboost", "card")


def export(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|SITE",
            help="a finished run, by its folder or the beginning of its key; or a site's folder",
            autocompletion=complete.runs,
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="safetensors, torch (a torch.export program), onnx; of trees, json or xgboost; or card",
            autocompletion=choices(*FORMATS),
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FOLDER", help="where to [the run's key]", show_default=False),
    ] = None,
    which: WhichModel = None,
    party: OfParty = None,
    runs: RunsFolder = DEFAULT_RUNS,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Write a trained model for other programs, or its card: what it was trained on, and how well it does.

    \b
    Examples:
      unalike export 3f2a --to onnx -o model
      unalike export 3f2a --to xgboost -o model
      unalike export 3f2a --to card -o model

    Of a net, raw rows go in, in any number, and logits (or the predicted number) come out: scaling is inside.
    Trees read a table's numbers in its own units. A folder with safetensors is all that `unalike predict` needs.
    """
    with redirect_stdout(sys.stderr):
        load_plugins(plugin)
        files = _export(folder, to, output, cast("Which", which or "final"), party, runs)
    if as_json:
        print_json({"files": [str(path) for path in files]})
    else:
        draw(*(f"{path}: {size(path.stat().st_size)}" for path in files))


def _export(folder: Path, to: str, output: Path | None, which: Which, party: str | None, runs: Path) -> list[Path]:
    from unalike.runs.deploy import load, run_folder
    from unalike.runs.export import check_format, export, export_model
    from unalike.runs.kept import FolderModels
    from unalike.runs.record import SPEC

    check_format(to)
    place = run_folder(folder, runs)
    if (place / SPEC).exists():
        result = load(place)
        return export(result, output or Path(result.spec.key), to, which, party)
    if to == "card":
        raise UserError(f"{place} is a model without the figures of its run. Name the run's own folder.")
    store = FolderModels.open(place)
    return export_model(store, output or Path(store.about.key), to, which, party)
