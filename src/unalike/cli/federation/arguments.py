"""Arguments and options that several commands of ``unalike federation`` take, or one that takes many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unalike.cli.complete import choices

TablesFolder = Annotated[
    Path, typer.Option("--tables", metavar="FOLDER", help="a table for every site: NAME.csv or NAME.parquet")
]
ServerPath = Annotated[Path, typer.Argument(metavar="DIR", help="the server's folder")]
SitePath = Annotated[Path, typer.Argument(metavar="SITE", help="the site's copy of its invitation folder")]
LogFormat = Annotated[
    str,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        help="lines on stderr: text for people, or json, an object a line [text]",
        show_default=False,
        autocompletion=choices("text", "json"),
    ),
]
Monitor = Annotated[
    int | None,
    typer.Option(
        "--monitor",
        min=1,
        max=65535,
        metavar="PORT",
        help="answer /healthz and /metrics (Prometheus) on this port of 127.0.0.1",
    ),
]
MISSING = ("error", "indicate", "drop")
FIGURES = ("each", "none")
TRANSPORTS = ("https", "flower")
MissingValues = Annotated[
    str,
    typer.Option(
        help="missing values: error, indicate, drop, or keep for trees [error]",
        show_default=False,
        autocompletion=choices(*MISSING),
    ),
]
WhichFigures = Annotated[
    str,
    typer.Option(
        help="whether sites tell how well the model does: each or none [each]",
        show_default=False,
        autocompletion=choices(*FIGURES),
    ),
]
ID_CASES = ("fold", "keep")
IdColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        help="sites have other columns of the same people: what tells who a row is of; repeat it",
    ),
]
IdCase = Annotated[
    str,
    typer.Option(
        "--id-case",
        help="ids in upper and lower case are the same (fold) or not (keep) [fold]",
        show_default=False,
        autocompletion=choices(*ID_CASES),
    ),
]
IdStrip = Annotated[
    bool,
    typer.Option(
        "--id-strip/--no-id-strip", help="whether blanks around ids are left out [yes]", show_default=False
    ),
]
LeastCommon = Annotated[
    int, typer.Option("--least-common", min=2, help="fewer common people are refused [100]", show_default=False)
]
MostIds = Annotated[
    int, typer.Option("--most-ids", min=2, help="ids that a site may bring [1000000]", show_default=False)
]
