"""Options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from unalike.cli import complete
from unalike.errors import UserError
from unalike.runs.files import named_folder

DEFAULT_RUNS = Path("runs")


def runs_folder(text: Path | str) -> Path:
    """The folder that ``--runs`` names; an error where that cannot be a folder."""
    return named_folder(text, "--runs")


RunsFolder = Annotated[
    Path,
    typer.Option(
        "--runs",
        parser=runs_folder,
        envvar="UNALIKE_RUNS",
        metavar="FOLDER",
        help="folder that keeps the runs [$UNALIKE_RUNS or runs]",
        show_default=False,
        show_envvar=False,
    ),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE.py", help="load parts of your own from a Python file; repeatable"),
]
ColumnTypes = Annotated[
    str,
    typer.Option(metavar="TEXT", help="kinds of columns, 'cp:category born:date'", show_default=False),
]
CodeColumns = Annotated[
    list[str] | None,
    typer.Option("--category", metavar="COLUMN", help="a column whose numbers are codes; repeat it"),
]
DatasetName = Annotated[
    str,
    typer.Option(
        "--dataset",
        metavar="TEXT",
        help="data set [digits]",
        show_default=False,
        autocompletion=complete.parts("dataset"),
    ),
]
PartitionText = Annotated[
    str,
    typer.Option(
        "--partition",
        metavar="TEXT",
        help="how it is split between parties [iid]",
        show_default=False,
        autocompletion=complete.parts("partition"),
    ),
]
PartiesNumber = Annotated[
    int | None,
    typer.Option("--parties", help="number of parties [10, or as many as the data have by nature]"),
]
Seed = Annotated[int, typer.Option("--seed", help="seed of the partition [0]", show_default=False)]
FirstDegree = Annotated[
    str | None,
    typer.Option(
        "--degree",
        metavar="TEXT",
        help="which degree of labels stands first: tv (total variation), or cdf (Kolmogorov-Smirnov, the paper's) "
        "for labels in order [tv]",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="no progress and no messages")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON, and nothing else, on stdout")]


def _use_data_folder(ctx: typer.Context, folder: Path | None) -> Path | None:
    """Before anything is loaded; a folder that is not there is a slip of the pen, not an empty one."""
    if folder is not None and not ctx.resilient_parsing:  # that is, unless the shell only asks for completions
        if not folder.expanduser().is_dir():
            raise UserError(f"--data-dir must be a folder, but there is none at {folder}. Check the path.")
        from unalike.data.folder import VARIABLE  # the loaders beside it are slow to import

        os.environ[VARIABLE] = str(folder)
    return folder


DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        callback=_use_data_folder,
        help="folder with downloaded data sets [$UNALIKE_DATA or the cache folder]",
        show_default=False,
    ),
]


def check_output(path: Path, rule: tuple[str, ...]) -> None:
    """A name with another ending, or a folder that is not there, is a slip of the pen."""
    flag, *endings = rule
    if path.suffix.lower() not in endings or path.is_dir():
        raise UserError(f"{flag} must be a file whose name ends in {endings[0]}, got {path}.")
    if not path.parent.is_dir():
        raise UserError(f"{flag} {path}: there is no folder {path.parent}. Make it first, or check the path.")


StudyScale = Annotated[float, typer.Option("--scale", help="of a study: as it is run [1]", show_default=False)]
StudyOnly = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="FIELD=VALUE", help="of a study: only these runs; repeatable"),
]
StudyBaselines = Annotated[
    bool, typer.Option("--baselines", help="of a study: with the baselines that it is run with")
]
